# SPDX-License-Identifier: Apache-2.0
"""Hosts of a fake cloud in a pool, and hosts that are promised to leases."""

import dataclasses
import datetime
import uuid
from typing import Any

import sqlalchemy as sa

from climate_core.cloud import Cloud
from climate_core.context import RequestContext
from climate_core.db import tables
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_hosts import hosts, placement
from climate_hosts.conf import hosts as conf_group
from climate_hosts.conf import power as power_group
from climate_hosts.db import hosts as db
from climate_hosts.operations.hosts import HostOperations
from tests.support import leases as build
from tests.support.fakes import cloud_server, hypervisors, leases, settings

START = datetime.datetime(2099, 1, 1, 10, tzinfo=datetime.UTC)


def promise(
    database: Database, host_id: int, start: datetime.datetime = START, lane: int = 0
) -> model.Lease:
    """Promise a lane of a host to a reservation of a new lease, for two hours."""
    lease_id, now = str(uuid.uuid4()), start - build.HOUR
    params = {'min': 1, 'max': 1}
    new = model.new_reservation(lease_id, 'physical:host', str(uuid.uuid4()), params, now)
    new = dataclasses.replace(new, unit_kind='host')
    lease = leases.write(database, build.lease(new, lease_id=lease_id, start=start, now=now))
    row = {
        'unit_id': host_id,
        'unit_generation': lane + 1,
        'reservation_id': lease.reservations[0].id,
        'start': lease.start_date,
        'end': lease.end_date,
        'pieces': 1,
        'lane': lane,
    }
    with database.writer() as session:
        session.execute(sa.insert(tables.ALLOCATIONS).values(row))
    return lease


class EnrolledHosts:
    """The hosts cn1 and cn2 of a fake cloud, in a pool.

    :param lanes: how many each has; None: the default
    :ivar state: of the fake cloud
    """

    def __init__(
        self, fake: cloud_server.Server, database: Database, lanes: int | None = None
    ) -> None:
        self.state = fake.state
        self.database = database
        self.conf = settings.conf(fake.url)
        for section in (conf_group, power_group):
            self.conf.register_opts(section.OPTS, group=section.GROUP)
        if lanes is not None:
            self.conf.set_override('lanes_per_host', lanes, group=conf_group.GROUP)
        self.cloud = Cloud(self.conf)
        self.conn = self.cloud.service()
        self.paused: list[float] = []
        self.operations = HostOperations(self.conf, database, self.cloud, self.paused.append)
        self.context = RequestContext(user_id='operator', overwrite=False)
        self.ids = [self.enrol(name) for name in ('cn1', 'cn2')]

    def enrol(self, name: str, **values: Any) -> int:
        """Put a new hypervisor into the cloud, and into a pool."""
        hypervisors.add(self.state, name)
        return self.operations.create_host(self.context, {'name': name, **values})

    def read(self, number: int = 0) -> hosts.Host:
        """Read the first host, or another."""
        return self.database.read(db.HOSTS.get, self.ids[number])

    def hypervisor(self, number: int = 0) -> dict[str, Any]:
        """Return the record of a host in the cloud, which may be changed."""
        return self.state.hypervisors[self.read(number).provider_id]

    def in_pool(self) -> set[str]:
        """Return the names of the hosts that Placement keeps from ordinary servers."""
        return {each.name for each in placement.list_pool(self.conn)}

    def generation(self, number: int = 0) -> int:
        """Return the generation of the unit of a host: how often it was changed."""
        with self.database.reader() as session:
            query = sa.select(tables.UNITS.c.generation).where(
                tables.UNITS.c.id == self.ids[number]
            )
            return int(session.execute(query).scalar_one())
