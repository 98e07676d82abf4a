# SPDX-License-Identifier: Apache-2.0
"""Leases that are written straight into a database, as the manager would have."""

import dataclasses
import datetime
import pathlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import conf as climate_conf
from climate_core.db import leases, sql, store, tables
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.lease.history import Cause
from climate_core.lease.transitions import Change
from tests.support import leases as build
from tests.support import templates


def sqlite(path: pathlib.Path) -> Database:
    """Make an empty database in a file."""
    return create(f'sqlite:///{path}')


def create(url: str) -> Database:
    """Open an empty database and bring it to the form of this release."""
    conf = climate_conf.load([], config_files=[])
    conf.set_override('connection', url, group='database')
    templates.migrate(conf)
    return Database(conf)


def write(database: Database, lease: model.Lease) -> model.Lease:
    """Insert a lease without telling anybody."""

    def insert(session: orm.Session) -> None:
        store.create(session, lease, sql.read_time(session), Cause('lease.create'))
        session.execute(tables.NOTIFICATIONS.delete())

    database.write(insert)
    return lease


def change(database: Database, lease_id: str, ask: Callable[..., Change], *args: Any) -> None:
    """Do to a lease what a user asks for, as the manager does.

    :param ask: of :mod:`climate_core.lease.changes`; called with the lease, ``args`` and the time
    """

    def write(session: orm.Session) -> None:
        lease = leases.find(session, lease_id, lock=True)
        assert lease is not None
        now = sql.read_time(session)
        store.save(session, lease, ask(lease, *args, now), now, Cause('lease.update'))

    database.write(write)


def read(database: Database, lease_id: str) -> model.Lease:
    """Read a lease, also one that is deleted."""
    found = database.read(leases.find, lease_id)
    assert found is not None
    return found


def make(
    database: Database,
    resource_ids: list[str],
    trust_id: str | None = None,
    on_end: str = 'delete',
    lasting: datetime.timedelta = datetime.timedelta(hours=1),
    starts_in: datetime.timedelta = datetime.timedelta(0),
    volume_ids: Sequence[str] = (),
    volume_end: str = 'delete',
    stack_ids: Sequence[str] = (),
    stack_end: str = 'delete',
    **fields: Any,
) -> model.Lease:
    """Build a lease of alice that starts now, or later.

    :param resource_ids: of servers
    :param on_end: of the servers
    :param stack_ids: of stacks; servers and volumes are members of the first
    :param fields: of the lease, instead of those it would have
    """
    now = database.read(sql.read_time)
    lease_id = str(uuid.uuid4())
    member = {'stack_id': stack_ids[0]} if stack_ids else {}
    return build.lease(
        lease_id=lease_id,
        start=now + starts_in,
        end=now + starts_in + lasting,
        now=now,
        **{
            'name': 'lease1',
            'project_id': 'demo-id',
            'user_id': 'alice-id',
            'trust_id': trust_id,
            'reservations': tuple(
                model.new_reservation(
                    lease_id,
                    kind,
                    each,
                    {'on_end': end} | member,
                    now,
                    parent_id=member.get('stack_id'),
                )
                for kind, ids, end, member in (
                    ('virtual:stack', stack_ids, stack_end, {}),
                    ('virtual:instance', resource_ids, on_end, member),
                    ('virtual:volume', volume_ids, volume_end, member),
                )
                for each in ids
            ),
            **fields,
        },
    )


def started(lease: model.Lease) -> model.Lease:
    """Return the lease as it is after its start."""
    events = tuple(
        dataclasses.replace(e, status='DONE', next_at=None) if e.event_type == model.START else e
        for e in lease.events
    )
    reservations = tuple(dataclasses.replace(r, status='active') for r in lease.reservations)
    return dataclasses.replace(lease, status='ACTIVE', events=events, reservations=reservations)


def due(lease: model.Lease) -> model.Lease:
    """Let the lease, which started, end now."""
    end = lease.start_date
    events = tuple(
        dataclasses.replace(e, time=end, next_at=end) if e.event_type == model.END else e
        for e in lease.events
    )
    return dataclasses.replace(lease, end_date=end, events=events)


def end_waits(database: Database) -> None:
    """Have the next look of all that has begun and goes on later come now."""
    event = tables.EVENTS.c
    with database.writer() as session:
        now = sql.now(session)
        waits = sa.and_(event.status == 'UNDONE', event.time <= now)
        session.execute(sa.update(tables.EVENTS).where(waits).values(next_at=now))


def expire_claims(database: Database) -> None:
    """Let the time of all claims pass, of events, notifications and calls of webhooks."""
    claimed = {
        tables.EVENTS: tables.EVENTS.c.status == 'IN_PROGRESS',
        tables.NOTIFICATIONS: tables.NOTIFICATIONS.c.claim.is_not(None),
        tables.DELIVERIES: tables.DELIVERIES.c.claim.is_not(None),
    }
    with database.writer() as session:
        for table, which in claimed.items():
            session.execute(sa.update(table).where(which).values(next_at=sql.now(session)))
