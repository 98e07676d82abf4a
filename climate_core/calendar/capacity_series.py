# SPDX-License-Identifier: Apache-2.0
"""Show capacity over time as steps: what there is, what is promised, what is free. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from climate_core.db.capacity import EqualAllocations, EqualUnits


class Step(NamedTuple):
    """Amounts from a time on, until that of the next step.

    :param total: what units have, also those that take no new promises
    :param promised: what is promised of that to all projects
    :param own: what is promised of that to the project that asks
    :param free: what units that take new promises have left
    """

    time: int
    total: int
    promised: int
    own: int
    free: int


class Series(NamedTuple):
    """The steps of one amount of the units of a kind in a pool.

    :param unit: the name of the amount; that of the kind for whole units
    :param properties: what these units have in common, each as JSON; None: they have no such
        property
    """

    kind: str
    pool: str
    properties: tuple[str | None, ...]
    unit: str
    steps: Sequence[Step]


_Key = tuple[str, str, tuple[str | None, ...], str]
_Span = tuple[int, int]
#: By how much that changes what is promised, own, and promised of units that take new promises.
_Amounts = list[int]
_Changes = dict[_Key, dict[int, _Amounts]]


def build_series(
    units: Iterable[EqualUnits], promises: Sequence[EqualAllocations], since: int, until: int
) -> list[Series]:
    """Return the steps of all amounts from a time until another, in the order of their names.

    A whole unit counts as promised while something of it is.
    """
    totals: dict[_Key, int] = defaultdict(int)
    open_: dict[_Key, int] = defaultdict(int)
    for each in units:
        for unit, amount in ((each.kind, 1), *each.capacity.items()):
            key = each.kind, each.pool, each.properties, unit
            totals[key] += each.number * amount
            open_[key] += each.number * amount if each.available else 0
    changes: _Changes = defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    for promise in promises:
        _add_amounts(changes, promise)
    for key, available, every, own in _spans_of_units(promises):
        _add(changes, key, every, promised=1, taken=int(available))
        _add(changes, key, own, own=1)
    return [
        Series(*key, _steps(totals[key], open_[key], changes.get(key, {}), since, until))
        for key in sorted(totals, key=_order)
    ]


def _order(key: _Key) -> tuple[str, str, list[str], str]:
    kind, pool, properties, unit = key
    return kind, pool, [each or '' for each in properties], unit


def _add_amounts(changes: _Changes, promise: EqualAllocations) -> None:
    """Add what promises take of each amount; of all of a unit, and the whole units, too."""
    units, spans = promise.units, [(promise.start, promise.end)]
    piece, number = promise.piece, promise.pieces
    if piece is None:
        piece, number = {**units.capacity, units.kind: 1}, units.number
    for unit, amount in piece.items():
        taken = amount * number
        _add(
            changes,
            (units.kind, units.pool, units.properties, unit),
            spans,
            promised=taken,
            own=taken if promise.own else 0,
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
    promises: Iterable[EqualAllocations],
) -> Iterator[tuple[_Key, bool, list[_Span], list[_Span]]]:
    """Yield when something is promised of each unit that is promised in shares, and to the own."""
    shares: dict[int, list[EqualAllocations]] = defaultdict(list)
    for each in promises:
        if each.unit_id is not None:
            shares[each.unit_id].append(each)
    for found in shares.values():
        units = found[0].units
        key = units.kind, units.pool, units.properties, units.kind
        every, own = _union(found), _union(each for each in found if each.own)
        yield key, units.available, every, own


def _union(promises: Iterable[EqualAllocations]) -> list[_Span]:
    """Return the times of promises without what they share, in order."""
    spans: list[_Span] = []
    for start, end in sorted((each.start, each.end) for each in promises):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans


def _steps(
    total: int, open_: int, changes: Mapping[int, _Amounts], since: int, until: int
) -> list[Step]:
    """Add up changes; what is before the first time is part of the first step."""
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
