# SPDX-License-Identifier: Apache-2.0
"""Explain the refusal of demands that name their units one by one, as addresses. Pure."""

from collections.abc import Sequence

from climate_common import words
from climate_core import exceptions
from climate_core.calendar.model import Demand, Lack, ReservationDemand, Unit
from climate_core.calendar.rooms import Search
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds


def taken(search: Search, kinds: Kinds, own: bool) -> list[str]:
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
        for each in kinds(demand.kind)
        if is_asked_for(each.unit) and not _is_free(each, search)
    ]
    return _names(found, demand)


def _is_free(timeline: Timeline, search: Search) -> bool:
    return timeline.fits(search.begin, search.end, search.demand.piece, 1) > 0


def _names(units: Sequence[Unit], demand: Demand) -> list[str]:
    return [each for each in map(demand.name, units) if each]


def promised(names: Sequence[str]) -> str:
    """Return the beginning of a sentence: which units others are promised."""
    if len(names) == 1:
        return f'{names[0]} is promised to another reservation'
    return f'{words.listed(names)} are promised to other reservations'


def twice(
    wanted: Sequence[ReservationDemand], searches: Sequence[Search], index: int, kinds: Kinds
) -> exceptions.BadRequest | None:
    """Return what is wrong with a request that names units of one of its demands twice."""
    blamed, mine = wanted[index], _named_units(searches[index], kinds)
    for number, other in enumerate(searches):
        if number == index or other.demand.kind != searches[index].demand.kind:
            continue
        theirs = _named_units(other, kinds)
        both = mine.keys() & theirs.keys()
        needed = other.demand.least + blamed.demand.least
        if both and needed > len(mine.keys() | theirs.keys()):
            names = _names([mine[each] for each in sorted(both)], blamed.demand)
            there, here = wanted[number].field, blamed.field
            return exceptions.BadRequest(
                f'{here}: the request names {words.listed(names)} twice, here and in {there}. '
                'Name each once.',
                field=here,
            )
    return None


def _named_units(search: Search, kinds: Kinds) -> dict[int, Unit]:
    demand = search.demand
    if not demand.named:
        return {}
    return {e.unit.id: e.unit for e in kinds(demand.kind) if demand.matches(e.unit)}


def disabled(wanted: ReservationDemand, units: Sequence[Unit]) -> Lack | None:
    """Return which units that a demand names take no promises; None: all do.

    :param units: those that the demand may have
    """
    demand = wanted.demand
    if not demand.named:
        return None
    found = [each for each in units if not each.available and demand.matches(each)]
    names = _names(found, demand)
    if not names:
        return None
    return Lack(f'{words.listed(names)} {"is" if len(names) == 1 else "are"} disabled')
