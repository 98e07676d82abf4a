# SPDX-License-Identifier: Apache-2.0
"""Explain why there would not be enough even if nothing were promised to anybody. Pure."""

import dataclasses
import random
from collections.abc import Callable, Sequence

from climate_common import words
from climate_core.calendar import named
from climate_core.calendar.model import Lack, ReservationDemand, Unit
from climate_core.calendar.rooms import Search
from climate_core.calendar.timeline import Timeline
from climate_core.calendar.together import Kinds, NotFitting, find_together


def lacking(
    wanted: Sequence[ReservationDemand],
    searches: Sequence[Search],
    kinds: Kinds,
    dice: random.Random,
) -> tuple[ReservationDemand, Lack] | None:
    """Return for which demand something is lacking at any time; None: other times would do.

    Units that a demand may not have are not spoken of.

    :param kinds: as they were searched
    """
    bare = [dataclasses.replace(each, own={}, keep=False) for each in searches]

    def try_all(change: Callable[[Unit], Unit]) -> NotFitting | None:
        empty = {
            kind: [Timeline(change(each.unit)) for each in kinds(kind)]
            for kind in {each.demand.kind for each in searches}
        }
        try:
            find_together(bare, empty.__getitem__, dice)
        except NotFitting as exc:
            return exc
        return None

    missing = try_all(lambda unit: unit)
    if missing is None:
        return None
    one, search = wanted[missing.index], searches[missing.index]
    units = [each.unit for each in kinds(search.demand.kind) if search.demand.admits(each.unit)]
    disabled = named.disabled(one, units)
    lack = of_one(one, units) or disabled or _of_number(one, missing.count)
    told = f'{lack.text}.'
    if lack is not disabled and try_all(_enabled) is None:
        told += ' More would do, but are disabled or serve ordinary servers at the moment.'
    return one, lack._replace(text=told)


def _enabled(unit: Unit) -> Unit:
    return dataclasses.replace(unit, available=unit.lanes > 0)


def of_one(wanted: ReservationDemand, units: Sequence[Unit]) -> Lack | None:
    """Return why no single unit would do, or not all that are named; None: some would.

    :param units: those that the demand may have
    """
    demand = wanted.demand
    pool = [each for each in units if demand.pool in (None, each.pool)]
    fitting = [each for each in pool if demand.matches(each)]
    if not pool:
        return Lack(f'no {demand.kind} is in a pool that may be used')
    if not fitting or (demand.named and len(fitting) < demand.least):
        return demand.lacking(pool) or Lack(f'no {demand.kind} would do')
    pieces = demand.least if demand.one_unit else 1
    for name, size in (demand.piece or {}).items():
        # A unit with an inventory of nothing is withheld by Nova for a time.
        largest = max(each.capacity.get(name, 0) for each in fitting)
        if 0 < largest < size * pieces:
            return Lack(f'no {demand.kind} has {size * pieces} {name}; the largest has {largest}')
    return None


def _of_number(wanted: ReservationDemand, count: int) -> Lack:
    if not count:
        return Lack(f'no {wanted.demand.kind} would do')
    room = words.counted(count, wanted.noun.removesuffix('s'))
    demand = wanted.demand
    apart = f', each on another {demand.kind}' if demand.most_per_unit == 1 else ''
    return Lack(f'there is room for {room} in all{apart}, not for {demand.least}')
