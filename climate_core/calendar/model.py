# SPDX-License-Identifier: Apache-2.0
"""Units, what is promised of them, and what a reservation demands. Pure."""

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from climate_core import exceptions


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """Hold who may be promised units: some projects, and all projects of some domains."""

    project_ids: frozenset[str]
    domain_ids: frozenset[str]

    @classmethod
    def load(cls, stored: Mapping[str, Any] | None) -> 'Access | None':
        """Read what :meth:`dump` returned; None: everybody."""
        if not stored:
            return None
        return cls(frozenset(stored['project_ids']), frozenset(stored['domain_ids']))

    def dump(self) -> dict[str, list[str]] | None:
        """Return JSON types; None if it names nobody, which is everybody."""
        if not self.project_ids and not self.domain_ids:
            return None
        return {
            'project_ids': sorted(self.project_ids),
            'domain_ids': sorted(self.domain_ids),
        }

    def admits(self, project_id: str | None, domain_id: str | None) -> bool:
        """Tell whether a project of a domain is among them."""
        return project_id in self.project_ids or domain_id in self.domain_ids


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit of the calendar: a host, or another thing whose capacity is promised for a time.

    :param kind: ``host``, and what other plugins have
    :param available: whether it takes new promises; what is promised already stays
    :param capacity: how much it has, by the names of amounts; empty if only all of it is promised
    :param lanes: how many promises it has room for at the same time, whatever they are
    :param properties: what demands look at; numbers are numbers
    :param access: who may have promises of it; None: everybody
    :param asleep: whether it is taken last, because it has to be woken first
    :param generation: counts the changes of what is promised of it, and of itself
    """

    id: int
    kind: str
    pool: str
    available: bool = True
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)
    lanes: int = 1
    properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    access: Access | None = None
    asleep: bool = False
    generation: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewAllocation:
    """Pieces of one unit that a reservation has for a time.

    :param start: UTC; with ``end`` it includes what prepares and cleans the unit
    :param piece: how much one piece takes; None: the piece is the whole unit
    :param lane: the place among the promises of the same time, from 0 on
    """

    unit_id: int
    reservation_id: str
    start: datetime
    end: datetime
    pieces: int = 1
    piece: Mapping[str, int] | None = None
    lane: int = 0


class Order(enum.StrEnum):
    """The order in which units that have room are taken."""

    #: Those whose gap around the promise is the smallest.
    FIT = 'fit'
    #: Those with the least room left.
    PACK = 'pack'
    #: Those with the most room left, as few pieces on each as can be.
    SPREAD = 'spread'
    RANDOM = 'random'


class Shortage(NamedTuple):
    """Say what is asked for and no unit has.

    :param text: a part of a sentence, as ``no host has gpu==True``
    :param field: the field of the request that asks for it; None: no single one does
    """

    text: str
    field: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of a reservation on the units of a kind.

    :param least: so many pieces at least, or nothing
    :param most: so many pieces if there are enough
    :param piece: how much one piece takes; None: each piece is a whole unit
    :param most_per_unit: so many pieces of one unit at most; None: as many as fit
    :param one_unit: whether all pieces are of the same unit
    :param matches: tells whether a unit would do, by its pool and properties
    :param pool: the only pool that would do, which the field ``pool`` of the request names
    :param admits: tells whether the project that demands it may use a unit at all
    :param names: the properties that it looks at -> the field of the request that names each
    :param unknown: the error for a property that no unit has
    :param named: whether the request names the units, and these are all that would do
    :param name: returns what users call a unit; None: they do not know it
    :param lacking: returns what is asked for and some units do not have; too few of them
        would do
    """

    kind: str
    least: int
    most: int
    piece: Mapping[str, int] | None = None
    most_per_unit: int | None = None
    one_unit: bool = False
    matches: Callable[[Unit], bool] = lambda _unit: True
    pool: str | None = None
    admits: Callable[[Unit], bool] = lambda _unit: True
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown: type[exceptions.BadRequest] = exceptions.BadRequest
    named: bool = False
    name: Callable[[Unit], str | None] = lambda _unit: None
    lacking: Callable[[Sequence[Unit]], Shortage | None] = lambda _units: None
    order: Order = Order.FIT


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A time in which a demand fits."""

    start: datetime
    end: datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRequest:
    """The demand of one reservation for the time of its lease.

    :param field: the field of the request to blame if that is not free
    :param noun: what users call the pieces: ``hosts``
    :param before: how long its units are prepared; part of the promise, as far as it is not past
    :param after: how long its units are cleaned; part of the promise
    """

    reservation_id: str
    demand: Demand
    field: str
    noun: str = 'units'
    before: timedelta = timedelta(0)
    after: timedelta = timedelta(0)


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedAllocation:
    """Name the pieces that a reservation keeps when it gives others back.

    :param left: how many pieces of each unit, by the ids of all units that it has; none are in use
        beside these, and none can come into use
    :param cleaning: how long what it gives back is kept free
    """

    left: Mapping[int, int]
    cleaning: timedelta


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A lease that waits until there is enough for all that it demands.

    :param start: when it would begin if there were enough now
    :param latest: how much later it may begin, with the same length; 0: its time is fixed
    :param turn: its place among those that are searched, if not all can be
    """

    id: str
    project_id: str
    wanted: Sequence[AllocationRequest]
    start: datetime
    end: datetime
    latest: timedelta = timedelta(0)
    turn: int = 0
