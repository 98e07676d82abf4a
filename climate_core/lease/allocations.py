# SPDX-License-Identifier: Apache-2.0
"""Allocations as the calendar reads, chooses and writes them. Pure."""

from collections.abc import Mapping
from typing import NamedTuple


class Allocation(NamedTuple):
    """Pieces of one unit that the calendar allocates to a reservation for a time.

    The times are numbers (:mod:`climate_common.dates`). They include the time that cleans
    the unit.

    :param lane: the place among the concurrent allocations, from 0 on
    :param piece: the amounts of one piece; None: the piece is the whole unit
    :param unit_generation: that of the unit when it was written, which no two allocations of a
        unit share; 0: it is not written yet
    :param released: it was released while the lease was running
    """

    unit_id: int
    reservation_id: str
    start: int
    end: int
    lane: int = 0
    pieces: int = 1
    piece: Mapping[str, int] | None = None
    unit_generation: int = 0
    released: bool | None = None
