# SPDX-License-Identifier: Apache-2.0
"""Units in a database, and reservations that want them, without leases' operations."""

import datetime
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.calendar.admission import Calendar
from climate_core.calendar.model import Demand, Promise, Wanted
from climate_core.db import rows, tables, utcnow
from climate_core.db.engine import Database
from tests.support.world import configure

UNIT, ALLOCATION = tables.UNITS, tables.ALLOCATIONS
#: Later than any test runs.
START = datetime.datetime(2096, 12, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def at(hours: float) -> datetime.datetime:
    return START + hours * HOUR


def demand(least: int = 1, most: int | None = None, **more: Any) -> Demand:
    return Demand(kind='host', least=least, most=most or least, **more)


class Hall:
    """A database with units, and a calendar of it."""

    def __init__(self, url: str) -> None:
        self.database = Database(configure(url))
        tables.METADATA.create_all(self.database.engine)
        self.calendar = Calendar(self.database)

    def units(self, count: int = 1, **values: Any) -> list[int]:
        """Write units; return their ids."""
        return self.database.write(self._units, count, values)

    def _units(self, session: orm.Session, count: int, values: Mapping[str, Any]) -> list[int]:
        defaults = {
            'kind': 'host',
            'pool': 'default',
            'available': True,
            'capacity': {},
            'lanes': 1,
            'properties': {},
            'generation': 0,
            'changed_at': utcnow.read(session),
        }
        rows.insert(session, UNIT, [defaults | values] * count)
        ids = session.scalars(sa.select(UNIT.c.id).order_by(UNIT.c.id.desc()).limit(count))
        return sorted(ids)

    def reserve(self, session: orm.Session) -> str:
        """Write a lease with a reservation; return the id of that."""
        made = uuidutils.generate_uuid()
        common = {'id': made, 'status': 'PENDING', 'created_at': START}
        lease = {'name': 'l', 'project_id': 'p', 'user_id': 'u', 'degraded': False}
        times = {'start_date': START, 'end_date': START, 'generation': 0, 'start_policy': 'auto'}
        rows.insert(session, tables.LEASES, [common | lease | times])
        reservation = {'lease_id': made, 'resource_type': 'test', 'resource_id': made}
        states = {'params': {}, 'missing_resources': False, 'resources_changed': False}
        rows.insert(session, tables.RESERVATIONS, [common | reservation | states])
        return made

    def book(
        self,
        *demands: Demand,
        start: float = 0,
        end: float = 1,
        calendar: Calendar | None = None,
        **more: Any,
    ) -> list[Promise]:
        """Promise units to new reservations, one for each demand."""

        def write(session: orm.Session) -> list[Promise]:
            wanted = [
                Wanted(
                    reservation_id=self.reserve(session), demand=each, field=f'field{n}', **more
                )
                for n, each in enumerate(demands)
            ]
            return (calendar or self.calendar).promise(session, wanted, at(start), at(end))

        return self.database.write(write)

    def promised(self) -> list[tuple[int, float, float]]:
        """Return units and hours of all that the database has."""
        found = self.database.read(
            lambda session: session.execute(
                sa.select(ALLOCATION.c.unit_id, ALLOCATION.c.start, ALLOCATION.c.end).order_by(
                    ALLOCATION.c.unit_id, ALLOCATION.c.start
                )
            ).all()
        )
        return [(unit, (start - START) / HOUR, (end - START) / HOUR) for unit, start, end in found]
