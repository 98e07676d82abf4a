# SPDX-License-Identifier: Apache-2.0
"""Units of the calendar, and what reservations request of them. Pure."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from climate_core import exceptions


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """The projects that may use units: some projects, and all projects of some domains."""

    project_ids: frozenset[str]
    domain_ids: frozenset[str]

    @classmethod
    def load(cls, stored: Mapping[str, Any] | None) -> 'Access | None':
        """Load what :meth:`dump` returned; None: all projects."""
        if not stored:
            return None
        return cls(frozenset(stored['project_ids']), frozenset(stored['domain_ids']))

    def dump(self) -> dict[str, list[str]] | None:
        """Return JSON types; None if it names no project and no domain: all projects."""
        if not self.project_ids and not self.domain_ids:
            return None
        return {
            'project_ids': sorted(self.project_ids),
            'domain_ids': sorted(self.domain_ids),
        }

    def admits(self, project_id: str | None, domain_id: str | None) -> bool:
        """Return whether a project of a domain may use the units."""
        return project_id in self.project_ids or domain_id in self.domain_ids


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit of the calendar: a host, or anything else whose capacity is allocated for a time.

    :param kind: ``host``, and the kinds of other plugins
    :param available: whether it accepts new allocations; existing allocations stay
    :param capacity: name of an amount -> capacity; empty if only the whole unit is allocated
    :param lanes: maximum number of concurrent allocations, whatever their sizes
    :param properties: what demands check; numbers are numbers
    :param access: who may use it; None: all projects
    :param asleep: whether it is powered off, so that it is chosen last
    :param generation: counts the changes of the unit and of its allocations
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


class Order(enum.StrEnum):
    """The order in which units with free capacity are chosen."""

    #: Units with the smallest gap around the allocation first.
    FIT = 'fit'
    #: Units with the least free capacity first.
    PACK = 'pack'
    #: Units with the most free capacity first, as few pieces on each unit as possible.
    SPREAD = 'spread'
    RANDOM = 'random'


class Shortage(NamedTuple):
    """A requested property, or amount, that no unit has.

    :param text: a part of a sentence, as ``no host has gpu==True``
    :param field: the field that requests it; None: no single field does
    """

    text: str
    field: str | None = None


class UnitFilter:
    """The units that satisfy a request, by their properties. This one accepts any unit."""

    def matches(self, unit: Unit) -> bool:  # noqa: ARG002
        """Return whether a unit satisfies the request."""
        return True

    def find_shortage(self, units: Sequence[Unit]) -> Shortage | None:  # noqa: ARG002
        """Return what is requested and some of the units lack; None: no single property.

        :param units: the units of the pool, at least one
        """
        return None

    def unit_name(self, unit: Unit) -> str | None:  # noqa: ARG002
        """Return the name of a unit for users; None: users know no name."""
        return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The demand of a reservation on the units of a kind, for the time of its lease.

    :param reservation_id: empty as long as the demand is only validated
    :param field: the invalid field of the request if capacity is insufficient
    :param noun: what users call the pieces: ``hosts``
    :param after: how long its units are cleaned; part of the allocation
    :param min_pieces: minimum number of pieces
    :param max_pieces: number of pieces if there is sufficient capacity
    :param piece: the amounts of one piece; None: a piece is a whole unit
    :param max_per_unit: maximum number of pieces of one unit; None: as many as fit
    :param single_unit: whether all pieces are of the same unit
    :param pool: the required pool, which the field ``pool`` of the request names
    :param owner: the ids of the project and its domain; None: it may use all units
    :param unit_filter: what the request says of its units
    :param unit_ids: the only units that satisfy it, whatever their properties; None: any
    :param property_fields: property that it checks -> the field of the request that names it
    :param unknown_property: the error for a property that no unit has
    :param names_units: whether the request names its units
    """

    kind: str
    min_pieces: int
    max_pieces: int
    piece: Mapping[str, int] | None = None
    max_per_unit: int | None = None
    single_unit: bool = False
    pool: str | None = None
    owner: tuple[str | None, str | None] | None = None
    unit_filter: UnitFilter = dataclasses.field(default_factory=UnitFilter)
    unit_ids: frozenset[int] | None = None
    property_fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unknown_property: type[exceptions.BadRequest] = exceptions.BadRequest
    names_units: bool = False
    order: Order = Order.FIT
    reservation_id: str = ''
    field: str = ''
    noun: str = 'units'
    after: timedelta = timedelta(0)

    def matches(self, unit: Unit) -> bool:
        """Return whether a unit satisfies it, by its pool, its access and its properties."""
        if self.unit_ids is not None:
            return unit.id in self.unit_ids
        return (
            self.pool in (None, unit.pool) and self.admits(unit) and self.unit_filter.matches(unit)
        )

    def admits(self, unit: Unit) -> bool:
        """Return whether the project may use a unit at all."""
        return unit.access is None or self.owner is None or unit.access.admits(*self.owner)


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A time with sufficient capacity."""

    start: datetime
    end: datetime


@dataclasses.dataclass(frozen=True, slots=True)
class RetainedAllocation:
    """The pieces that a reservation keeps when it returns other pieces.

    :param left: id of each of its units -> number of pieces; no other pieces are or come into use
    :param cleaning: how long the returned pieces are cleaned
    """

    left: Mapping[int, int]
    cleaning: timedelta


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A lease that is queued until there is sufficient capacity for all its reservations.

    :param start: its start if there is sufficient capacity now
    :param latest: maximum delay of its start, for the same duration; 0: its time is fixed
    :param turn: its place among the searched leases, if not all can be searched
    """

    id: str
    project_id: str
    demands: Sequence[Demand]
    start: datetime
    end: datetime
    latest: timedelta = timedelta(0)
    turn: int = 0
