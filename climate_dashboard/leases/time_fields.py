# SPDX-License-Identifier: Apache-2.0
"""Fields of forms for times and durations: a date and time picker in the zone of the user."""

import datetime
import re
from typing import Any, Final

from django.utils.translation import gettext_lazy as _
from horizon import forms

from climate_common import dates
from climate_dashboard import times

#: A time as a picker has it; pages and addresses have a blank in place of the ``T``.
_PICKED: Final = re.compile(r'(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)')


class TimeInput(forms.TextInput):
    """A picker; a text field for values that no picker can show, such as one with an offset."""

    input_type = 'datetime-local'

    def format_value(self, value: Any) -> str | None:
        shown: str | None = super().format_value(value)
        found = _PICKED.fullmatch((shown or '').strip())
        return 'T'.join(found.groups()) if found else shown

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        shown = context['widget']['value']
        if shown and not _PICKED.fullmatch(shown):
            context['widget']['type'] = 'text'
        return context


class TimeField(forms.CharField):
    """A time in the zone of the user, which the label names; None if it is empty."""

    widget = TimeInput

    def get_bound_field(self, form: Any, field_name: str) -> Any:
        bound = super().get_bound_field(form, field_name)
        bound.label = _('%(label)s (%(zone)s)') % {'label': bound.label, 'zone': times.zone_name()}
        return bound

    def clean(self, value: Any) -> datetime.datetime | None:
        text = super().clean(value).strip()
        try:
            return times.read(text) if text else None
        except dates.DateError as error:
            # Corrected by hand: a picker has no offset for a time that the clocks show twice.
            self.widget.input_type = 'text'
            raise forms.ValidationError(str(error)) from None


class StartField(TimeField):
    """A start: ``now`` if it is empty."""

    def clean(self, value: Any) -> Any:
        is_now = (value or '').strip().lower() == 'now'
        return 'now' if is_now else super().clean(value) or 'now'


class DurationField(forms.CharField):
    """A duration; None if it is empty."""

    def clean(self, value: Any) -> datetime.timedelta | None:
        text = super().clean(value).strip()
        try:
            return dates.parse_duration(text) if text else None
        except dates.DurationError as error:
            raise forms.ValidationError(str(error)) from None
