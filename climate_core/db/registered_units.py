# SPDX-License-Identifier: Apache-2.0
"""Read and write the units of the calendar that operators register: hosts, addresses, segments.

A registered unit has a row of its own beside its unit of the calendar. Each change of a unit
increments its generation and sets ``changed_at``, so that no allocation relies on an outdated
unit and the indexes of all managers read it again.
"""

import dataclasses
import datetime
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import calendar, sql
from climate_core.db.engine import Database, Stale, signal
from climate_core.db.tables import ALLOCATIONS, LEASES, RESERVATIONS, UNITS
from climate_core.lease import states

_LIVE = [str(status) for status in states.LIVE]
#: The text of no extra properties at all.
_NONE: Final = '{}'
#: Minimum number of rows that further statements of a page read.
_MIN_PAGE_SIZE: Final = 500
#: Maximum number of rows of a page of :meth:`UnitTable.iterate_all`.
_PAGE_SIZE: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Viewer:
    """A caller, who sees the units that the calendar may allocate to their project.

    :param sees_all: whether the policy lets the caller see the units of all projects
    """

    project_id: str | None
    domain_id: str | None
    sees_all: bool = False

    def sees(self, access: Mapping[str, Any] | None) -> bool:
        """Return whether the caller sees a unit.

        :param access: who may use it, as :class:`climate_core.calendar.model.Access` dumps it
        """
        if self.sees_all or not access:
            return True
        return self.project_id in access['project_ids'] or self.domain_id in access['domain_ids']


@dataclasses.dataclass(frozen=True, slots=True)
class UnitAllocation:
    """A live reservation that a unit is allocated to, in the time of its lease."""

    unit_id: int
    reservation_id: str
    lease_id: str
    lease_name: str
    start_date: datetime.datetime
    end_date: datetime.datetime


class Record(Protocol):
    """A registered unit, as the database stores it."""

    @property
    def id(self) -> int:
        """Return the id of its unit in the calendar."""

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """Create it from the columns of a :class:`UnitTable`, by their names."""


R = TypeVar('R', bound=Record)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class UnitTable(Generic[R]):
    """The registered units of a kind, and their extra properties.

    :param kind: of the units in the calendar; their noun in messages
    :param table: of the rows, with ``unit_id`` and ``created_at``
    :param unit_columns: the columns of the unit that a record has, beside its id
    :param allocation_columns: the columns of the row that an allocation has of its unit
    :param unknown_unit: the error for an id that no unit has
    :param properties: the table of the names of extra properties that users may not see, or may;
        None: units have no extra properties, else ``table`` has ``extra``
    :param unknown_property: the error for a name of an extra property that no unit has
    :param groups_capacity: whether users may group the capacity of a period by their properties
    """

    kind: str
    record: type[R]
    table: sa.Table
    unit_columns: Sequence[str] = ('available',)
    allocation_columns: Sequence[str]
    unknown_unit: type[exceptions.NotFound]
    properties: sa.Table | None = None
    unknown_property: type[exceptions.NotFound] = exceptions.NotFound
    groups_capacity: bool = False

    @functools.cached_property
    def query(self) -> sa.Select[Any]:
        """Return the SELECT of all units with their rows."""
        return sa.select(
            UNITS.c.id,
            *(UNITS.c[name] for name in self.unit_columns),
            *(column.label(column.key) for column in self.table.c if column.key != 'unit_id'),
        ).join_from(self.table, UNITS, self.table.c.unit_id == UNITS.c.id)

    def not_found(self, unit_id: str | int) -> exceptions.NotFound:
        """Return the error for an id that no unit has."""
        return self.unknown_unit(f'{self.kind[0].upper()}{self.kind[1:]} {unit_id} was not found.')

    def find(
        self, session: orm.Session, where: sa.ColumnElement[bool], lock: bool = False
    ) -> list[R]:
        """Read units; one statement.

        :param lock: as of :meth:`get`
        """
        query = self.query.where(where)
        found = session.execute(query.with_for_update() if lock else query).mappings()
        return [self.record.from_row(row) for row in found]

    def get(
        self,
        session: orm.Session,
        unit_id: int,
        lock: bool = False,
        viewer: Viewer | None = None,
    ) -> R:
        """Read one unit.

        :param lock: keep other transactions from allocating it until the end of this one
        :param viewer: who must see it; None: an operator
        :raises climate_core.exceptions.NotFound: there is none, or the viewer does not see it
        """
        query = self.query.where(UNITS.c.id == unit_id)
        row = session.execute(query.with_for_update() if lock else query).mappings().first()
        if row is None or (viewer is not None and not viewer.sees(row['access'])):
            raise self.not_found(unit_id)
        return self.record.from_row(row)

    def page(
        self,
        session: orm.Session,
        filters: Mapping[str, Any],
        marker: int = 0,
        limit: int = _PAGE_SIZE,
        viewer: Viewer | None = None,
    ) -> tuple[list[R], bool]:
        """Read a page in the order of the ids, and whether there are more.

        One statement if the viewer sees all units; otherwise one more for each 500 units that only
        other projects may reserve.

        :param filters: columns of the row or of the unit -> values; None: not filtered
        :param marker: the id of the last unit of the previous page
        """
        where = [
            (self.table.c[name] if name in self.table.c else UNITS.c[name]) == value
            for name, value in filters.items()
            if value is not None
        ]
        query = self.query.where(*where).order_by(UNITS.c.id)
        found: list[R] = []
        more, size = True, limit + 1
        while more and len(found) <= limit:
            read = session.execute(query.where(UNITS.c.id > marker).limit(size)).mappings().all()
            more, size = len(read) == size, max(size, _MIN_PAGE_SIZE)
            seen = [row for row in read if viewer is None or viewer.sees(row['access'])]
            found += [self.record.from_row(row) for row in seen]
            marker = read[-1]['id'] if read else marker
        return found[:limit], len(found) > limit

    def iterate_all(self, database: Database) -> Iterator[R]:
        """Yield all units, page by page."""
        marker, more = 0, True
        while more:
            page, more = database.read(self.page, {}, marker)
            yield from page
            marker = page[-1].id if page else marker

    def has_any(self, session: orm.Session) -> bool:
        """Return whether any unit is registered."""
        return session.execute(sa.select(self.table.c.unit_id).limit(1)).first() is not None

    def insert(self, session: orm.Session, unit: Mapping[str, Any], row: Mapping[str, Any]) -> int:
        """Write a unit and its row; return its id.

        :param unit: ``pool`` and ``properties``, and what differs from a whole unit for all
        :raises oslo_db.exception.DBDuplicateEntry: it exists
        """
        signal(session, calendar.FREED)
        now = sql.now(session)
        defaults = {'available': True, 'capacity': {}, 'lanes': 1, 'generation': 0}
        values = {**defaults, 'kind': self.kind, 'changed_at': now, **unit}
        connection = session.connection()
        key = connection.execute(sa.insert(UNITS).values(values)).inserted_primary_key
        assert key is not None  # nosec B101 # for mypy: it holds already
        connection.execute(
            sa.insert(self.table).values({**row, 'unit_id': key[0], 'created_at': now})
        )
        return int(key[0])

    def update(
        self,
        session: orm.Session,
        unit_id: int,
        unit: Mapping[str, Any],
        row: Mapping[str, Any],
    ) -> None:
        """Change columns of a unit and of its row.

        :raises climate_core.exceptions.NotFound: there is none any more
        """
        signal(session, calendar.FREED)
        now = sql.now(session)
        counted = {'generation': UNITS.c.generation + 1, 'changed_at': now, **unit}
        mine = sa.update(UNITS).where(UNITS.c.id == unit_id, UNITS.c.kind == self.kind)
        if not sql.change(session, mine.values(counted)):
            raise self.not_found(unit_id)
        changed = sa.update(self.table).where(self.table.c.unit_id == unit_id)
        sql.change(session, changed.values({'updated_at': now, **row}))

    def delete(self, session: orm.Session, unit_id: int) -> None:
        """Delete a unit with its row and its allocations; one that does not exist is fine."""
        mine = sa.delete(UNITS).where(UNITS.c.id == unit_id, UNITS.c.kind == self.kind)
        sql.change(session, mine)

    def list_property_values(
        self, session: orm.Session, viewer: Viewer | None = None
    ) -> dict[str, list[Any]]:
        """Return the names of the extra properties, and the values that units have.

        One row is read for all units that have the same properties and access.

        :param viewer: who sees the units; None: an operator
        """
        found: dict[str, set[Any]] = {}
        query = (
            sa.select(self.table.c.extra, UNITS.c.access)
            .join_from(self.table, UNITS, self.table.c.unit_id == UNITS.c.id)
            .where(sa.type_coerce(self.table.c.extra, sa.Text) != _NONE)
            .distinct()
        )
        for row in session.execute(query):
            if viewer is None or viewer.sees(row.access):
                for name, value in row.extra.items():
                    found.setdefault(name, set()).add(value)
        return {name: sorted(found[name], key=str) for name in sorted(found)}

    def list_private_properties(self, session: orm.Session) -> set[str]:
        """Return the names of the properties that users may not see."""
        if self.properties is None:
            return set()
        query = sa.select(self.properties.c.name).where(self.properties.c.private.is_(True))
        return set(session.execute(query).scalars())

    def set_private(self, session: orm.Session, name: str, private: bool) -> None:
        """Set whether users may see an extra property.

        :raises climate_core.exceptions.NotFound: no unit has such a property
        """
        names = self.properties
        assert names is not None, 'its units have properties'  # nosec B101 # for mypy: it holds already
        if name not in self.list_property_values(session):
            raise self.unknown_property(f'No {self.kind} has an extra property {name}.')
        mine = names.c.name == name
        present = session.execute(sa.select(names.c.name).where(mine)).first()
        if present is not None:
            sql.change(session, sa.update(names).where(mine).values(private=private))
            return
        try:
            sql.insert(session, names, [{'name': name, 'private': private}])
        except db_exc.DBDuplicateEntry as exc:
            raise Stale(f'property {name}') from exc


def list_allocations(
    session: orm.Session,
    unit_ids: Collection[int],
    lease_id: str | None = None,
    reservation_id: str | None = None,
) -> list[UnitAllocation]:
    """Read the live reservations that units are allocated to, by time; one statement."""
    query = (
        sa.select(
            ALLOCATIONS.c.unit_id,
            RESERVATIONS.c.id,
            LEASES.c.id,
            LEASES.c.name,
            LEASES.c.start_date,
            LEASES.c.end_date,
        )
        .join_from(ALLOCATIONS, RESERVATIONS, ALLOCATIONS.c.reservation_id == RESERVATIONS.c.id)
        .join(LEASES, RESERVATIONS.c.lease_id == LEASES.c.id)
        .where(
            ALLOCATIONS.c.unit_id.in_(unit_ids),
            RESERVATIONS.c.status.in_(_LIVE),
            sa.not_(calendar.is_released()),
        )
        .order_by(LEASES.c.start_date, RESERVATIONS.c.id)
    )
    if lease_id is not None:
        query = query.where(LEASES.c.id == lease_id)
    if reservation_id is not None:
        query = query.where(RESERVATIONS.c.id == reservation_id)
    return [UnitAllocation(*row) for row in session.execute(query)]


def find_last_allocation(
    session: orm.Session, unit_id: int
) -> tuple[int, datetime.datetime] | None:
    """Return the number of live reservations that have a unit, and when the last of them ends.

    A lease that was deleted or cancelled before its start has not used the unit, and no longer
    needs it, although the engine may not have ended the lease yet. An allocation may start after
    its lease, and its plugin may use the unit a moment before that: the lease decides.

    :returns: None if there are none
    """
    was_cancelled = sa.and_(
        LEASES.c.status.in_(map(str, states.ENDING)),
        RESERVATIONS.c.status == str(states.ReservationStatus.PENDING),
        LEASES.c.start_date > sql.now(session),
    )
    query = (
        sa.select(sa.func.count(RESERVATIONS.c.id.distinct()), sa.func.max(ALLOCATIONS.c.end))
        .join_from(ALLOCATIONS, RESERVATIONS, ALLOCATIONS.c.reservation_id == RESERVATIONS.c.id)
        .join(LEASES, LEASES.c.id == RESERVATIONS.c.lease_id)
        .where(
            ALLOCATIONS.c.unit_id == unit_id,
            RESERVATIONS.c.status.in_(_LIVE),
            sa.not_(calendar.is_released()),
            sa.not_(was_cancelled),
        )
    )
    count, end = session.execute(query).one()
    return (count, end) if count else None
