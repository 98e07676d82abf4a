# SPDX-License-Identifier: Apache-2.0
"""Explain why the calendar rejects a request. Allocations of other projects stay hidden. Pure."""

import dataclasses
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from climate_common import dates, words
from climate_common.microseconds import (
    delta_to_microseconds,
    format_microseconds,
    from_microseconds,
)
from climate_core import exceptions
from climate_core.calendar import windows
from climate_core.calendar.model import AllocationRequest, Demand, Shortage, Unit
from climate_core.calendar.search import (
    InsufficientCapacity,
    Search,
    TimelineSource,
    choose_units_jointly,
)
from climate_core.calendar.timeline import Timeline

#: How far ahead, in microseconds, a time is searched at which there would be enough.
HORIZON = 366 * 86_400 * 1_000_000
#: How many looks at units that search may take.
MAX_CHECKS = 25_000
#: The field of a request that moves the end of a lease.
_END_FIELD: Final = 'end_date'


def explain_rejection(
    wanted: Sequence[AllocationRequest],
    searches: Sequence[Search],
    missing: InsufficientCapacity,
    timelines_of: TimelineSource,
    rng: random.Random,
    until: int = 0,
) -> exceptions.ClimateError:
    """Return the error that a user reads; it says nothing of what others have.

    :param timelines_of: as they were searched
    :param until: when what a lease that is to be changed has so far ends
    """
    wrong = find_request_error(wanted, searches, missing.index, timelines_of)
    if wrong is not None:
        return wrong
    # Only a lease that is to end later, and nothing else, is to blame for that.
    if all(one.field == _END_FIELD for one in wanted):
        return _reject_extension(wanted, searches, missing, timelines_of, rng, until)
    blamed, search = wanted[missing.index], searches[missing.index]
    begin = search.start + delta_to_microseconds(blamed.before)
    end = search.end - delta_to_microseconds(blamed.after)
    times = format_microseconds(begin), format_microseconds(end)
    sentence = _describe_missing(missing.count, search, blamed.noun, times, timelines_of)
    if any(each.keep for each in searches):
        last = min(until - delta_to_microseconds(blamed.after), end)
        return _reject_change(sentence, blamed, search, searches, timelines_of, rng, last)
    later = _next_delay(searches, timelines_of, rng)
    if later is not None:
        return _reject_for_now(
            f'{sentence}. There is enough for the same duration', blamed, begin + later
        )
    never = _reject_for_ever(wanted, searches, timelines_of, rng)
    return never or exceptions.NotEnough(
        f'{sentence}, and no time was found in the next year at which there is enough.',
        field=blamed.field,
    )


def _reject_for_ever(
    wanted: Sequence[AllocationRequest],
    searches: Sequence[Search],
    timelines_of: TimelineSource,
    rng: random.Random,
) -> exceptions.NotEnough | None:
    """Return the refusal of what no time would have; None: some would."""
    found = find_permanent_shortage(wanted, searches, timelines_of, rng)
    if found is None:
        return None
    blamed, lack = found
    return exceptions.NotEnough(
        f'There will not be enough at any time: {lack.text}', field=_field_of(blamed, lack)
    )


def _reject_extension(
    wanted: Sequence[AllocationRequest],
    searches: Sequence[Search],
    missing: InsufficientCapacity,
    timelines_of: TimelineSource,
    rng: random.Random,
    until: int,
) -> exceptions.NotEnough:
    """Return the refusal of a later end: for each part until when it could be extended."""
    runs, blamed = any(each.keep for each in searches), wanted[missing.index]
    later = None if runs else _next_delay(searches, timelines_of, rng)
    never = (
        None
        if runs or later is not None
        else _reject_for_ever(wanted, searches, timelines_of, rng)
    )
    if never is not None:
        return never
    lasts, budget = until - delta_to_microseconds(blamed.after), windows.SearchBudget(MAX_CHECKS)
    later_ends = ExtensionSearch(timelines_of, rng, lasts, budget)
    told, parts = later_ends.explain(wanted, searches, missing.index)
    available = None
    if later is not None:
        available = searches[missing.index].start + delta_to_microseconds(blamed.before) + later
        told += f' With its new length it could begin at {format_microseconds(available)}.'
    return exceptions.NotEnough(
        told,
        blamed.field,
        None if available is None else dates.serialize(from_microseconds(available)),
        parts,
    )


def _reject_for_now(
    sentence: str, blamed: AllocationRequest, available: int
) -> exceptions.NotEnough:
    return exceptions.NotEnough(
        f'{sentence} from {format_microseconds(available)} on.',
        field=blamed.field,
        available_from=dates.serialize(from_microseconds(available)),
    )


def _reject_change(
    sentence: str,
    blamed: AllocationRequest,
    missed: Search,
    searches: Sequence[Search],
    timelines_of: TimelineSource,
    rng: random.Random,
    until: int,
) -> exceptions.NotEnough:
    """Return the refusal of a change of a lease that runs.

    :param missed: the search of what is blamed
    :param until: when the lease ends, as it is and as it is asked for
    """
    begin = max(each.begin for each in searches)
    budget = windows.SearchBudget(MAX_CHECKS)
    times = sorted(
        {
            time
            for search in searches
            for timeline in _useful_timelines(search, timelines_of)
            for time in timeline.ends(begin, until)
        }
    )
    # A search looks at all units, which is quick for each of them.
    cost = sum(len(timelines_of(each.demand.kind)) for each in searches) // windows.UNITS_PER_CHECK

    def fits(time: int) -> bool:
        later = [dataclasses.replace(each, start=max(each.start, time)) for each in searches]
        try:
            choose_units_jointly(later, timelines_of, rng)
        except InsufficientCapacity:
            return False
        return True

    # What fits at one time fits at all later ones: less time is left, and nothing is added.
    if not times or not fits(times[-1]):
        never = find_unit_shortage(
            blamed, [each.unit for each in _admitted_timelines(missed, timelines_of)]
        )
        told = f': {never.text}' if never else ''
        return exceptions.NotEnough(
            f'{sentence}, and there will not be enough at any time until the lease ends{told}.',
            field=_field_of(blamed, never),
        )
    # The earliest one, or when all looks are taken one at which there is enough, too.
    first, last = 0, len(times) - 1
    while first < last and budget.spend(cost):
        middle = (first + last) // 2
        first, last = (first, middle) if fits(times[middle]) else (middle + 1, last)
    return _reject_for_now(f'{sentence}. Ask again later: there is enough', blamed, times[last])


def find_request_error(
    wanted: Sequence[AllocationRequest],
    searches: Sequence[Search],
    index: int,
    timelines_of: TimelineSource,
) -> exceptions.ClimateError | None:
    """Return what is wrong with a demand at any time.

    It names a pool or property of nothing, or units that another one of the request names.

    :param index: the place of the demand, and of its search
    :param timelines_of: as they were searched
    """
    blamed, search = wanted[index], searches[index]
    pool = search.demand.pool
    if pool and not any(
        each.unit.pool == pool for each in _admitted_timelines(search, timelines_of)
    ):
        # One that is for others is told like one that is not there.
        field = _sibling_field(blamed, 'pool')
        told = f'{field}: there is no pool {pool} with {blamed.noun}.'
        return exceptions.HostPoolNotFound(told, field=field)
    unknown = _unknown_property(search, timelines_of)
    if unknown is not None:
        name, field = unknown
        field = _sibling_field(blamed, field)
        return search.demand.unknown(f'{field}: there is no property {name}.', field=field)
    return find_duplicate_units(wanted, searches, index, timelines_of)


def _field_of(blamed: AllocationRequest, lack: Shortage | None) -> str:
    """Return the field that asks for what is lacking; if no single one does, the amount."""
    return _sibling_field(blamed, lack.field) if lack and lack.field else blamed.field


def _sibling_field(blamed: AllocationRequest, field: str) -> str:
    """Return the place in the request of another field of the same reservation."""
    place = blamed.field.rpartition('.')[0]
    return f'{place}.{field}' if place else field


def _useful_timelines(search: Search, timelines_of: TimelineSource) -> Iterator[Timeline]:
    """Yield the timelines of units that a search may find something of."""
    demand = search.demand
    return (
        each
        for each in timelines_of(demand.kind)
        if each.unit.id in search.own or (each.unit.available and demand.matches(each.unit))
    )


def _admitted_timelines(search: Search, timelines_of: TimelineSource) -> Iterator[Timeline]:
    admits = search.demand.admits
    return (each for each in timelines_of(search.demand.kind) if admits(each.unit))


def _unknown_property(search: Search, timelines_of: TimelineSource) -> tuple[str, str] | None:
    """Return the name of a property that no unit has, and the field that names it."""
    names = search.demand.names
    timelines = list(_admitted_timelines(search, timelines_of)) if names else []
    missing = set(names) if timelines else set()
    for each in timelines:
        if not missing:
            return None
        missing -= each.unit.properties.keys()
    return next(((name, names[name]) for name in sorted(missing)), None)


def _describe_missing(
    count: int, search: Search, noun: str, times: tuple[str, str], timelines_of: TimelineSource
) -> str:
    """Return the beginning of a sentence: what is not free, and when.

    :param count: how much there is
    :param times: between which it is demanded
    """
    taken = allocated_names(search, timelines_of, own=search.keep)
    if taken:
        return f'{describe_allocated(taken)} between {" and ".join(times)}'
    return f'{_describe_count(count, search.demand, noun)} from {" to ".join(times)}'


def _describe_count(count: int, demand: Demand, noun: str) -> str:
    """Return the beginning of a sentence: how much there is of what is demanded."""
    least = demand.least
    if demand.piece is not None:
        shape = 'of this shape'
        if least == 1:
            return f'There is no room for a {noun.removesuffix("s")} {shape}'
        if demand.one_unit:
            return f'There is no room for {least} {noun} {shape} on one {demand.kind}'
        some = f'room for {count}' if count else 'no room for any'
        return f'There is {some} of {least} {noun} {shape}'
    if not count:
        return (
            f'None of the {noun} that would do are free'
            if least == 1
            else f'At least {least} {noun} are needed, and none is free'
        )
    return f'Only {count} of at least {least} {noun} {"is" if count == 1 else "are"} free'


def _next_delay(
    searches: Sequence[Search], timelines_of: TimelineSource, rng: random.Random
) -> int | None:
    return windows.find_next_delay(
        searches, 0, timelines_of, HORIZON, rng, windows.SearchBudget(MAX_CHECKS)
    )


#: Times are shown in whole seconds, and must not be shown as later than they are.
_SECOND: Final = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class ExtensionSearch:
    """Search later ends of a lease.

    :param until: when the lease ends as it is
    :param budget: how much may still be searched
    """

    timelines_of: TimelineSource
    rng: random.Random
    until: int
    budget: windows.SearchBudget

    def explain(
        self, wanted: Sequence[AllocationRequest], searches: Sequence[Search], refused: int
    ) -> tuple[str, list[str]]:
        """Return until when a lease, and each part of it that is in the way, could be extended.

        :param searches: for the time with the end that is asked for, which is too late
        :param refused: the search that found too little
        :returns: sentences, and the ids of the reservations that cannot be extended so far
        """
        # The rng may have found now what they did not find before.
        found = self._in_the_way(searches) or [refused]
        parts = []
        for index in found:
            one, search = wanted[index], searches[index]
            latest = self.latest_end([one], [search])
            names = allocated_names(search, self.timelines_of, own=True)
            noun = one.noun.removesuffix('s') if len(names) == 1 else one.noun
            what = f'{noun} {words.listed(names)}' if names else noun
            longer = 'not be kept any longer'
            if latest is not None:
                longer = f'be kept until {format_microseconds(latest)}'
            parts.append(f'{what} (reservation {one.reservation_id}) could {longer}')
        end = format_microseconds(
            searches[found[0]].end - delta_to_microseconds(wanted[found[0]].after)
        )
        told = f'This lease cannot be extended until {end}: {"; ".join(parts)}.'
        whole = self.latest_end(wanted, searches)
        if whole is not None:
            told += f' This lease could be extended until {format_microseconds(whole)}.'
        return told, [wanted[index].reservation_id for index in found]

    def _in_the_way(self, searches: Sequence[Search]) -> list[int]:
        """Return which of the searches there must not be for the others to find enough."""
        found: list[int] = []
        left = list(range(len(searches)))
        while left:
            missing = self._missing([searches[index] for index in left])
            if missing is None:
                break
            found.append(left.pop(missing))
        return sorted(found)

    def latest_end(
        self, wanted: Sequence[AllocationRequest], searches: Sequence[Search]
    ) -> int | None:
        """Return a later end that a lease could have, the latest that is found.

        :param searches: for the time with the end that is asked for, which is too late
        :returns: None: it cannot end any later, or all looks are taken
        """
        afters = [delta_to_microseconds(one.after) for one in wanted]
        ends: set[int] = set()
        for search, after in zip(searches, afters, strict=True):
            for each in self.timelines_of(search.demand.kind):
                first = bisect_right(each.starts, self.until + after)
                starts = each.starts[first : bisect_left(each.starts, search.end)]
                ends.update((start - after) // _SECOND * _SECOND for start in starts)
        # What fits until one time fits until all earlier ones.
        times = sorted(end for end in ends if end > self.until)
        cost = (
            sum(len(self.timelines_of(each.demand.kind)) for each in searches)
            // windows.UNITS_PER_CHECK
        )
        found, first, last = None, 0, len(times)
        while first < last and self.budget.spend(cost):
            middle = (first + last) // 2
            shorter = [
                dataclasses.replace(search, end=times[middle] + after)
                for search, after in zip(searches, afters, strict=True)
            ]
            if self._missing(shorter) is None:
                found, first = times[middle], middle + 1
            else:
                last = middle
        return found

    def _missing(self, searches: Sequence[Search]) -> int | None:
        """Return which of the searches finds too little; None if all find enough."""
        try:
            choose_units_jointly(searches, self.timelines_of, self.rng)
        except InsufficientCapacity as exc:
            return exc.index
        return None


def find_permanent_shortage(
    wanted: Sequence[AllocationRequest],
    searches: Sequence[Search],
    timelines_of: TimelineSource,
    rng: random.Random,
) -> tuple[AllocationRequest, Shortage] | None:
    """Return for which demand something is lacking at any time; None: other times would do.

    Units that a demand may not have are not spoken of.

    :param timelines_of: as they were searched
    """
    bare = [dataclasses.replace(each, own={}, keep=False) for each in searches]

    def try_all(change: Callable[[Unit], Unit]) -> InsufficientCapacity | None:
        empty = {
            kind: [Timeline(change(each.unit)) for each in timelines_of(kind)]
            for kind in {each.demand.kind for each in searches}
        }
        try:
            choose_units_jointly(bare, empty.__getitem__, rng)
        except InsufficientCapacity as exc:
            return exc
        return None

    missing = try_all(lambda unit: unit)
    if missing is None:
        return None
    one, search = wanted[missing.index], searches[missing.index]
    units = [
        each.unit for each in timelines_of(search.demand.kind) if search.demand.admits(each.unit)
    ]
    disabled = find_disabled_units(one, units)
    lack = find_unit_shortage(one, units) or disabled or _count_shortage(one, missing.count)
    told = f'{lack.text}.'
    if lack is not disabled and try_all(_enabled) is None:
        told += ' More would do, but are disabled or serve ordinary servers at the moment.'
    return one, lack._replace(text=told)


def _enabled(unit: Unit) -> Unit:
    return dataclasses.replace(unit, available=unit.lanes > 0)


def find_unit_shortage(wanted: AllocationRequest, units: Sequence[Unit]) -> Shortage | None:
    """Return why no single unit would do, or not all that are named; None: some would.

    :param units: those that the demand may have
    """
    demand = wanted.demand
    pool = [each for each in units if demand.pool in (None, each.pool)]
    fitting = [each for each in pool if demand.matches(each)]
    if not pool:
        return Shortage(f'no {demand.kind} is in a pool that may be used')
    if not fitting or (demand.named and len(fitting) < demand.least):
        return demand.lacking(pool) or Shortage(f'no {demand.kind} would do')
    pieces = demand.least if demand.one_unit else 1
    for name, size in (demand.piece or {}).items():
        # A unit with an inventory of nothing is withheld by Nova for a time.
        largest = max(each.capacity.get(name, 0) for each in fitting)
        if 0 < largest < size * pieces:
            return Shortage(
                f'no {demand.kind} has {size * pieces} {name}; the largest has {largest}'
            )
    return None


def _count_shortage(wanted: AllocationRequest, count: int) -> Shortage:
    if not count:
        return Shortage(f'no {wanted.demand.kind} would do')
    room = words.counted(count, wanted.noun.removesuffix('s'))
    demand = wanted.demand
    apart = f', each on another {demand.kind}' if demand.most_per_unit == 1 else ''
    return Shortage(f'there is room for {room} in all{apart}, not for {demand.least}')


def allocated_names(search: Search, timelines_of: TimelineSource, own: bool) -> list[str]:
    """Return the names of the units of a search that others are promised in its time.

    They are those that its request names.

    :param own: whether they are those that it has, too
    :returns: nothing if users know no names of them
    """
    demand = search.demand

    def is_asked_for(unit: Unit) -> bool:
        return (own and unit.id in search.own) or (demand.named and demand.matches(unit))

    found = [
        each.unit
        for each in timelines_of(demand.kind)
        if is_asked_for(each.unit) and not _is_free(each, search)
    ]
    return _unit_names(found, demand)


def _is_free(timeline: Timeline, search: Search) -> bool:
    return timeline.fits(search.begin, search.end, search.demand.piece, 1) > 0


def _unit_names(units: Sequence[Unit], demand: Demand) -> list[str]:
    return [each for each in map(demand.name, units) if each]


def describe_allocated(names: Sequence[str]) -> str:
    """Return the beginning of a sentence: which units others are promised."""
    if len(names) == 1:
        return f'{names[0]} is promised to another reservation'
    return f'{words.listed(names)} are promised to other reservations'


def find_duplicate_units(
    wanted: Sequence[AllocationRequest],
    searches: Sequence[Search],
    index: int,
    timelines_of: TimelineSource,
) -> exceptions.BadRequest | None:
    """Return what is wrong with a request that names units of one of its demands twice."""
    blamed, mine = wanted[index], _named_units(searches[index], timelines_of)
    for number, other in enumerate(searches):
        if number == index or other.demand.kind != searches[index].demand.kind:
            continue
        theirs = _named_units(other, timelines_of)
        both = mine.keys() & theirs.keys()
        needed = other.demand.least + blamed.demand.least
        if both and needed > len(mine.keys() | theirs.keys()):
            names = _unit_names([mine[each] for each in sorted(both)], blamed.demand)
            there, here = wanted[number].field, blamed.field
            return exceptions.BadRequest(
                f'{here}: the request names {words.listed(names)} twice, here and in {there}. '
                'Name each once.',
                field=here,
            )
    return None


def _named_units(search: Search, timelines_of: TimelineSource) -> dict[int, Unit]:
    demand = search.demand
    if not demand.named:
        return {}
    return {e.unit.id: e.unit for e in timelines_of(demand.kind) if demand.matches(e.unit)}


def find_disabled_units(wanted: AllocationRequest, units: Sequence[Unit]) -> Shortage | None:
    """Return which units that a demand names take no promises; None: all do.

    :param units: those that the demand may have
    """
    demand = wanted.demand
    if not demand.named:
        return None
    found = [each for each in units if not each.available and demand.matches(each)]
    names = _unit_names(found, demand)
    if not names:
        return None
    return Shortage(f'{words.listed(names)} {"is" if len(names) == 1 else "are"} disabled')
