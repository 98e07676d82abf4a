# SPDX-License-Identifier: Apache-2.0
"""Find the promises that do not fit any more on a unit that became smaller. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from climate_core.calendar.model import Unit
from climate_core.calendar.timeline import Timeline, levels
from climate_core.calendar.work import entry
from climate_core.db.calendar import OwnPromise


class Surplus(NamedTuple):
    """A promise that does not fit.

    :param short: the names of the amounts that are short -> what the unit has, and the most that
        is promised of it in the time of this promise
    """

    unit_id: int
    reservation_id: str
    short: Mapping[str, tuple[int, int]]


def surplus(unit: Unit, rows: Sequence[OwnPromise], now: int) -> list[Surplus]:
    """Return the promises for which a unit has no room beside older ones.

    Those that have begun come first, then the oldest ones.

    :param rows: all that is promised of it and is not over
    """
    kept = Timeline(unit)
    found = []
    for own in sorted(rows, key=lambda each: (each.start > now, each.unit_generation)):
        # What was given up is left as it is until it is empty.
        if own.piece is None or own.released or _fits(kept, own):
            kept = kept.changed(unit, added=[entry(own)])
        else:
            found.append(Surplus(unit.id, own.reservation_id, _short(unit, rows, own)))
    return found


def _fits(kept: Timeline, own: OwnPromise) -> bool:
    return kept.fits(own.start, own.end, own.piece, own.pieces) >= own.pieces


def _short(unit: Unit, rows: Sequence[OwnPromise], own: OwnPromise) -> dict[str, tuple[int, int]]:
    most: dict[str, int] = {}
    for start, end, used in levels(map(entry, rows)):
        if start < own.end and end > own.start:
            most |= {name: max(each, most.get(name, 0)) for name, each in used.items()}
    has = {name: unit.capacity.get(name, 0) for name in own.piece or ()}
    return {name: (each, most[name]) for name, each in has.items() if most[name] > each}
