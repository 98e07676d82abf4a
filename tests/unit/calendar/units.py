# SPDX-License-Identifier: Apache-2.0
"""Units, demands and searches for the tests of the pure parts of the calendar."""

from collections.abc import Callable
from typing import Any

from climate_core.calendar.model import Demand, Unit, UnitFilter
from climate_core.calendar.search import Search
from climate_core.calendar.unit_timeline import Entry, Timeline
from climate_core.lease.model import Allocation

VCPU = {'vcpus': 1}


def timeline(number: int, *entries: tuple[int, int], **values: Any) -> Timeline:
    unit = Unit(
        **{
            'id': number,
            'kind': 'host',
            'pool': 'a',
            'capacity': {'vcpus': 4},
            'lanes': 9,
            **values,
        }
    )
    return Timeline.of(unit, [Entry(*each) for each in entries])


class Filter(UnitFilter):
    """A filter of functions."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        vars(self).update(functions)


def demand(least: int = 1, most: int | None = None, **more: Any) -> Demand:
    """Return a demand; ``matches``, ``unit_name`` and ``find_shortage`` are functions."""
    names = ('matches', 'unit_name', 'find_shortage')
    functions = {name: more.pop(name) for name in names if name in more}
    return Demand(
        kind='host',
        min_pieces=least,
        max_pieces=most or least,
        unit_filter=Filter(**functions),
        **more,
    )


def own_unit(unit_id: int, pieces: int, lane: int) -> Allocation:
    """Return what a reservation has of a unit, whenever."""
    return Allocation(unit_id, 'r', 0, 0, lane, pieces)


def search(wanted: Demand, start: int = 10, end: int = 20, **more: Any) -> Search:
    return Search(demand=wanted, start=start, end=end, **more)


#: Units 1, 2, 3: free for 10, for 15, and for ever around the time.
GAPS = [timeline(3), timeline(1, (5, 10), (20, 30)), timeline(2, (0, 8), (23, 30))]
#: Units 1, 2, 3 with room for 1, 2 and 4 vcpus.
SHARES = [
    Timeline.of(timeline(number).unit, [Entry(0, 99, 0, {'vcpus': taken})])
    for number, taken in ((1, 3), (2, 2), (3, 0))
]
