# SPDX-License-Identifier: Apache-2.0
"""Allocate units of the calendar to reservations, and check their capacity.

Reservations without units of the calendar are ignored.
"""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from climate_common import limits
from climate_common.dates import from_microseconds
from climate_core import exceptions
from climate_core.calendar.model import Demand
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.lease import model
from climate_core.lease.events import queue
from climate_core.lease.model import Allocation
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, prefix_field
from climate_core.operations.draft import Draft
from climate_core.operations.services import Services
from climate_core.plugins.base import CalendarBacked, ResourcePlugin


def propose_units(services: Services, draft: Draft) -> frozenset[int] | None:
    """Choose units for a draft by the index in memory, see :meth:`.Calendar.propose`.

    :returns: None also for a draft with other resources, or without any
    """
    reservations = [item.reservation for item in draft.items]
    if not reservations or any(each.unit_kind is None for each in reservations):
        return None
    demands = read_demands(services.plugins, reservations)
    if len(demands) > limits.CALENDAR_RESERVATIONS:
        return None
    period = remaining_period(draft.lease, draft.now)
    return services.calendar.propose(demands, *period, draft.now)


def check_capacity(services: Services, draft: Draft, errors: ErrorCollector = RAISE_FIRST) -> None:
    """Reject a draft without sufficient capacity. Nothing is written.

    :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
    """
    reservations = (item.reservation for item in draft.items)
    demands = read_demands(services.plugins, reservations, draft.fields)
    if demands:
        with errors.collected():
            check_count(demands)
            period = remaining_period(draft.lease, draft.now)
            services.calendar.check_capacity(demands, *period)


def allocate(
    services: Services,
    transaction: CalendarTransaction,
    lease: model.Lease,
    demands: Sequence[Demand],
    now: datetime.datetime,
    forced_available: Collection[int] = (),
    proposed: Collection[int] = (),
) -> model.Lease:
    """Allocate units to reservations of a lease, whose rows are written already.

    :param forced_available: see :meth:`.Calendar.allocate`, as of ``proposed``
    :returns: the lease with its allocations
    :raises climate_core.exceptions.BadRequest: the demands are too many
    :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
    :raises climate_core.db.engine.Stale: another transaction was faster; repeat this one
    """
    if not demands:
        return lease
    check_count(demands)
    period = remaining_period(lease, now)
    added = services.calendar.allocate(transaction, demands, *period, forced_available, proposed)
    allocations = defaultdict[str, list[model.AllocatedUnit]](list)
    for allocation in sorted(added, key=attrgetter('unit_id')):
        unit = transaction.unit(allocation.unit_id).properties
        allocations[allocation.reservation_id].append(_allocated_unit(allocation, unit))
    return lease.with_reservations(
        *(
            dataclasses.replace(reservation, allocations=tuple(allocations[reservation.id]))
            for reservation in lease.reservations
            if reservation.id in allocations
        )
    )


def describe_units(services: Services, lease: model.Lease) -> model.Lease:
    """Return a lease with the facts of its units, and with candidates where it has no units yet.

    Nothing is allocated.
    """
    allocations = {each.id: each.allocations for each in lease.reservations}
    for each in _find_candidates(services, lease):
        allocations[each.reservation_id] += (_allocated_unit(each, {}),)
    ids = {each.unit_id for own in allocations.values() for each in own}
    facts = services.calendar.describe_units(ids)

    def describe(unit: model.AllocatedUnit) -> model.AllocatedUnit:
        return dataclasses.replace(unit, unit={**unit.unit, **facts.get(unit.unit_id, {})})

    return lease.with_reservations(
        *(
            dataclasses.replace(each, allocations=tuple(map(describe, allocations[each.id])))
            for each in lease.reservations
            if allocations[each.id]
        )
    )


def _find_candidates(services: Services, lease: model.Lease) -> Sequence[Allocation]:
    new = [
        reservation
        for reservation in lease.live
        if not reservation.allocations
        and isinstance(services.plugins.get(reservation.resource_type), CalendarBacked)
    ]
    demands = read_demands(services.plugins, new)
    if not demands or len(demands) > limits.CALENDAR_RESERVATIONS:
        return ()
    period = remaining_period(lease, services.clock.now())
    return services.calendar.find_candidates(demands, *period)


def _allocated_unit(allocation: Allocation, unit: Mapping[str, Any]) -> model.AllocatedUnit:
    return model.AllocatedUnit(
        unit_id=allocation.unit_id,
        start=from_microseconds(allocation.start),
        end=from_microseconds(allocation.end),
        pieces=allocation.pieces,
        lane=allocation.lane,
        unit=unit,
    )


def count_shortage(
    services: Services, lease: model.Lease, now: datetime.datetime
) -> tuple[int, set[int]]:
    """Count the missing units of the only reservation of a queued lease.

    See :meth:`.Calendar.count_missing`.
    """
    (demand,) = read_demands(services.plugins, queue.pending_reservations(lease))
    return services.calendar.count_missing(demand, *queue.granted_period(lease, now))


def read_demands(
    plugins: Mapping[str, ResourcePlugin],
    reservations: Iterable[model.Reservation],
    fields: Mapping[str, str] = MappingProxyType({}),
) -> list[Demand]:
    """Return the demands of reservations for units, as their plugins read them.

    :param fields: reservation id -> its place in the request
    """
    demands = []
    for reservation in reservations:
        if reservation.unit_kind is None:
            continue
        plugin = plugins.get(reservation.resource_type)
        place = fields.get(reservation.id, '')
        with prefix_field(place):
            if not isinstance(plugin, CalendarBacked):
                raise exceptions.UnknownResourceType(
                    f'{reservation.resource_type} is not enabled any more, so this lease cannot '
                    'be changed.'
                )
            demand = plugin.read_demand(reservation)
        field = f'{place}.{demand.field}' if place else demand.field
        demands.append(dataclasses.replace(demand, field=field))
    return demands


def check_count(demands: Sequence[Demand]) -> None:
    """Reject too many reservations in a request: the calendar searches all units for each."""
    if len(demands) > limits.CALENDAR_RESERVATIONS:
        raise exceptions.BadRequest(
            f'reservations: must have {limits.CALENDAR_RESERVATIONS} of hosts and capacity at '
            f'most in one request, not {len(demands)}. Use a higher count in each, or add the '
            'rest later.',
            field='reservations',
        )


def remaining_period(
    lease: model.Lease, now: datetime.datetime
) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the future part of the time of a lease."""
    return max(lease.start_date, min(now, lease.end_date)), lease.end_date
