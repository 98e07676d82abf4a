# SPDX-License-Identifier: Apache-2.0
"""Units in a database and reservations that want them, without what else makes a lease."""

import dataclasses
import datetime
from collections.abc import Callable, Collection, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_common.dates import from_microseconds
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.model import Demand, Unit
from climate_core.calendar.unit_timeline import Entry, total_amounts
from climate_core.db import sql, tables
from climate_core.db.engine import Database
from climate_core.lease.model import Allocation
from tests.support.world import configure
from tests.unit.calendar import slow
from tests.unit.calendar.units import demand

UNIT, ALLOCATION = tables.UNITS, tables.ALLOCATIONS
HOUR = datetime.timedelta(hours=1)
VCPU = {'vcpus': 1}
CAPACITY = {'vcpus': 4}


def shares(least: int = 1, most: int | None = None, **more: Any) -> Demand:
    return demand(least, most, piece=VCPU, **more)


class Hall:
    """A database with units, and a calendar of it. Times are hours from tomorrow."""

    def __init__(self, url: str) -> None:
        self.database = Database(configure(url))
        tables.load_metadata().create_all(self.database.engine)
        self.calendar = Calendar(self.database)
        self.now = self.database.read(sql.read_time)
        self.start = self.now.replace(microsecond=0) + 24 * HOUR

    def at(self, hours: float) -> datetime.datetime:
        return self.start + hours * HOUR

    def hours(self, time: datetime.datetime | int) -> float:
        if isinstance(time, int):
            time = from_microseconds(time)
        return (time - self.start) / HOUR

    def units(self, count: int = 1, **values: Any) -> list[int]:
        """Write units; return their ids."""

        def write(session: orm.Session) -> list[int]:
            defaults = {
                'kind': 'host',
                'pool': 'default',
                'available': True,
                'capacity': CAPACITY,
                'lanes': 4,
                'properties': {},
                'generation': 0,
                'changed_at': sql.read_time(session),
            }
            sql.insert(session, UNIT, [defaults | values] * count)
            ids = session.scalars(sa.select(UNIT.c.id).order_by(UNIT.c.id.desc()).limit(count))
            return sorted(ids)

        return self.database.write(write)

    def change_unit(self, unit_id: int, seconds_ago: float = 0, **values: Any) -> None:
        """Change a unit as who changes units does.

        :param seconds_ago: the change has waited for its commit so long
        """

        def write(session: orm.Session) -> None:
            counted = {'generation': UNIT.c.generation + 1, **values}
            counted['changed_at'] = sql.now(session, -seconds_ago)
            sql.change(session, sa.update(UNIT).where(UNIT.c.id == unit_id).values(counted))

        self.database.write(write)

    def delete_unit(self, unit_id: int) -> None:
        self.database.write(sql.change, sa.delete(UNIT).where(UNIT.c.id == unit_id))

    def reserve(self, session: orm.Session) -> str:
        """Write a lease with a reservation; return the id of that."""
        made = uuidutils.generate_uuid()
        common = {'id': made, 'status': 'PENDING', 'created_at': self.now}
        lease = {'name': 'l', 'project_id': 'p', 'user_id': 'u', 'degraded': False}
        lease |= {'before_start': []}
        times = dict.fromkeys(('start_date', 'end_date'), self.now)
        sql.insert(
            session,
            tables.LEASES,
            [common | lease | times | {'generation': 0, 'start_policy': 'auto'}],
        )
        reservation = {'lease_id': made, 'resource_type': 'test', 'resource_id': made}
        states = {
            'params': {},
            'amounts': {},
            'given_up': False,
            'missing_resources': False,
            'resources_changed': False,
        }
        sql.insert(session, tables.RESERVATIONS, [common | reservation | states])
        return made

    def book(
        self,
        *demands: Demand,
        start: float = 0,
        end: float = 1,
        calendar: Calendar | None = None,
        proposed: Collection[int] = (),
        **more: Any,
    ) -> list[Allocation]:
        """Promise units to new reservations, one for each demand."""

        def write(session: orm.Session) -> list[Allocation]:
            wanted = [
                self.wanted(self.reserve(session), each, field=f'field{number}', **more)
                for number, each in enumerate(demands)
            ]
            used = calendar or self.calendar
            times = self.at(start), self.at(end)
            return used.allocate(used.transaction(session), wanted, *times, proposed=proposed)

        return self.database.write(write)

    def wanted(self, reservation_id: str, demand: Demand, **more: Any) -> Demand:
        named = {'field': 'min', 'noun': 'hosts', **more}
        return dataclasses.replace(demand, reservation_id=reservation_id, **named)

    def check(self, demand: Demand, start: float = 0, end: float = 1) -> None:
        wanted = self.wanted(uuidutils.generate_uuid(), demand)
        self.calendar.check_capacity([wanted], self.at(start), self.at(end))

    def replan(
        self,
        promise: Allocation,
        demand: Demand,
        start: float = 0,
        end: float = 1,
        keep: bool = False,
        **more: Any,
    ) -> list[Allocation]:
        wanted = [self.wanted(promise.reservation_id, demand, **more)]
        times = self.at(start), self.at(end)
        return self.write(self.calendar.reallocate, wanted, *times, keep)

    def move(self, promise: Allocation, demand: Demand) -> list[Allocation]:
        """Replace the unit of a promise."""
        wanted = self.wanted(promise.reservation_id, demand)
        return self.write(self.calendar.replace_unit, wanted, promise.unit_id)

    def release(self, promise: Allocation, hours: float, after: float = 0) -> None:
        used = {promise.reservation_id: [promise.unit_id]}
        self.write(self.calendar.release, used, self.at(hours), after * HOUR)

    def extend(self, promise: Allocation, hours: float) -> None:
        used = {promise.reservation_id: [promise.unit_id]}
        self.write(self.calendar.extend, used, self.at(hours))

    def write(self, change: Callable[..., Any], *args: Any) -> Any:
        """Change allocations in a transaction."""
        return self.database.write(
            lambda session: change(self.calendar.transaction(session), *args)
        )

    def begin(self, hours: float) -> None:
        """Let all promises begin, and end, so many hours earlier."""

        def write(session: orm.Session) -> None:
            found = session.execute(sa.select(ALLOCATION)).mappings().all()
            for row in found:
                key = [ALLOCATION.c[name] == row[name] for name in ('unit_id', 'unit_generation')]
                times = {name: row[name] - hours * HOUR for name in ('start', 'end')}
                sql.change(session, sa.update(ALLOCATION).where(*key).values(times))
            counted = {'generation': UNIT.c.generation + 1, 'changed_at': sql.now(session)}
            sql.change(session, sa.update(UNIT).values(counted))

        self.database.write(write)
        self.start -= hours * HOUR

    def promised(self) -> list[tuple[Any, ...]]:
        """Return what the database has: units, hours, pieces and lanes."""
        return [
            (row.unit_id, self.hours(row.start), self.hours(row.end), row.pieces, row.lane)
            for row in self._rows()
        ]

    def wrong(self) -> list[str]:
        """Tell what is promised twice; all times must be whole hours."""
        found = []
        units = self.database.read(lambda session: session.execute(sa.select(UNIT)).all())
        for unit in units:
            entries = [
                Entry(
                    round(self.hours(row.start)),
                    round(self.hours(row.end)),
                    row.lane,
                    total_amounts(row.pieces, row.piece),
                )
                for row in self._rows()
                if row.unit_id == unit.id
            ]
            limits = {'capacity': unit.capacity, 'lanes': unit.lanes}
            wrong = slow.wrong(Unit(id=unit.id, kind='host', pool='', **limits), entries)
            found += [f'unit {unit.id}: {wrong}'] if wrong else []
        return found

    def _rows(self) -> Sequence[Any]:
        query = sa.select(ALLOCATION).order_by(ALLOCATION.c.unit_id, ALLOCATION.c.start)
        return self.database.read(lambda session: session.execute(query).all())
