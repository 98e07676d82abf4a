# SPDX-License-Identifier: Apache-2.0
"""Climate: configured as for production, started from this environment, filled through its API."""

import datetime
import math
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench import climate_rows, web
from tests.bench.cloud import PASSWORD, PROJECT_ID, Client
from tests.bench.processes import Failed, Process, Processes, free_port, run
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.side import LOADED, PROCESSES, wsgi_server

CONFIG = """\
[DEFAULT]
transport_url = {transport}
state_path = {state}

[database]
connection = {database}

[cloud]
{credentials}

[keystone_authtoken]
interface = public
www_authenticate_uri = {cloud}/identity/v3
{credentials}

[oslo_messaging_notifications]
driver = messagingv2
"""

CREDENTIALS = """\
auth_type = password
auth_url = {cloud}/identity/v3
username = climate
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default"""

#: Seconds to spare between the last create and the moment the leases are due.
AHEAD = 4
DAYS = 500


class Climate:
    """The service with its fake cloud."""

    name = 'Climate'
    database = 'climate'
    most_listed = 1_000_000
    has_history = True

    def __init__(self, running: Processes, mariadb: MariaDB, rabbitmq: RabbitMQ) -> None:
        self._bin, self._running = pathlib.Path(sys.prefix) / 'bin', running
        self._due: set[str] = set()
        self._url = mariadb.create(self.database)
        self._seeds, self._server = 0, ''
        self._seconds_per_create = 0.2
        self.cloud = Client(running, 'cloud-of-climate')
        self.headers: Mapping[str, str] = {
            'X-Auth-Token': self.cloud.user_token(),
            'X-Service-Token': self.cloud.nova_token(),
        }
        port = free_port()
        self.api = f'http://127.0.0.1:{port}'
        config = running.directory / 'climate.conf'
        config.write_text(
            CONFIG.format(
                transport=rabbitmq.url,
                state=running.directory,
                database=self._url,
                cloud=self.cloud.url,
                credentials=CREDENTIALS.format(cloud=self.cloud.url, password=PASSWORD),
            )
        )
        self._start(config, port)

    def _start(self, config: pathlib.Path, port: int) -> None:
        if not (self._bin / 'uwsgi').exists():
            raise Failed(f'no uwsgi in {self._bin}: pip install pyuwsgi')
        chosen = ['--config-file', config]
        run([self._bin / 'climate-manage', *chosen, 'db', 'upgrade'])
        self._manager = self._running.start(
            'climate-manager', [self._bin / 'climate-manager', *chosen]
        )
        venv = ['--pyhome', sys.prefix]
        self._api = self._running.start(
            'climate-api',
            wsgi_server(self._bin / 'uwsgi', port, 'climate_core.wsgi.api', venv),
            {'OS_CLIMATE_CONFIG_FILES': str(config)},
        )
        self._api.wait_for(lambda: self._api.logged(LOADED) == PROCESSES)
        self.fill(1)

    @property
    def processes(self) -> Sequence[Process]:
        return [self._api, self._manager]

    def set_hosts(self, count: int) -> None:
        """Nova knows the hosts, and has picked one when the server was built."""

    def reservation(self) -> Mapping[str, Any]:
        """A server that Nova is about to reserve; it says what that holds."""
        (server,) = self._servers(1)
        return _reservation(server)

    def _servers(self, count: int) -> list[str]:
        made = self.cloud.order('servers', [{'project_id': PROJECT_ID}] * count)
        return [server['id'] for server in made]

    def fill(self, count: int) -> None:
        began = time.monotonic()
        if not count:
            return
        servers = self._servers(count)
        self._create(servers, time.time() + DAYS * 86400)
        self._server = servers[0]
        if count > 1:
            self._seconds_per_create = (time.monotonic() - began) / count

    def seed(self, count: int) -> None:
        start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=DAYS)
        self._seeds += 1
        # Those that were created are enough: then a page by resource is asked for one of them.
        seeded = climate_rows.seed(self._url, count, start, self._seeds)
        self._server = seeded or self._server

    def pages(self) -> Mapping[str, str]:
        path = '/v1/leases?limit=100'
        return {
            'in order': path,
            'by status': f'{path}&status=ERROR',
            'by resource': f'{path}&resource_type=virtual:instance&resource_id={self._server}',
        }

    def arrange(self, count: int) -> float:
        """Create the leases through the API, early enough."""
        servers = self._servers(count)
        self._due = set(servers)
        at = float(math.ceil(time.time() + AHEAD + 2 * count * self._seconds_per_create))
        self._create(servers, at)
        return at

    def _create(self, servers: Sequence[str], at: float) -> None:
        start = datetime.datetime.fromtimestamp(at, datetime.UTC)
        end = start + datetime.timedelta(days=1)
        for server in servers:
            body = {
                'name': 'filler',
                'start_date': f'{start:%Y-%m-%d %H:%M:%S}',
                'end_date': f'{end:%Y-%m-%d %H:%M:%S}',
                'reservations': [_reservation(server)],
            }
            web.call('POST', self.api + '/v1/leases', body, self.headers)

    def started(self) -> Sequence[float]:
        times = self.cloud.started().items()
        return [moment for server, moment in times if server in self._due]


def _reservation(server: str) -> Mapping[str, Any]:
    """What nova-compute sends (nova_ext/compute/reserve.py)."""
    return {
        'resource_type': 'virtual:instance',
        'resource_id': server,
        'amounts': {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1},
    }
