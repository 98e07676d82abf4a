# SPDX-License-Identifier: Apache-2.0
"""Leases in Climate's tables, as its API and its engine leave them, by the million."""

import dataclasses
import datetime
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from climate_core.db import store, tables
from climate_core.lease import model, states
from climate_core.lease.history import Cause, describe_change
from tests.bench.cloud import PROJECT_ID, USER
from tests.support import leases as build

#: One lease of so many has a status that is searched for.
RARE = 20
HOURS = 24
#: So many are made here; the database multiplies them.
BASE = 1000
#: So many times in one transaction.
_COPIES = 50
#: What is an id, or the id of something else, in each table; the first is that of the lease.
_IDS = {
    tables.LEASES: ('id',),
    tables.RESERVATIONS: ('lease_id', 'id', 'resource_id'),
    tables.EVENTS: ('lease_id', 'id'),
    tables.HISTORY: ('lease_id',),
}


def seed(
    url: str,
    count: int,
    start: datetime.datetime,
    mark: int,
    over_at: datetime.datetime | None = None,
) -> str | None:
    """Write leases of one server each, with their events and a line of history.

    :param count: 0 writes nothing; more than :data:`BASE` become a multiple of it
    :param start: of all; they are created one second after the other
    :param mark: another one in each call; the ids begin with it
    :param over_at: when all of them ended; None: they are still to start
    :returns: the id of one of their servers; None if there are none
    """
    if not count:
        return None
    engine = sa.create_engine(url)
    now = datetime.datetime.now(datetime.UTC)
    base = [
        _lease(f'{mark:04x}0000{str(uuid.uuid4())[8:]}', number, now, start)
        for number in range(min(count, BASE))
    ]
    if over_at is not None:
        base = [_ended(each, over_at) for each in base]
    try:
        with engine.begin() as connection:
            _insert(connection, base)
        if count > BASE:
            _multiply(engine, f'{mark:04x}', -(-count // BASE) - 1)
    finally:
        engine.dispose()
    return base[0].reservations[0].resource_id


def _multiply(engine: sa.Engine, mark: str, copies: int) -> None:
    """Copy what begins with the mark and zeros; each copy is older and has ids of its own.

    In the order of the ids, so that each page of the tables is written once.
    """
    for first in range(1, copies + 1, _COPIES):
        last = min(first + _COPIES - 1, copies)
        with engine.begin() as connection:
            connection.exec_driver_sql('SET foreign_key_checks = 0, unique_checks = 0')
            for table, ids in _IDS.items():
                _copy(connection, table, ids, mark, f'seq_{first}_to_{last}')


def _copy(
    connection: sa.Connection, table: sa.Table, ids: Sequence[str], mark: str, sequence: str
) -> None:
    columns = [c.name for c in table.columns if table is not tables.HISTORY or c.name != 'id']
    values = [_copied(name, mark) if name in ids else name for name in columns]
    values = [_OLDER if name == 'created_at' else name for name in values]
    connection.exec_driver_sql(
        f'INSERT INTO {table.name} ({", ".join(columns)}) '
        f'SELECT {", ".join(values)} FROM {sequence} STRAIGHT_JOIN {table.name} '
        f"WHERE {ids[0]} LIKE '{mark}0000%%'"
    )


_OLDER = f'created_at - INTERVAL seq * {BASE} SECOND'


def _copied(name: str, mark: str) -> str:
    return f"CONCAT('{mark}', LPAD(HEX(seq), 4, '0'), SUBSTR({name}, 9))"


def _insert(connection: sa.Connection, batch: list[model.Lease]) -> None:
    rows = {
        tables.LEASES: [store.build_lease_row(each) for each in batch],
        tables.RESERVATIONS: [
            store.build_reservation_row(r) for each in batch for r in each.reservations
        ],
        tables.EVENTS: [
            row for each in batch for row in store.build_event_rows(each, each.events)
        ],
        tables.HISTORY: [row for each in batch for row in _history(each)],
    }
    for table, values in rows.items():
        connection.execute(sa.insert(table), values)


def _history(lease: model.Lease) -> Iterator[dict[str, Any]]:
    made = describe_change(
        None, lease, Cause('lease.create', user_id=lease.user_id), lease.created_at
    )
    if made is not None:
        yield dataclasses.asdict(made)


def _lease(
    lease_id: str, number: int, now: datetime.datetime, start: datetime.datetime
) -> model.Lease:
    created_at = now - datetime.timedelta(seconds=number)
    end = start + datetime.timedelta(hours=HOURS)
    reservation = model.new_reservation(
        lease_id,
        'virtual:instance',
        str(uuid.uuid4()),
        {'on_end': 'delete'},
        created_at,
        {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1},
    )
    return build.lease(
        reservation,
        lease_id=lease_id,
        start=start,
        end=end,
        now=created_at,
        name=f'seeded-{number}',
        project_id=PROJECT_ID,
        user_id=f'{USER}-id',
        before_end_date=end - datetime.timedelta(hours=1),
        status='ERROR' if number % RARE == 0 else 'PENDING',
        trust_id=None,
    )


def _ended(lease: model.Lease, at: datetime.datetime) -> model.Lease:
    """Return a lease as its end has left it."""
    done: dict[str, Any] = {'status': states.EventStatus.DONE, 'next_at': None, 'updated_at': at}
    freed: dict[str, Any] = {'status': states.ReservationStatus.DELETED, 'freed_at': at}
    return dataclasses.replace(
        lease,
        status=states.LeaseStatus.TERMINATED,
        updated_at=at,
        reservations=tuple(dataclasses.replace(r, **freed) for r in lease.reservations),
        events=tuple(dataclasses.replace(e, **done) for e in lease.events),
    )
