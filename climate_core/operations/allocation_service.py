# SPDX-License-Identifier: Apache-2.0
"""Allocate units of the calendar to reservations, and check their capacity.

Reservations without units of the calendar are ignored.
"""

import collections
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from climate_common import limits
from climate_common.dates import from_microseconds
from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.model import Demand, QueuedRequest, Window
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.lease import model
from climate_core.lease.allocations import Allocation
from climate_core.lease.events import queue
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, prefix_field
from climate_core.operations.draft import Draft, Item
from climate_core.plugins.base import CalendarBacked, ResourcePlugin

#: How far ahead capacity is kept for a queued lease that may start later.
_LATEST_START = datetime.timedelta(days=366)


@dataclasses.dataclass
class AllocationService:
    """Allocate and release units, and check capacity."""

    calendar: Calendar
    plugins: Mapping[str, ResourcePlugin]

    def propose_units(self, draft: Draft) -> frozenset[int] | None:
        """Choose units for a draft by the index in memory, see :meth:`Calendar.propose`.

        :returns: None also for a draft with other resources, or without any
        """
        items = [item.reservation for item in draft.items]
        if not items or any(each.unit_kind is None for each in items):
            return None
        wanted = self.read_requests(items, {})
        if len(wanted) > limits.PROMISED:
            return None
        return self.calendar.propose(wanted, *remaining_period(draft.lease, draft.now), draft.now)

    def check_capacity(self, draft: Draft, errors: ErrorCollector = RAISE_FIRST) -> None:
        """Reject a draft without sufficient capacity. Nothing is written.

        :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
        """
        fields = {item.reservation.id: item.field for item in draft.items}
        wanted = self.read_requests((item.reservation for item in draft.items), fields)
        if wanted:
            with errors.collected():
                _check_count(wanted)
                self.calendar.check_capacity(wanted, *remaining_period(draft.lease, draft.now))

    def find_windows(
        self,
        items: Iterable[Item],
        length: datetime.timedelta,
        earliest: datetime.datetime,
        latest: datetime.datetime,
        limit: int,
    ) -> Sequence[Window]:
        """Find when there is capacity for all items, see :meth:`Calendar.find_windows`.

        :raises climate_core.exceptions.BadRequest: they are too many
        """
        items = list(items)
        fields = {item.reservation.id: item.field for item in items}
        wanted = self.read_requests((item.reservation for item in items), fields)
        _check_count(wanted)
        return self.calendar.find_windows(wanted, length, earliest, latest, limit)

    def count_shortage(self, lease: model.Lease, now: datetime.datetime) -> tuple[int, set[int]]:
        """Count the missing units of the only reservation of a lease.

        See :meth:`Calendar.count_missing`.
        """
        (wanted,) = self.read_requests(queue.pending_reservations(lease), {})
        start, end = queue.granted_period(lease, now)
        return self.calendar.count_missing(wanted, start, end)

    def read_waiting_demand(
        self, lease: model.Lease, now: datetime.datetime, turn: int
    ) -> QueuedRequest:
        """Return the demand of a queued lease, as if it were granted now.

        :param turn: its place in the search, which may not reach all leases
        :raises climate_core.exceptions.ClimateError: the demand is not known
        """
        start, end = queue.granted_period(lease, now)
        later = _LATEST_START if lease.duration is not None else datetime.timedelta(0)
        wanted = self.read_requests(queue.pending_reservations(lease), {})
        return QueuedRequest(
            id=lease.id,
            project_id=lease.project_id,
            demands=wanted,
            start=start,
            end=end,
            latest=later,
            turn=turn,
        )

    def allocate(
        self,
        transaction: CalendarTransaction,
        lease: model.Lease,
        reservations: Iterable[model.Reservation],
        fields: Mapping[str, str],
        now: datetime.datetime,
        forced_available: Collection[int] = (),
        proposed: Collection[int] = (),
    ) -> model.Lease:
        """Allocate the units of reservations, whose rows are written already.

        :param fields: reservation id -> its place in the request
        :param forced_available: see :meth:`Calendar.allocate`, as of ``proposed``
        :returns: the lease with its allocations
        :raises climate_core.exceptions.BadRequest: they are too many
        :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
        :raises climate_core.db.engine.Stale: another transaction was faster; repeat this one
        """
        wanted = self.read_requests(reservations, fields)
        if not wanted:
            return lease
        _check_count(wanted)
        allocations = collections.defaultdict[str, list[model.Allocation]](list)
        promised = self.calendar.allocate(
            transaction, wanted, *remaining_period(lease, now), forced_available, proposed
        )
        for each in sorted(promised, key=attrgetter('unit_id')):
            unit = transaction.unit(each.unit_id).properties
            allocations[each.reservation_id].append(_allocation(each, unit))
        new = (
            dataclasses.replace(reservation, allocations=tuple(allocations[reservation.id]))
            for reservation in lease.reservations
            if reservation.id in allocations
        )
        return lease.with_reservations(*new)

    def release(
        self, transaction: CalendarTransaction, lease: model.Lease, time: datetime.datetime
    ) -> None:
        """Release the units of a lease from a time on.

        :param time: when other leases can have them, after cleaning
        """
        for each in lease.live:
            if each.unit_kind is None:
                continue
            cleaning = self.cleaning(each)
            self.calendar.release(transaction, {each.id: ()}, time - cleaning, cleaning)

    def cleaning(self, reservation: model.Reservation) -> datetime.timedelta:
        """Return how long the units of a reservation are kept free after it."""
        plugin = self.plugins[reservation.resource_type]
        if not isinstance(plugin, CalendarBacked):
            # Its own service holds its capacity, which is free immediately.
            return datetime.timedelta(0)
        return plugin.cleaning(reservation)

    def find_preempted(
        self,
        lease: model.Lease,
        reservations: Iterable[model.Reservation],
        now: datetime.datetime,
        promises: Mapping[str, Sequence[Allocation]],
    ) -> Sequence[str]:
        """Find the leases that a lease preempts, see :meth:`Calendar.find_preempted`."""
        wanted = self.read_requests(reservations, {})
        return self.calendar.find_preempted(wanted, *remaining_period(lease, now), promises)

    def read_requests(
        self, reservations: Iterable[model.Reservation], fields: Mapping[str, str]
    ) -> list[Demand]:
        """Return the requests of reservations for units, as their plugins read them.

        :param fields: reservation id -> its place in the request
        """
        found = []
        for each in reservations:
            if each.unit_kind is None:
                continue
            place = fields.get(each.id, '')
            with prefix_field(place):
                wanted = self._plugin(each).wanted(each)
            field = f'{place}.{wanted.field}' if place else wanted.field
            found.append(dataclasses.replace(wanted, field=field))
        return found

    def _plugin(self, reservation: model.Reservation) -> CalendarBacked:
        plugin = self.plugins.get(reservation.resource_type)
        if not isinstance(plugin, CalendarBacked):
            raise exceptions.UnknownResourceType(
                f'{reservation.resource_type} is not enabled any more, so this lease cannot be '
                'changed.'
            )
        return plugin


def _allocation(promise: Allocation, unit: Mapping[str, Any]) -> model.Allocation:
    return model.Allocation(
        unit_id=promise.unit_id,
        start=from_microseconds(promise.start),
        end=from_microseconds(promise.end),
        pieces=promise.pieces,
        lane=promise.lane,
        unit=unit,
    )


def _check_count(wanted: Sequence[Demand]) -> None:
    """Reject too many reservations in a request: the calendar searches all units for each."""
    if len(wanted) > limits.PROMISED:
        raise exceptions.BadRequest(
            f'reservations: must have {limits.PROMISED} of hosts and capacity at most in one '
            f'request, not {len(wanted)}. Ask for more in each, or add the rest later.',
            field='reservations',
        )


def remaining_period(
    lease: model.Lease, now: datetime.datetime
) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the future part of the time of a lease."""
    return max(lease.start_date, min(now, lease.end_date)), lease.end_date
