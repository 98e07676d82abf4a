# SPDX-License-Identifier: Apache-2.0
"""Explain why the calendar rejects a request. Allocations of other projects stay hidden. Pure."""

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from climate_common import dates, words
from climate_common.dates import delta_to_microseconds, format_microseconds, from_microseconds
from climate_core import exceptions
from climate_core.calendar import windows
from climate_core.calendar.model import Demand, Shortage, Unit
from climate_core.calendar.search import (
    InsufficientCapacity,
    JointSearch,
    Search,
    Timelines,
)
from climate_core.calendar.unit_timeline import Timeline
from climate_core.concurrency import SearchBudget

#: How far ahead, in microseconds, a time with sufficient capacity is searched.
HORIZON = 366 * 86_400 * 1_000_000
#: Maximum number of units that an explanation checks.
MAX_CHECKS = 25_000
#: The field of a request that moves the end of a lease.
_END_FIELD: Final = 'end_date'
#: Times are shown in whole seconds, and must not be shown as later than they are.
_SECOND: Final = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Rejection(JointSearch):
    """The rejection of a request for which the calendar lacks capacity."""

    def explain(self, missing: InsufficientCapacity, until: int = 0) -> exceptions.ClimateError:
        """Return the error that the user reads.

        :param until: when the allocations end that a lease has so far
        """
        error = self.find_error(missing.index)
        if error is not None:
            return error
        # Nothing else is requested than a later end, so that alone is the invalid field.
        if all(search.demand.field == _END_FIELD for search in self.searches):
            return self._reject_extension(missing.index, until)
        search = self.searches[missing.index]
        demand, start = search.demand, search.start
        end = search.end - delta_to_microseconds(demand.after)
        problem = self._describe_problem(missing, start, end)
        if self._is_running:
            last = min(until - delta_to_microseconds(demand.after), end)
            return self._reject_change(problem, missing.index, last)
        delay = self._find_next_delay()
        if delay is not None:
            return exceptions.NotEnough(
                f'{problem}. Capacity is sufficient for the same duration from '
                f'{format_microseconds(start + delay)} on.',
                field=demand.field,
                available_from=_serialize(start + delay),
            )
        return self._reject_for_ever() or exceptions.NotEnough(
            f'{problem}, and no time with sufficient capacity was found in the next year.',
            field=demand.field,
        )

    def find_error(self, index: int) -> exceptions.ClimateError | None:
        """Return the error of a request that is invalid at any time.

        It names an unknown pool or property, or units that another request names, too.

        :param index: the place of the request
        """
        demand = self.searches[index].demand
        units = [timeline.unit for timeline in self._admitted(index)]
        if demand.pool and all(unit.pool != demand.pool for unit in units):
            # The pools of other projects are as unknown as pools that do not exist.
            field = _sibling_field(demand, 'pool')
            return exceptions.HostPoolNotFound(
                f'{field}: there is no pool {demand.pool} with {demand.noun}.', field=field
            )
        unknown = _find_unknown_property(demand.property_fields, units)
        if unknown is not None:
            field = _sibling_field(demand, demand.property_fields[unknown])
            return demand.unknown_property(
                f'{field}: there is no property {unknown}.', field=field
            )
        return self._find_duplicate_units(index)

    def _find_duplicate_units(self, index: int) -> exceptions.BadRequest | None:
        """Return the error of a request that names units which another request needs."""
        demand, mine = self.searches[index].demand, self._named_units(index)
        for number, search in enumerate(self.searches):
            other = search.demand
            if number == index or other.kind != demand.kind:
                continue
            theirs = self._named_units(number)
            both = mine.keys() & theirs.keys()
            needed = other.min_pieces + demand.min_pieces
            if both and needed > len(mine.keys() | theirs.keys()):
                names = _unit_names([mine[unit_id] for unit_id in sorted(both)], demand)
                return exceptions.BadRequest(
                    f'{demand.field}: the request names {words.listed(names)} twice, here and '
                    f'in {other.field}. Name each once.',
                    field=demand.field,
                )
        return None

    def find_permanent_shortage(self) -> tuple[Demand, Shortage] | None:
        """Return what a request lacks even if nothing is allocated; None: other times may do.

        Units that a request may not have are ignored.
        """
        missing = self._without_allocations(enabled=False).find_missing()
        if missing is None:
            return None
        demand = self.searches[missing.index].demand
        units = [timeline.unit for timeline in self._admitted(missing.index)]
        disabled = find_disabled_units(demand, units)
        shortage = (
            _find_unit_shortage(demand, units)
            or disabled
            or _describe_total(demand, missing.count)
        )
        text = f'{shortage.text}.'
        if shortage is not disabled and (
            self._without_allocations(enabled=True).find_missing() is None
        ):
            text += ' More units match, but are disabled or serve ordinary servers now.'
        return demand, shortage._replace(text=text)

    def _without_allocations(self, enabled: bool) -> 'Rejection':
        """Return the same request of units of which nothing is allocated.

        :param enabled: whether disabled units accept allocations, too
        """
        timelines = {
            kind: [
                Timeline(
                    dataclasses.replace(timeline.unit, available=timeline.unit.lanes > 0)
                    if enabled
                    else timeline.unit
                )
                for timeline in self.by_kind.get(kind, ())
            ]
            for kind in {search.demand.kind for search in self.searches}
        }
        searches = [dataclasses.replace(each, own={}, keep=False) for each in self.searches]
        return dataclasses.replace(self, searches=searches, by_kind=timelines)

    def explain_extension(
        self, index: int, until: int, budget: SearchBudget
    ) -> tuple[str, list[str]]:
        """Return until when the lease, and each reservation in the way, could be extended.

        :param index: the place of the request that lacks capacity
        :param until: when the lease ends as it is
        :returns: sentences, and the ids of the reservations that cannot be extended so far
        """
        # The repeated search may succeed: its order is random.
        obstacles = self._find_obstacles() or [index]
        parts = []
        for number in obstacles:
            search = self.searches[number]
            demand = search.demand
            latest = self._only([number]).find_latest_end(until, budget)
            names = allocated_names(search, self.by_kind, own=True)
            noun = demand.noun.removesuffix('s') if len(names) == 1 else demand.noun
            what = f'{noun} {words.listed(names)}' if names else noun
            what = f'{what} (reservation {demand.reservation_id})'
            parts.append(
                f'{what} could not be kept any longer'
                if latest is None
                else f'{what} could be kept until {format_microseconds(latest)}'
            )
        search = self.searches[obstacles[0]]
        end = format_microseconds(search.end - delta_to_microseconds(search.demand.after))
        message = f'This lease cannot be extended until {end}: {"; ".join(parts)}.'
        latest = self.find_latest_end(until, budget)
        if latest is not None:
            message += f' This lease could be extended until {format_microseconds(latest)}.'
        return message, [self.searches[number].demand.reservation_id for number in obstacles]

    def _find_obstacles(self) -> list[int]:
        """Return the requests without which the other requests find sufficient capacity."""
        obstacles: list[int] = []
        left = list(range(len(self.searches)))
        while left:
            missing = self._only(left).find_missing()
            if missing is None:
                break
            obstacles.append(left.pop(missing.index))
        return sorted(obstacles)

    def find_latest_end(self, until: int, budget: SearchBudget) -> int | None:
        """Return the latest end that is found for the lease.

        :param until: when the lease ends as it is
        :returns: None: it cannot end later, or the budget is spent
        """
        afters = [delta_to_microseconds(search.demand.after) for search in self.searches]
        ends: set[int] = set()
        for search, after in zip(self.searches, afters, strict=True):
            for timeline in self.by_kind.get(search.demand.kind, ()):
                first = bisect_right(timeline.starts, until + after)
                starts = timeline.starts[first : bisect_left(timeline.starts, search.end)]
                ends.update((start - after) // _SECOND * _SECOND for start in starts)
        # What fits until one time fits until all earlier times.
        times = sorted(end for end in ends if end > until)
        latest, first, last = None, 0, len(times)
        while first < last and budget.spend(self.cost):
            middle = (first + last) // 2
            shorter = [
                dataclasses.replace(search, end=times[middle] + after)
                for search, after in zip(self.searches, afters, strict=True)
            ]
            if dataclasses.replace(self, searches=shorter).find_missing() is None:
                latest, first = times[middle], middle + 1
            else:
                last = middle
        return latest

    def _reject_for_ever(self) -> exceptions.NotEnough | None:
        """Return the error if no time would have sufficient capacity."""
        permanent = self.find_permanent_shortage()
        if permanent is None:
            return None
        demand, shortage = permanent
        return exceptions.NotEnough(
            f'Capacity is insufficient at all times: {shortage.text}',
            field=_field_of(demand, shortage),
        )

    def _reject_extension(self, index: int, until: int) -> exceptions.NotEnough:
        """Return the error of a later end: until when each reservation could be extended."""
        demand, delay = self.searches[index].demand, None
        if not self._is_running:
            delay = self._find_next_delay()
            error = self._reject_for_ever() if delay is None else None
            if error is not None:
                return error
        until -= delta_to_microseconds(demand.after)
        budget = SearchBudget(MAX_CHECKS)
        message, reservation_ids = self.explain_extension(index, until, budget)
        available_from = None
        if delay is not None:
            start = self.searches[index].start + delay
            message += f' With its new length it could start at {format_microseconds(start)}.'
            available_from = _serialize(start)
        return exceptions.NotEnough(message, demand.field, available_from, reservation_ids)

    def _reject_change(self, problem: str, index: int, until: int) -> exceptions.NotEnough:
        """Return the error of a change of a running lease.

        :param until: the earlier one of its end and the requested end
        """
        demand = self.searches[index].demand
        begin = max(search.begin for search in self.searches)
        budget = SearchBudget(MAX_CHECKS)
        times = sorted(
            {
                time
                for number in range(len(self.searches))
                for timeline in self._usable(number)
                for time in timeline.ends(begin, until)
            }
        )

        def fits(time: int) -> bool:
            later = [
                dataclasses.replace(search, start=max(search.start, time))
                for search in self.searches
            ]
            return dataclasses.replace(self, searches=later).find_missing() is None

        # What fits at one time fits at all later times: less time is left, nothing is added.
        if not times or not fits(times[-1]):
            units = [timeline.unit for timeline in self._admitted(index)]
            shortage = _find_unit_shortage(demand, units)
            reason = f': {shortage.text}' if shortage else ''
            return exceptions.NotEnough(
                f'{problem}, and capacity is insufficient at all times until the lease ends'
                f'{reason}.',
                field=_field_of(demand, shortage),
            )
        # The earliest time, or when the budget is spent a later time that fits, too.
        first, last = 0, len(times) - 1
        while first < last and budget.spend(self.cost):
            middle = (first + last) // 2
            first, last = (first, middle) if fits(times[middle]) else (middle + 1, last)
        return exceptions.NotEnough(
            f'{problem}. Retry later: capacity is sufficient from '
            f'{format_microseconds(times[last])} on.',
            field=demand.field,
            available_from=_serialize(times[last]),
        )

    def _describe_problem(self, missing: InsufficientCapacity, start: int, end: int) -> str:
        """Return the beginning of a sentence: what is not free, and when."""
        search = self.searches[missing.index]
        demand, count = search.demand, missing.count
        least, kind, noun = demand.min_pieces, demand.kind, demand.noun
        first, last = format_microseconds(start), format_microseconds(end)
        names = allocated_names(search, self.by_kind, own=search.keep)
        if len(names) == 1:
            return f'{names[0]} is allocated to another reservation between {first} and {last}'
        if names:
            return (
                f'{words.listed(names)} are allocated to other reservations between {first} and '
                f'{last}'
            )
        if demand.piece is None:
            if count:
                verb = 'is' if count == 1 else 'are'
                return (
                    f'Only {count} of at least {least} {noun} {verb} free from {first} to {last}'
                )
            if least == 1:
                return f'None of the {noun} that match are free from {first} to {last}'
            return f'At least {least} {noun} are needed, and none is free from {first} to {last}'
        if least == 1:
            return (
                f'There is no capacity for a {noun.removesuffix("s")} of this shape from {first} '
                f'to {last}'
            )
        if demand.single_unit:
            return (
                f'There is no capacity for {least} {noun} of this shape on one {kind} from '
                f'{first} to {last}'
            )
        if not count:
            return (
                f'There is no capacity for any of {least} {noun} of this shape from {first} to '
                f'{last}'
            )
        return (
            f'There is capacity for {count} of {least} {noun} of this shape from {first} to {last}'
        )

    @property
    def _is_running(self) -> bool:
        return any(search.keep for search in self.searches)

    def _only(self, indexes: Sequence[int]) -> 'Rejection':
        """Return a part of the requests."""
        return dataclasses.replace(self, searches=[self.searches[index] for index in indexes])

    def _find_next_delay(self) -> int | None:
        budget = SearchBudget(MAX_CHECKS)
        return windows.find_next_delay(self, 0, HORIZON, budget)

    def _admitted(self, index: int) -> Iterator[Timeline]:
        """Yield the timelines of the units that a request may have."""
        demand = self.searches[index].demand
        return (each for each in self.by_kind.get(demand.kind, ()) if demand.admits(each.unit))

    def _usable(self, index: int) -> Iterator[Timeline]:
        """Yield the timelines of the units that a search may choose."""
        search = self.searches[index]
        demand = search.demand
        return (
            each
            for each in self.by_kind.get(demand.kind, ())
            if each.unit.id in search.own or (each.unit.available and demand.matches(each.unit))
        )

    def _named_units(self, index: int) -> dict[int, Unit]:
        demand = self.searches[index].demand
        if not demand.names_units:
            return {}
        units = (timeline.unit for timeline in self.by_kind.get(demand.kind, ()))
        return {unit.id: unit for unit in units if demand.matches(unit)}


def allocated_names(search: Search, by_kind: Timelines, own: bool) -> list[str]:
    """Return the names of the requested units that other reservations have at that time.

    :param own: whether units that the reservation has are requested, too
    :returns: nothing if users know no names of them
    """
    demand = search.demand

    def is_requested(unit: Unit) -> bool:
        return (own and unit.id in search.own) or (demand.names_units and demand.matches(unit))

    units = [
        timeline.unit
        for timeline in by_kind.get(demand.kind, ())
        if is_requested(timeline.unit)
        and not timeline.fits(search.begin, search.end, demand.piece, 1)
    ]
    return _unit_names(units, demand)


def find_disabled_units(demand: Demand, units: Sequence[Unit]) -> Shortage | None:
    """Return which units that a request names accept no allocations; None: all do.

    :param units: the units that the request may have
    """
    if not demand.names_units:
        return None
    disabled = [unit for unit in units if not unit.available and demand.matches(unit)]
    names = _unit_names(disabled, demand)
    if not names:
        return None
    return Shortage(f'{words.listed(names)} {"is" if len(names) == 1 else "are"} disabled')


def _find_unit_shortage(demand: Demand, units: Sequence[Unit]) -> Shortage | None:
    """Return why no single unit matches, or not all that are named; None: some match.

    :param units: the units that the request may have
    """
    pool = [unit for unit in units if demand.pool in (None, unit.pool)]
    fitting = [unit for unit in pool if demand.matches(unit)]
    if not pool:
        return Shortage(f'no {demand.kind} is in a pool that may be used')
    if not fitting or (demand.names_units and len(fitting) < demand.min_pieces):
        return demand.unit_filter.find_shortage(pool) or Shortage(f'no {demand.kind} matches')
    pieces = demand.min_pieces if demand.single_unit else 1
    for name, size in (demand.piece or {}).items():
        # Nova withholds a unit whose inventory is empty for a time.
        largest = max(unit.capacity.get(name, 0) for unit in fitting)
        if 0 < largest < size * pieces:
            return Shortage(
                f'no {demand.kind} has {size * pieces} {name}; the largest has {largest}'
            )
    return None


def _describe_total(demand: Demand, count: int) -> Shortage:
    """Return the shortage of a request that all units together do not satisfy."""
    if not count:
        return Shortage(f'no {demand.kind} matches')
    pieces = words.counted(count, demand.noun.removesuffix('s'))
    apart = f', each on another {demand.kind}' if demand.max_per_unit == 1 else ''
    return Shortage(f'there is capacity for {pieces} in all{apart}, not for {demand.min_pieces}')


def _find_unknown_property(names: Mapping[str, str], units: Sequence[Unit]) -> str | None:
    """Return the first name of a property that no unit has; None if there are no units."""
    missing = set(names) if units else set()
    for unit in units:
        if not missing:
            return None
        missing -= unit.properties.keys()
    return min(missing, default=None)


def _unit_names(units: Sequence[Unit], demand: Demand) -> list[str]:
    return [name for name in map(demand.unit_filter.unit_name, units) if name]


def _field_of(demand: Demand, shortage: Shortage | None) -> str:
    """Return the field that requests what is short; if no single field does, the amount."""
    if shortage and shortage.field:
        return _sibling_field(demand, shortage.field)
    return demand.field


def _sibling_field(demand: Demand, field: str) -> str:
    """Return the place in the request of another field of the same reservation."""
    place = demand.field.rpartition('.')[0]
    return f'{place}.{field}' if place else field


def _serialize(time: int) -> str | None:
    return dates.serialize(from_microseconds(time))
