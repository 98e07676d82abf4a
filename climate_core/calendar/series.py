# SPDX-License-Identifier: Apache-2.0
"""Add up the capacity of a period: the steps of each amount. Pure.

Times are numbers (:mod:`climate_common.dates`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from climate_core.db.timeline import EqualAllocations, EqualUnits


class Step(NamedTuple):
    """Amounts from a time until that of the next step.

    :param total: capacity of all units, including unavailable units
    :param promised: allocations of all projects
    :param own: allocations of the project of the caller
    :param free: free capacity of available units
    """

    time: int
    total: int
    promised: int
    own: int
    free: int


class Series(NamedTuple):
    """The steps of one amount of the units of a kind in a pool.

    :param unit: the name of the amount; that of the kind for whole units
    :param properties: the properties that these units have in common, as JSON; None: they have
        no such property
    """

    kind: str
    pool: str
    properties: tuple[str | None, ...]
    unit: str
    steps: Sequence[Step]


_Key = tuple[str, str, tuple[str | None, ...], str]
_Span = tuple[int, int]
#: Changes of the allocated amount, the own amount, and the allocated amount of available units.
_Amounts = list[int]
_Changes = dict[_Key, dict[int, _Amounts]]


def build_series(
    units: Iterable[EqualUnits], allocations: Sequence[EqualAllocations], since: int, until: int
) -> list[Series]:
    """Return the steps of all amounts between two times, in the order of their names.

    A whole unit counts as allocated while any piece of it is.
    """
    totals: dict[_Key, int] = defaultdict(int)
    open_: dict[_Key, int] = defaultdict(int)
    for each in units:
        for unit, amount in ((each.kind, 1), *each.capacity.items()):
            key = each.kind, each.pool, each.properties, unit
            totals[key] += each.number * amount
            open_[key] += each.number * amount if each.available else 0
    changes: _Changes = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for allocation in allocations:
        _add_amounts(changes, allocation)
    for key, available, every, own in _spans_of_units(allocations):
        _add(changes, key, every, promised=1, taken=int(available))
        _add(changes, key, own, own=1)
    return [
        Series(*key, _steps(totals[key], open_[key], changes.get(key, {}), since, until))
        for key in sorted(totals, key=_order)
    ]


def _order(key: _Key) -> tuple[str, str, list[str], str]:
    kind, pool, properties, unit = key
    return kind, pool, [each or '' for each in properties], unit


def _add_amounts(changes: _Changes, allocation: EqualAllocations) -> None:
    """Add the amounts of allocations; of whole units also the number of units."""
    units, spans = allocation.units, [(allocation.start, allocation.end)]
    piece, number = allocation.piece, allocation.pieces
    if piece is None:
        piece, number = {**units.capacity, units.kind: 1}, units.number
    for unit, amount in piece.items():
        taken = amount * number
        _add(
            changes,
            (units.kind, units.pool, units.properties, unit),
            spans,
            promised=taken,
            own=taken if allocation.own else 0,
            taken=taken if units.available else 0,
        )


def _add(
    changes: _Changes,
    key: _Key,
    spans: Iterable[_Span],
    promised: int = 0,
    own: int = 0,
    taken: int = 0,
) -> None:
    times = changes[key]
    for span in spans:
        for time, sign in zip(span, (1, -1), strict=True):
            change = times[time]
            change[0] += sign * promised
            change[1] += sign * own
            change[2] += sign * taken


def _spans_of_units(
    allocations: Iterable[EqualAllocations],
) -> Iterator[tuple[_Key, bool, list[_Span], list[_Span]]]:
    """Yield when any share, and any own share, of each shared unit is allocated."""
    shares: dict[int, list[EqualAllocations]] = defaultdict(list)
    for each in allocations:
        if each.unit_id is not None:
            shares[each.unit_id].append(each)
    for found in shares.values():
        units = found[0].units
        key = units.kind, units.pool, units.properties, units.kind
        every, own = _union(found), _union(each for each in found if each.own)
        yield key, units.available, every, own


def _union(allocations: Iterable[EqualAllocations]) -> list[_Span]:
    """Return the times of allocations in order, overlapping times merged."""
    spans: list[_Span] = []
    for start, end in sorted((each.start, each.end) for each in allocations):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


def _steps(
    total: int, open_: int, changes: Mapping[int, _Amounts], since: int, until: int
) -> list[Step]:
    """Add up changes; changes before the first time are part of the first step."""
    steps = [Step(since, total, 0, 0, open_)]
    promised = own = taken = 0
    for time in sorted(each for each in changes if each < until):
        change = changes[time]
        promised, own, taken = promised + change[0], own + change[1], taken + change[2]
        step = Step(max(time, since), total, promised, own, max(0, open_ - taken))
        if steps[-1].time == step.time:
            steps.pop()
        if not steps or steps[-1][1:] != step[1:]:
            steps.append(step)
    return steps
