# SPDX-License-Identifier: Apache-2.0
"""Forms by which a lease ends later or earlier."""

import datetime
from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _
from horizon import forms, messages

from climate_common import dates
from climate_dashboard import api, times
from climate_dashboard.leases import time_fields
from climateclient import exceptions
from climateclient.models import Lease


class EndForm(forms.SelfHandlingForm):
    """A new end of a lease: so much from the old one, or a certain time.

    The lease is changed only if it is still the one that the user has seen.
    """

    sign: ClassVar[int]
    wrong: ClassVar[Any]

    by = time_fields.DurationField(
        label=_('By'), required=False, help_text=_('Such as 90m, 8h or 1d 12h'), max_length=64
    )
    end = time_fields.TimeField(
        label=_('New end'),
        required=False,
        max_length=64,
        help_text=_('A date and time, instead of that'),
    )
    generation = forms.IntegerField(widget=forms.HiddenInput())

    def __init__(self, request: Any, *args: Any, lease: Lease, **kwargs: Any) -> None:
        super().__init__(request, *args, auto_id=times.FIELD_IDS, **kwargs)
        self.lease = lease

    def clean(self) -> dict[str, Any]:
        given = super().clean()
        if self.errors:
            return given
        by, end = given['by'], given['end']
        if (by is None) == (end is None):
            raise forms.ValidationError(_('Either one or the other must be given.'))
        given['until'] = end or self._moved(by)
        if self.lease.end_date and (given['until'] - self.lease.end_date) * self.sign <= _NONE:
            raise forms.ValidationError(self.wrong % times.show(self.lease.end_date))
        return given

    def handle(self, request: Any, data: dict[str, Any]) -> bool:
        try:
            api.client(request).leases.update(
                self.lease.id,
                end=data['until'],
                generation=data['generation'],
                **self._more(data),
            )
        except exceptions.ApiError as error:
            self.api_error(api.error_text(error))
            return False
        text = _('%(name)s ends at %(end)s.')
        values = {'name': self.lease.name, 'end': times.show(data['until'])}
        messages.success(request, text % values)
        return True

    def _moved(self, by: datetime.timedelta) -> datetime.datetime:
        end = self.lease.end_date or times.now()
        try:
            return dates.add_duration(end, by * self.sign)
        except dates.DurationError as error:
            raise forms.ValidationError(str(error)) from None

    def _more(self, data: dict[str, Any]) -> dict[str, Any]:
        return {}


class ExtendForm(EndForm):
    """A later end."""

    sign = 1
    wrong = _('The new end must be later than %s.')

    partial = forms.BooleanField(
        label=_('Extend the resources that can be extended, if not all can'), required=False
    )

    def _more(self, data: dict[str, Any]) -> dict[str, Any]:
        return {'partial': True} if data['partial'] else {}


class ShortenForm(EndForm):
    """An earlier end."""

    sign = -1
    wrong = _('The new end must be earlier than %s.')


_NONE = datetime.timedelta(0)
