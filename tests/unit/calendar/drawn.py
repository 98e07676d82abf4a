# SPDX-License-Identifier: Apache-2.0
"""Units, what is promised of them and demands, as Hypothesis draws them."""

from hypothesis import strategies as st

from climate_core.calendar.model import Demand, Order, Unit
from climate_core.calendar.unit_timeline import Entry, Timeline, total_amounts
from tests.unit.calendar import slow
from tests.unit.calendar.units import Filter

LAST = 12
MOST = 6
pieces = st.sampled_from([{'vcpus': 1}, {'vcpus': 2}, {'vcpus': 1, 'memory_mb': 3}])


@st.composite
def periods(draw: st.DrawFn) -> tuple[int, int]:
    start = draw(st.integers(0, LAST - 1))
    return start, draw(st.integers(start + 1, LAST))


@st.composite
def timelines(draw: st.DrawFn, only_whole: bool = False) -> list[Timeline]:
    """Draw units with promises that are right."""
    found = []
    for number in range(draw(st.integers(0, 5))):
        unit = Unit(
            id=number,
            kind='host',
            pool=draw(st.sampled_from('abc')),
            available=draw(st.sampled_from([True, True, True, False])),
            capacity={'vcpus': draw(st.integers(0, 4)), 'memory_mb': 6},
            lanes=draw(st.integers(1, 3)),
        )
        entries: list[Entry] = []
        for _ in range(draw(st.integers(0, 4))):
            piece = None if only_whole else draw(st.one_of(st.none(), pieces))
            taken = total_amounts(draw(st.integers(1, 2)), piece)
            entry = Entry(*draw(periods()), draw(st.integers(0, unit.lanes - 1)), taken)
            if not slow.wrong(unit, [*entries, entry]):
                entries.append(entry)
        found.append(Timeline.of(unit, entries))
    return found


@st.composite
def demands(draw: st.DrawFn, only_whole: bool = False) -> Demand:
    least = draw(st.integers(1, 4))
    pools = draw(st.sampled_from(['abc', 'ab', 'bc', 'b']))
    return Demand(
        kind='host',
        min_pieces=least,
        max_pieces=draw(st.integers(least, MOST)),
        piece=None if only_whole else draw(st.one_of(st.none(), pieces)),
        max_per_unit=draw(st.one_of(st.none(), st.integers(1, 2))),
        single_unit=not only_whole and draw(st.booleans()),
        unit_filter=Filter(matches=lambda unit: unit.pool in pools),
        order=draw(st.sampled_from(Order)),
    )
