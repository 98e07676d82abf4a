# SPDX-License-Identifier: Apache-2.0
"""Climate with hosts of its own, for leases of hosts, as its operators enrol them."""

import datetime
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import sql, tables
from climate_hosts.db import hosts as host_tables
from tests.bench import calendar
from tests.bench.climate import Climate
from tests.bench.processes import Process, Processes
from tests.bench.servers import MariaDB, RabbitMQ

UNIT, HOST = tables.UNITS, host_tables.HOSTS.table
#: What a manager logs when it can answer quickly.
READY = 'The calendar is in memory'


class ClimateHosts(Climate):
    """The service, whose leases are of hosts.

    :ivar names: of the hosts
    """

    # The cloud knows nothing of them but their lanes.
    more = '\n[hosts]\nrefresh_interval = 86400\nwatch_interval = 86400\n'

    def __init__(self, running: Processes, mariadb: MariaDB, rabbitmq: RabbitMQ) -> None:
        self.names: list[str] = []
        self._known: set[str] = set()
        super().__init__(running, mariadb, rabbitmq)

    def set_hosts(self, count: int) -> None:
        """Enrol as many as are missing; none is taken away."""
        made = [self._row(number) for number in range(len(self.names), count)]
        engine = sa.create_engine(self._url)
        with engine.begin() as connection:
            for unit, host in made:
                key = connection.execute(sa.insert(UNIT).values(unit)).inserted_primary_key
                assert key is not None
                connection.execute(sa.insert(HOST).values(unit_id=key[0], **host))
        engine.dispose()
        self.cloud.order('lanes', {host['provider_id']: host['lane_ids'][0] for _, host in made})
        self.names += [host['hypervisor_hostname'] for _, host in made]

    def _row(self, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        now = datetime.datetime.now(datetime.UTC)
        unit = calendar.make_unit(number, 0, now)
        host = {
            'hypervisor_hostname': unit['properties']['hypervisor_hostname'],
            'service_name': unit['properties']['service_name'],
            'provider_id': str(uuid.uuid4()),
            'lane_ids': [str(uuid.uuid4())],
            'details': {},
            'extra': {},
            'created_at': now,
        }
        return {**unit, 'lanes': 1}, host

    def promise(self, count: int) -> None:
        """Promise each host so many times, from the day after tomorrow on."""
        first = 1_000_000
        start = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + 48 * calendar.HOUR
        engine = sa.create_engine(self._url)
        with orm.Session(engine) as session:
            calendar.seed_promises(session, start, count, False, first)
            values = {'generation': first + count, 'changed_at': sql.now(session)}
            session.execute(sa.update(UNIT).values(values))
            session.commit()
        engine.dispose()

    def start_manager(self) -> tuple[float, Process]:
        """Start one more manager; return how long it takes until it is ready, seconds."""
        command = [self._bin / 'climate-manager', '--config-file', self._config]
        began = time.monotonic()
        process = self._running.start('climate-manager-2', command)
        process.wait_for(lambda: process.logged(READY) > 0)
        return time.monotonic() - began, process

    def reservation(self) -> Mapping[str, Any]:
        return hosts(1)

    def arrange(self, count: int) -> float:
        self._known = set(self.cloud.started())
        at = self._moment_after(count)
        self._create([hosts(1)] * count, at)
        return at

    def started(self) -> Sequence[float]:
        times = self.cloud.started().items()
        return [moment for lane, moment in times if lane not in self._known]


def hosts(count: int) -> Mapping[str, Any]:
    """Return a reservation of so many hosts."""
    return {'resource_type': 'physical:host', 'min': count, 'max': count}
