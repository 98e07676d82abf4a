# SPDX-License-Identifier: Apache-2.0
"""Show and read times in the zone that a user has chosen in Horizon, and name it."""

import contextlib
import datetime
from typing import Any, Final

from django.template import response as template_response
from django.utils import timezone
from horizon.utils import functions

from climate_common import dates

#: The ids of the fields of forms with times. To fields called id_start and id_end Horizon's script
#: attaches its date picker, which empties those that hold more than a day.
FIELD_IDS: Final = 'climate_%s'
_SHOWN: Final = '%Y-%m-%d %H:%M'
_LAST: Final = datetime.datetime.max.replace(second=0, microsecond=0, tzinfo=datetime.UTC)


class LocalTimeMixin:
    """Views whose times are in the zone of their user.

    Horizon does not set the zone for the requests of scripts, whose threads may still have the one
    of another user. What is rendered later would have that zone, too.
    """

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        with timezone.override(functions.get_timezone(request)):
            response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
            if isinstance(response, template_response.SimpleTemplateResponse):
                response = response.render()
            return response


def now() -> datetime.datetime:
    """Return the present in the zone of the user, in whole minutes."""
    return timezone.localtime().replace(second=0, microsecond=0)


def show(time: datetime.datetime | None) -> str:
    """Write a time in the zone of the user, as ``2026-12-01 16:07 CET``; nothing for None."""
    return '' if time is None else f'{_localize(time):{_SHOWN} %Z}'


def write(time: datetime.datetime) -> str:
    """Write a time for a field of a form; :func:`read` returns the same minute.

    The zone of the user is left out, except for a time that its clocks show twice.
    """
    # By way of UTC: the clocks may never show a time that was computed in the zone.
    local = _localize(time.astimezone(datetime.UTC))
    is_exact = local.utcoffset() == local.replace(fold=1 - local.fold).utcoffset()
    return (local.replace(tzinfo=None) if is_exact else local).isoformat(' ', 'minutes')


def zone_name() -> str:
    """Return the name of the zone of the user, as ``Europe/Berlin``."""
    return timezone.get_current_timezone_name()


def read(text: str) -> datetime.datetime:
    """Read a time that a user has entered, in their zone unless it has an offset.

    What :func:`show` writes is read, too, for times that are copied from another page.

    :raises climate_common.dates.DateError: it is none
    """
    zone = timezone.get_current_timezone()
    clock = text.strip().rpartition(' ')[0]
    # A name like CET stands for several offsets: only that of the user's own zone is accepted.
    with contextlib.suppress(ValueError, OverflowError):
        local = datetime.datetime.strptime(clock, _SHOWN).replace(tzinfo=zone)
        moments = {local.replace(fold=fold).astimezone(datetime.UTC) for fold in (0, 1)}
        shown = [time for time in moments if show(time) == text.strip()]
        if len(shown) == 1:
            return shown[0]
    return dates.parse(text, timezone.now(), zone)


def round_up(time: datetime.datetime) -> datetime.datetime:
    """Return the first whole minute that is not before a time; the last one that there is."""
    whole = time.replace(second=0, microsecond=0)
    is_later = whole < min(time, _LAST)
    return whole + datetime.timedelta(minutes=1) if is_later else whole


def _localize(time: datetime.datetime) -> datetime.datetime:
    return dates.localize(time, timezone.get_current_timezone())
