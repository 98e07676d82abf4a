# SPDX-License-Identifier: Apache-2.0
"""Allocate units of the calendar to reservations, check and change the allocations.

Reservations without units of the calendar are ignored.
"""

import collections
import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from climate_common import dates, limits, words
from climate_common.microseconds import from_microseconds
from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.model import Demand, QueuedRequest, RetainedAllocation, Window
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.db.engine import TransactionRejected
from climate_core.lease import model, states
from climate_core.lease.allocations import Allocation
from climate_core.lease.changes import queueing, update
from climate_core.lease.request import RAISE_FIRST, ErrorCollector, prefix_field
from climate_core.operations.draft import Draft, Item
from climate_core.plugins.base import ResourcePlugin

#: How far ahead capacity is kept for a queued lease that may start later.
_LATEST_START = datetime.timedelta(days=366)


@dataclasses.dataclass(frozen=True, slots=True)
class ReallocationResult:
    """The changed allocations of a lease.

    :param more: the ids of the reservations of an active lease whose units changed
    :param refused: the ids of the reservations that were not extended with their lease
    """

    more: Collection[str] = frozenset()
    refused: Collection[str] = frozenset()


@dataclasses.dataclass
class AllocationService:
    """Allocate, reallocate and release units, and check capacity."""

    calendar: Calendar
    plugins: Mapping[str, ResourcePlugin]

    def propose_units(self, draft: Draft) -> frozenset[int] | None:
        """Choose units for a draft by the index in memory, see :meth:`Calendar.propose`.

        :returns: None also for a draft with other resources, or without any
        """
        items = [item.reservation for item in draft.items]
        if not items or any(each.unit_kind is None for each in items):
            return None
        wanted = self._read_demands(items, {})
        if len(wanted) > limits.PROMISED:
            return None
        return self.calendar.propose(wanted, *_remaining_period(draft.lease, draft.now), draft.now)

    def check_capacity(self, draft: Draft, errors: ErrorCollector = RAISE_FIRST) -> None:
        """Reject a draft without sufficient capacity. Nothing is written.

        :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
        """
        fields = {item.reservation.id: item.field for item in draft.items}
        wanted = self._read_demands((item.reservation for item in draft.items), fields)
        if wanted:
            with errors.collected():
                _check_count(wanted)
                self.calendar.check_capacity(wanted, *_remaining_period(draft.lease, draft.now))

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
        wanted = self._read_demands((item.reservation for item in items), fields)
        _check_count(wanted)
        return self.calendar.find_windows(wanted, length, earliest, latest, limit)

    def count_shortage(self, lease: model.Lease, now: datetime.datetime) -> tuple[int, set[int]]:
        """Count the missing units of the only reservation of a lease.

        See :meth:`Calendar.count_missing`.
        """
        (wanted,) = self._read_demands(queueing.pending_reservations(lease), {})
        start, end = queueing.granted_period(lease, now)
        return self.calendar.count_missing(wanted, start, end)

    def read_waiting_demand(
        self, lease: model.Lease, now: datetime.datetime, turn: int
    ) -> QueuedRequest:
        """Return the demand of a queued lease, as if it were granted now.

        :param turn: its place in the search, which may not reach all leases
        :raises climate_core.exceptions.ClimateError: the demand is not known
        """
        start, end = queueing.granted_period(lease, now)
        later = _LATEST_START if lease.duration is not None else datetime.timedelta(0)
        wanted = self._read_demands(queueing.pending_reservations(lease), {})
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
        opened: Collection[int] = (),
        proposed: Collection[int] = (),
    ) -> model.Lease:
        """Allocate the units of reservations, whose rows are written already.

        :param fields: reservation id -> its place in the request
        :param opened: see :meth:`Calendar.allocate`, as of ``proposed``
        :returns: the lease with its allocations
        :raises climate_core.exceptions.BadRequest: they are too many
        :raises climate_core.exceptions.NotEnough: there is no sufficient capacity
        :raises climate_core.db.engine.Stale: another transaction was faster; repeat this one
        """
        wanted = self._read_demands(reservations, fields)
        if not wanted:
            return lease
        _check_count(wanted)
        allocations = collections.defaultdict[str, list[model.Allocation]](list)
        promised = self.calendar.allocate(
            transaction, wanted, *_remaining_period(lease, now), opened, proposed
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

    def reallocate_changed(
        self,
        transaction: CalendarTransaction,
        before: model.Lease,
        after: model.Lease,
        now: datetime.datetime,
        fields: Mapping[str, str],
        less: Mapping[str, RetainedAllocation],
        partial: bool = False,
    ) -> ReallocationResult:
        """Change the allocations of a lease that its user changed.

        Units in use are kept. Raises as :meth:`allocate`.

        :param fields: see :meth:`allocate`
        :param less: the units that shrinking reservations of an active lease keep, by their ids:
            all that :meth:`find_shrinking` returns
        :param partial: whether reservations keep their end if there is no capacity for the new one
        """
        wanted = self._read_demands(_find_changed(before, after), fields)
        if not wanted:
            return ReallocationResult()
        dates = _find_blamed_dates(before, after)
        wanted = [
            dataclasses.replace(each, field=dates.get(each.reservation_id, each.field))
            for each in wanted
        ]
        started = before.has_started(now)
        new, refused = self._replan(transaction, before, after, wanted, now, less, partial)
        if not started:
            return ReallocationResult(refused=refused)
        had = {(r.id, each.unit_id, each.pieces) for r in before.live for each in r.allocations}
        more = (p for p in new if (p.reservation_id, p.unit_id, p.pieces) not in had)
        return ReallocationResult({each.reservation_id for each in more} | less.keys(), refused)

    def _replan(
        self,
        transaction: CalendarTransaction,
        before: model.Lease,
        after: model.Lease,
        wanted: Sequence[Demand],
        now: datetime.datetime,
        less: Mapping[str, RetainedAllocation],
        partial: bool,
    ) -> tuple[list[Allocation], frozenset[str]]:
        """Reallocate all demands, or with ``partial`` those that can be extended.

        :returns: the new allocations, and the ids of the reservations that are not extended
        """
        refused: set[str] = set()
        first: TransactionRejected | None = None
        while True:
            asked = [each for each in wanted if each.reservation_id not in refused]
            if not asked:
                return [], frozenset(refused)
            try:
                new = self.calendar.reallocate(
                    transaction,
                    asked,
                    *_remaining_period(after, now),
                    before.has_started(now),
                    less,
                )
            except TransactionRejected as exc:
                one = exc.about
                # The first rejection is about the whole lease.
                first = first or exc
                if not partial:
                    raise _explain_partial(exc, before, after) from exc
                if one is None or not _is_partly_extended(before, after, {*refused, one}):
                    raise first from exc
                refused.add(one)
            else:
                return new, frozenset(refused)

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
        return self.plugins[reservation.resource_type].cleaning(reservation)

    def find_preempted(
        self, draft: Draft, promises: Mapping[str, Sequence[Allocation]]
    ) -> Sequence[str]:
        """Find the leases that a draft preempts, see :meth:`Calendar.find_preempted`."""
        wanted = self._read_demands((item.reservation for item in draft.items), {})
        return self.calendar.find_preempted(
            wanted, *_remaining_period(draft.lease, draft.now), promises
        )

    def find_shrinking(
        self,
        before: model.Lease,
        after: model.Lease,
        now: datetime.datetime,
        fields: Mapping[str, str],
    ) -> dict[str, int]:
        """Return the reservations of an active lease whose number of units decreases.

        :param fields: reservation id -> its place in the request
        :returns: the new number of units by their ids
        """
        if not before.has_started(now):
            return {}
        has = {each.id: sum(a.pieces for a in each.allocations) for each in before.live}
        return {
            each.reservation_id: each.max_pieces
            for each in self._read_demands(_find_changed(before, after), fields)
            if each.max_pieces < has[each.reservation_id]
        }

    def _read_demands(
        self, reservations: Iterable[model.Reservation], fields: Mapping[str, str]
    ) -> list[Demand]:
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

    def _plugin(self, reservation: model.Reservation) -> ResourcePlugin:
        plugin = self.plugins.get(reservation.resource_type)
        if plugin is None:
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


def _find_changed(before: model.Lease, after: model.Lease) -> list[model.Reservation]:
    """Return the reservations whose demands may have changed, as they are now."""
    if after.status in states.ENDING | states.UNGRANTED:
        return []
    old = {each.id: each for each in before.live}
    asked = update.resumed_ends(before, after)
    if update.moved_date(before, after) is not None:
        # A new date is for all but what ends before the lease.
        asked |= old.keys() - after.early_ends.keys()
    return [
        r for r in after.live if r.id in old and (r.id in asked or r.params != old[r.id].params)
    ]


def _find_blamed_dates(before: model.Lease, after: model.Lease) -> dict[str, str]:
    """Return the invalid date, by the reservations whose demand changes only with it."""
    date = update.moved_date(before, after)
    if update.resumed_ends(before, after):
        date = date or 'end_date'
    old = {each.id: each.params for each in before.live}
    same = (each.id for each in after.live if each.params == old.get(each.id))
    return {} if date is None else dict.fromkeys(same, date)


def _remaining_period(
    lease: model.Lease, now: datetime.datetime
) -> tuple[datetime.datetime, datetime.datetime]:
    """Return the future part of the time of a lease."""
    return max(lease.start_date, min(now, lease.end_date)), lease.end_date


def _is_partly_extended(before: model.Lease, after: model.Lease, refused: Collection[str]) -> bool:
    """Return whether a change extends a lease, and at least one reservation is not rejected.

    :param refused: the ids of rejected reservations
    """
    leaving = {e.id for e in after.live if e.status == states.ReservationStatus.DELETING}
    later = before.end_date < after.end_date or update.resumed_ends(before, after)
    rest = {each.id for each in after.live} - leaving - after.early_ends.keys()
    return bool(later and before.start_date == after.start_date and not rest <= {*refused})


def _explain_partial(
    refused: TransactionRejected, before: model.Lease, after: model.Lease
) -> TransactionRejected:
    """Return the rejection of a later end with the result of ``partial``, if that would help.

    :param refused: the rejection by the calendar, with all reservations without capacity
    """

    def explain() -> Exception:
        error = refused.explain()
        if not isinstance(error, exceptions.NotEnough) or not error.parts:
            return error
        if not _is_partly_extended(before, after, error.parts):
            return error
        early = before.early_ends
        ends = {early.get(each, before.end_date) for each in error.parts}
        told = words.listed([dates.sentence(each) for each in sorted(ends)])
        return exceptions.NotEnough(
            f'{error.message} With partial (--partial on the command line) all else is extended '
            f'until {dates.sentence(after.end_date)}, and '
            f'{"this part ends" if len(error.parts) == 1 else "these parts end"} at {told}, as '
            'before.',
            error.field,
            error.available_from,
        )

    return TransactionRejected(explain, refused.about)
