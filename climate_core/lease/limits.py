# SPDX-License-Identifier: Apache-2.0
"""Enforce limits of the length, the start and the amounts of leases. Pure.

The names of the limits are those that are registered in Keystone. An amount that a reservation
does not name counts as 0.
"""

import dataclasses
import datetime
import math
from collections.abc import Iterable, Mapping
from typing import Final

from climate_common.resource_types import LIMITED_UNITS
from climate_core import exceptions
from climate_core.lease import events, model

LEASES: Final = 'leases'
_PREFIX = 'reserved_'
#: The names of the limits, in the order in which they are shown.
NAMES: Final = (LEASES, *(f'{_PREFIX}{unit}' for unit in LIMITED_UNITS))
#: The value of Keystone for "no limit".
UNLIMITED: Final = -1

Amounts = Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class HeldAmounts:
    """The amounts that one lease claims, by the names of the limits, until its end."""

    end: datetime.datetime
    amounts: Amounts


def check_length(start: datetime.datetime, end: datetime.datetime, most: float) -> None:
    """Reject a lease that is longer than ``most`` seconds, if not 0, by LeaseTooLong."""
    seconds = (end - start).total_seconds()
    if most and seconds > most:
        # Rounded up: a part of a second too long must not be shown as the limit.
        length, limit = _format_seconds(math.ceil(seconds)), _format_seconds(most)
        message = f'A lease may be {limit} long at most, not {length}.'
        raise exceptions.LeaseTooLong(message, field='end_date')


def check_ahead(start: datetime.datetime, now: datetime.datetime, most: float) -> None:
    """Reject a start more than ``most`` seconds ahead, if not 0, by LeaseTooFarAhead."""
    if most and (start - now).total_seconds() > most:
        message = f'A lease may start {_format_seconds(most)} from now at most.'
        raise exceptions.LeaseTooFarAhead(message, field='start_date')


def check_reservations(number: int, most: int) -> None:
    """Check the number of live reservations of a lease after an addition.

    :raises climate_core.exceptions.BadRequest: it is more than ``most``
    """
    if number > most:
        raise exceptions.BadRequest(
            f'reservations: a lease must have at most {most}; a count of 2 counts as 2.',
            field='reservations',
        )


def check_events(lease: model.Lease, before: model.Lease | None, most: int) -> None:
    """Check the number of events that users added; fewer than before is always accepted.

    :param before: the lease as it is; None for a new one
    :raises climate_core.exceptions.BadRequest: it is more than ``most``
    """
    number = _count_given_events(lease)
    if number > most and (before is None or number > _count_given_events(before)):
        raise exceptions.BadRequest(
            f'events: a lease must have at most {most}, not {number}.', field='events'
        )


def _count_given_events(lease: model.Lease) -> int:
    return sum(events.is_user_event(each.event_type) for each in lease.events)


def sum_amounts(reservations: Iterable[model.Reservation], leases: int = 0) -> dict[str, int]:
    """Add up what reservations, and leases, claim, by the names of the limits."""
    return sum_units([each.amounts for each in reservations], leases)


def sum_units(units: Iterable[Amounts], leases: int = 0) -> dict[str, int]:
    """Add up amounts by unit (``vcpus``), giving amounts by limit (``reserved_vcpus``)."""
    added = dict.fromkeys(NAMES, 0) | {LEASES: leases}
    for each in units:
        for unit, number in each.items():
            if _PREFIX + unit in added:
                added[_PREFIX + unit] += int(number)
    return added


def multiply_amounts(units: Amounts, count: int) -> dict[str, int]:
    """Multiply amounts."""
    return {unit: int(number) * count for unit, number in units.items()}


def enforce_limits(limits: Amounts, used: Amounts, adding: Amounts) -> None:
    """Reject what would exceed a limit, by LimitExceeded; an addition of 0 is always accepted."""
    if over := _exceeded(limits, used, adding):
        exceeded = '; '.join(
            f'{name}: {adding[name]} more would exceed the limit of {limits[name]}, '
            f'{used.get(name, 0)} in use'
            for name in over
        )
        message = f'The project would exceed its limits. {exceeded}.'
        raise exceptions.LimitExceeded(message, field=over[0])


def fits_limits(limits: Amounts, used: Amounts, adding: Amounts) -> bool:
    """Return whether limits accept an addition."""
    return not _exceeded(limits, used, adding)


def add_usage(most: Amounts | None, used: Amounts, adding: Amounts) -> Amounts:
    """Return the usage after an addition; LimitExceeded if there are limits and it exceeds one."""
    if most is not None:
        enforce_limits(most, used, adding)
    return {name: used.get(name, 0) + number for name, number in adding.items()}


def available_from(
    limits: Amounts, adding: Amounts, held: Iterable[HeldAmounts], now: datetime.datetime
) -> datetime.datetime | None:
    """Return when an addition fits into the limits, because leases have ended.

    :returns: the end of one of them, or ``now`` if it is past or it fits already; None: never
    """
    going = sorted(held, key=lambda each: each.end)
    used = {name: sum(each.amounts.get(name, 0) for each in going) for name in adding}
    time = now
    for each in going:
        if fits_limits(limits, used, adding):
            return time
        used = {name: used[name] - each.amounts.get(name, 0) for name in used}
        time = max(now, each.end)
    return time if fits_limits(limits, used, adding) else None


def _exceeded(limits: Amounts, used: Amounts, adding: Amounts) -> list[str]:
    return [
        name
        for name in adding
        if adding[name] > 0
        and limits.get(name, UNLIMITED) != UNLIMITED
        and used.get(name, 0) + adding[name] > limits[name]
    ]


def _format_seconds(seconds: float) -> str:
    """Format seconds for users, as ``1 day, 2:03:04``."""
    return str(datetime.timedelta(seconds=round(seconds)))
