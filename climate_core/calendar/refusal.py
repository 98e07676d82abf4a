# SPDX-License-Identifier: Apache-2.0
"""Explain what is missing when the calendar cannot promise what is demanded."""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Final

from climate_common import dates
from climate_core import exceptions
from climate_core.calendar import extension, named, windows
from climate_core.calendar.lacking import lacking, of_one
from climate_core.calendar.model import Demand, Lack, ReservationDemand
from climate_core.calendar.moments import duration, text, time_of
from climate_core.calendar.rooms import Search
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NotFitting, find_together

#: How far ahead, in microseconds, a time is searched at which there would be enough.
HORIZON = 366 * 86_400 * 1_000_000
#: How many looks at units that search may take.
LOOKS = 25_000
#: The field of a request that moves the end of a lease.
_END: Final = 'end_date'


def refusal(
    wanted: Sequence[ReservationDemand],
    searches: Sequence[Search],
    missing: NotFitting,
    kinds: Kinds,
    dice: random.Random,
    until: int = 0,
) -> exceptions.ClimateError:
    """Return the error that a user reads; it says nothing of what others have.

    :param kinds: as they were searched
    :param until: when what a lease that is to be changed has so far ends
    """
    wrong = mistake(wanted, searches, missing.index, kinds)
    if wrong is not None:
        return wrong
    # Only a lease that is to end later, and nothing else, is to blame for that.
    if all(one.field == _END for one in wanted):
        return _not_extended(wanted, searches, missing, kinds, dice, until)
    blamed, search = wanted[missing.index], searches[missing.index]
    begin = search.start + duration(blamed.before)
    end = search.end - duration(blamed.after)
    times = text(begin), text(end)
    sentence = _sentence(missing.count, search, blamed.noun, times, kinds)
    if any(each.keep for each in searches):
        last = min(until - duration(blamed.after), end)
        return _while_it_runs(sentence, blamed, search, searches, kinds, dice, last)
    later = _later(searches, kinds, dice)
    if later is not None:
        return _not_now(
            f'{sentence}. There is enough for the same duration', blamed, begin + later
        )
    never = _never(wanted, searches, kinds, dice)
    return never or exceptions.NotEnough(
        f'{sentence}, and no time was found in the next year at which there is enough.',
        field=blamed.field,
    )


def _never(
    wanted: Sequence[ReservationDemand],
    searches: Sequence[Search],
    kinds: Kinds,
    dice: random.Random,
) -> exceptions.NotEnough | None:
    """Return the refusal of what no time would have; None: some would."""
    found = lacking(wanted, searches, kinds, dice)
    if found is None:
        return None
    blamed, lack = found
    return exceptions.NotEnough(
        f'There will not be enough at any time: {lack.text}', field=_field(blamed, lack)
    )


def _not_extended(
    wanted: Sequence[ReservationDemand],
    searches: Sequence[Search],
    missing: NotFitting,
    kinds: Kinds,
    dice: random.Random,
    until: int,
) -> exceptions.NotEnough:
    """Return the refusal of a later end: for each part until when it could be extended."""
    runs, blamed = any(each.keep for each in searches), wanted[missing.index]
    later = None if runs else _later(searches, kinds, dice)
    never = None if runs or later is not None else _never(wanted, searches, kinds, dice)
    if never is not None:
        return never
    lasts, budget = until - duration(blamed.after), windows.SearchBudget(LOOKS)
    later_ends = extension.Extension(kinds, dice, lasts, budget)
    told, parts = later_ends.explain(wanted, searches, missing.index)
    available = None
    if later is not None:
        available = searches[missing.index].start + duration(blamed.before) + later
        told += f' With its new length it could begin at {text(available)}.'
    return exceptions.NotEnough(
        told,
        blamed.field,
        None if available is None else dates.serialize(time_of(available)),
        parts,
    )


def _not_now(sentence: str, blamed: ReservationDemand, available: int) -> exceptions.NotEnough:
    return exceptions.NotEnough(
        f'{sentence} from {text(available)} on.',
        field=blamed.field,
        available_from=dates.serialize(time_of(available)),
    )


def _while_it_runs(
    sentence: str,
    blamed: ReservationDemand,
    missed: Search,
    searches: Sequence[Search],
    kinds: Kinds,
    dice: random.Random,
    until: int,
) -> exceptions.NotEnough:
    """Return the refusal of a change of a lease that runs.

    :param missed: the search of what is blamed
    :param until: when the lease ends, as it is and as it is asked for
    """
    begin = max(each.begin for each in searches)
    budget = windows.SearchBudget(LOOKS)
    times = sorted(
        {
            time
            for search in searches
            for timeline in _of_use(search, kinds)
            for time in timeline.ends(begin, until)
        }
    )
    # A search looks at all units, which is quick for each of them.
    cost = sum(len(kinds(each.demand.kind)) for each in searches) // windows.FASTER

    def fits(time: int) -> bool:
        later = [dataclasses.replace(each, start=max(each.start, time)) for each in searches]
        try:
            find_together(later, kinds, dice)
        except NotFitting:
            return False
        return True

    # What fits at one time fits at all later ones: less time is left, and nothing is added.
    if not times or not fits(times[-1]):
        never = of_one(blamed, [each.unit for each in _usable(missed, kinds)])
        told = f': {never.text}' if never else ''
        return exceptions.NotEnough(
            f'{sentence}, and there will not be enough at any time until the lease ends{told}.',
            field=_field(blamed, never),
        )
    # The earliest one, or when all looks are taken one at which there is enough, too.
    first, last = 0, len(times) - 1
    while first < last and budget.spend(cost):
        middle = (first + last) // 2
        first, last = (first, middle) if fits(times[middle]) else (middle + 1, last)
    return _not_now(f'{sentence}. Ask again later: there is enough', blamed, times[last])


def mistake(
    wanted: Sequence[ReservationDemand], searches: Sequence[Search], index: int, kinds: Kinds
) -> exceptions.ClimateError | None:
    """Return what is wrong with a demand at any time.

    It names a pool or property of nothing, or units that another one of the request names.

    :param index: the place of the demand, and of its search
    :param kinds: as they were searched
    """
    blamed, search = wanted[index], searches[index]
    pool = search.demand.pool
    if pool and not any(each.unit.pool == pool for each in _usable(search, kinds)):
        # One that is for others is told like one that is not there.
        field = _beside(blamed, 'pool')
        told = f'{field}: there is no pool {pool} with {blamed.noun}.'
        return exceptions.HostPoolNotFound(told, field=field)
    unknown = _unknown(search, kinds)
    if unknown is not None:
        name, field = unknown
        field = _beside(blamed, field)
        return search.demand.unknown(f'{field}: there is no property {name}.', field=field)
    return named.twice(wanted, searches, index, kinds)


def _field(blamed: ReservationDemand, lack: Lack | None) -> str:
    """Return the field that asks for what is lacking; if no single one does, the amount."""
    return _beside(blamed, lack.field) if lack and lack.field else blamed.field


def _beside(blamed: ReservationDemand, field: str) -> str:
    """Return the place in the request of another field of the same reservation."""
    place = blamed.field.rpartition('.')[0]
    return f'{place}.{field}' if place else field


def _of_use(search: Search, kinds: Kinds) -> Iterator[Timeline]:
    """Yield the timelines of units that a search may find something of."""
    demand = search.demand
    return (
        each
        for each in kinds(demand.kind)
        if each.unit.id in search.own or (each.unit.available and demand.matches(each.unit))
    )


def _usable(search: Search, kinds: Kinds) -> Iterator[Timeline]:
    admits = search.demand.admits
    return (each for each in kinds(search.demand.kind) if admits(each.unit))


def _unknown(search: Search, kinds: Kinds) -> tuple[str, str] | None:
    """Return the name of a property that no unit has, and the field that names it."""
    names = search.demand.names
    timelines = list(_usable(search, kinds)) if names else []
    missing = set(names) if timelines else set()
    for each in timelines:
        if not missing:
            return None
        missing -= each.unit.properties.keys()
    return next(((name, names[name]) for name in sorted(missing)), None)


def _sentence(count: int, search: Search, noun: str, times: tuple[str, str], kinds: Kinds) -> str:
    """Return the beginning of a sentence: what is not free, and when.

    :param count: how much there is
    :param times: between which it is demanded
    """
    taken = named.taken(search, kinds, own=search.keep)
    if taken:
        return f'{named.promised(taken)} between {" and ".join(times)}'
    return f'{_count(count, search.demand, noun)} from {" to ".join(times)}'


def _count(count: int, demand: Demand, noun: str) -> str:
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


def _later(searches: Sequence[Search], kinds: Kinds, dice: random.Random) -> int | None:
    return windows.next_room(searches, 0, kinds, HORIZON, dice, windows.SearchBudget(LOOKS))
