# SPDX-License-Identifier: Apache-2.0
"""Hosts that are promised to leases, written straight into a database."""

import dataclasses
import datetime
import uuid

import sqlalchemy as sa

from climate_core.db import tables
from climate_core.db.engine import Database
from climate_core.lease import model
from tests.support import leases as build
from tests.support.fakes import leases

START = datetime.datetime(2099, 1, 1, 10, tzinfo=datetime.UTC)


def promise(database: Database, host_id: int) -> model.Lease:
    """Promise a host to a reservation of a new lease, for two hours."""
    lease_id, now = str(uuid.uuid4()), START - build.HOUR
    new = model.new_reservation(lease_id, 'physical:host', str(uuid.uuid4()), {}, now)
    new = dataclasses.replace(new, unit_kind='host')
    lease = leases.write(database, build.lease(new, lease_id=lease_id, start=START, now=now))
    row = {
        'unit_id': host_id,
        'unit_generation': 1,
        'reservation_id': lease.reservations[0].id,
        'start': lease.start_date,
        'end': lease.end_date,
        'pieces': 1,
        'lane': 0,
    }
    with database.writer() as session:
        session.execute(sa.insert(tables.ALLOCATIONS).values(row))
    return lease
