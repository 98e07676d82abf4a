# SPDX-License-Identifier: Apache-2.0
"""Leases of hosts in the tables, which a calendar of this week has all of."""

import datetime
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import sql, tables
from climate_hosts.db import hosts as host_tables
from tests.bench import calendar

UNIT, LEASE = tables.UNITS, tables.LEASES
RESERVATION, ALLOCATION = tables.RESERVATIONS, tables.ALLOCATIONS
HOUR = datetime.timedelta(hours=1)
#: Leases that follow one another on the same hosts begin so many hours after one another.
PERIOD = 24
#: So many follow one another.
ROUNDS = 5
LENGTH = 20 * HOUR
#: The leases that wait are of so many projects.
PROJECTS = 100
#: What is in the tables already has lower generations.
FIRST = 1_000_000


def seed(url: str, count: int, project_id: str) -> str:
    """Promise each host five times in this week, to leases of a project; as many leases wait.

    :param count: of the leases of the project; of those that wait, too
    :returns: the id of one of the leases
    """
    engine = sa.create_engine(url)
    with orm.Session(engine) as session:
        start = datetime.datetime.now(datetime.UTC).replace(minute=0, second=0, microsecond=0)
        blocks = max(1, count // ROUNDS)
        pairs = [_pair(number, blocks, start, project_id) for number in range(count)]
        pairs += [_waiting(number, start) for number in range(count)]
        sql.insert(session, LEASE, [lease for lease, _ in pairs])
        sql.insert(session, RESERVATION, [reservation for _, reservation in pairs])
        calendar.promise(session, sa.cast(UNIT.c.id % blocks, sa.String(10)))
        values = {'generation': FIRST + ROUNDS, 'changed_at': sql.now(session)}
        session.execute(sa.update(UNIT).values(values))
        session.commit()
    with engine.begin() as connection:
        names = (
            LEASE.name,
            RESERVATION.name,
            ALLOCATION.name,
            UNIT.name,
            host_tables.HOSTS.table.name,
        )
        connection.exec_driver_sql(f'ANALYZE TABLE {", ".join(names)}').all()
    engine.dispose()
    return str(pairs[0][0]['id'])


def _pair(
    number: int, blocks: int, start: datetime.datetime, project_id: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a lease and its reservation, whose block of hosts its resource id names."""
    turn, block = divmod(number, blocks)
    begin = start + (turn * PERIOD + block % 4 + 1) * HOUR
    made = uuidutils.generate_uuid()
    lease = {
        **calendar.make_lease(made, begin, FIRST + turn),
        'name': f'lease-{number}',
        'project_id': project_id,
        'end_date': begin + LENGTH,
        'created_at': start - number * datetime.timedelta(seconds=1),
    }
    return lease, calendar.make_reservation(made, str(block))


def _waiting(number: int, start: datetime.datetime) -> tuple[dict[str, Any], dict[str, Any]]:
    made = uuidutils.generate_uuid()
    begin = start + (number % 100 + 1) * HOUR
    lease = {
        **calendar.make_lease(made, begin, 1),
        'name': f'waiting-{number}',
        'project_id': f'project-{number % PROJECTS}',
        'status': 'WAITING',
        'kind': 'retry',
        'created_at': start - number * datetime.timedelta(seconds=1),
    }
    return lease, calendar.make_reservation(made, 'none')
