# SPDX-License-Identifier: Apache-2.0
"""Climate: configured as for production, started from this environment, filled through its API."""

import datetime
import math
import pathlib
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.bench import climate_rows, web
from tests.bench.cloud import (
    NOVA,
    PASSWORD,
    PROJECT,
    PROJECT_ID,
    RIVAL,
    RIVAL_PROJECT,
    USER,
)
from tests.bench.processes import Failed, Processes, free_port, run
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.side import Side

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

[virtual:instance]
first_poll_seconds = 5

# One project has more leases than any operator would let it have.
[limits]
driver = none
{more}"""

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
#: How many times as long as it took a create may take: others use the machine, too.
_SLOWER = 4
DAYS = 500


class Climate(Side):
    """The service with its fake cloud."""

    name = 'Climate'
    database = 'climate'
    most_listed = 1_000_000
    #: More of its configuration.
    more = ''
    has_history = True

    def __init__(
        self,
        running: Processes,
        mariadb: MariaDB,
        rabbitmq: RabbitMQ,
        workers: int = 1,
        managers: int = 1,
    ) -> None:
        self._metrics = [free_port() for _ in range(managers)]
        if workers > 1:
            self.manager_options = (('--workers', workers),)
        elif managers > 1:
            files = [self._of_manager(running, port) for port in self._metrics]
            self.manager_options = [('--config-file', file) for file in files]
        super().__init__(running, mariadb, pathlib.Path(sys.prefix))
        self._due: set[str] = set()
        self._seeds, self._server = 0, ''
        self._seconds_per_create = 0.2
        self.headers = {
            'X-Auth-Token': self.cloud.token(USER),
            'X-Service-Token': self.cloud.token(NOVA),
        }
        if not (self._bin / 'uwsgi').exists():
            raise Failed(f'no uwsgi in {self._bin}: pip install pyuwsgi')
        config = self._config = self._configure(
            CONFIG.format(
                transport=rabbitmq.url,
                state=running.directory,
                database=self._url,
                cloud=self.cloud.url,
                credentials=CREDENTIALS.format(cloud=self.cloud.url, password=PASSWORD),
                more=self.more,
            )
        )
        self.cloud.order('nova-compute', {'transport_url': rabbitmq.url})
        run([self._bin / 'climate-manage', '--config-file', config, 'db', 'upgrade'])
        self._start(config, 'climate_core.wsgi.api', {'OS_CLIMATE_CONFIG_FILES': str(config)})
        self.fill(1)

    @staticmethod
    def _of_manager(running: Processes, port: int) -> pathlib.Path:
        """Write what a manager has for itself."""
        file = running.directory / f'manager-{port}.conf'
        file.write_text(
            f'[manager]\nhost = manager-{port}\n[metrics]\nlisten = 127.0.0.1:{port}\n'
        )
        return file

    def beaten(self) -> int | None:
        """Return how many claims its managers lost to one another; None if there is only one."""
        if len(self._metrics) < 2:
            return None
        return sum(map(_beaten, self._metrics))

    @property
    def database_url(self) -> str:
        """Return the URL of its database, for SQLAlchemy."""
        return self._url

    def set_hosts(self, count: int) -> None:
        """Nova knows the hosts, and has picked one when the server was built."""

    def reservation(self) -> Mapping[str, Any]:
        """Return a server that Nova is about to reserve; it says what that holds."""
        (server,) = self._servers(1)
        return _reservation(server)

    def _servers(self, count: int, project: str = PROJECT) -> list[str]:
        made = self.cloud.order('servers', [{'project_id': f'{project}-id'}] * count)
        return [server['id'] for server in made]

    def fill(self, count: int) -> None:
        began = time.monotonic()
        if not count:
            return
        servers = self._servers(count)
        self._create(map(_reservation, servers), time.time() + DAYS * 86400)
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

    def _moment_after(self, creates: int) -> float:
        """Return a moment, unix time, before which so many leases can be created."""
        seconds = AHEAD + _SLOWER * creates * self._seconds_per_create
        return float(math.ceil(time.time() + seconds))

    def arrange(self, count: int) -> float:
        """Create the leases through the API, early enough."""
        servers = self._servers(count)
        self._due = set(servers)
        at = self._moment_after(count)
        self._create(map(_reservation, servers), at)
        return at

    def arrange_volumes(self, count: int) -> float:
        """Create leases of a volume each; return when they are due."""
        made = self.cloud.order('volumes', [{'project_id': PROJECT_ID}] * count)
        at = self._moment_after(count)
        volume = {'resource_type': 'virtual:volume', 'amounts': {'volumes': 1, 'gigabytes': 3}}
        self._create(({**volume, 'resource_id': each['id']} for each in made), at)
        return at

    def arrange_single(self, at: float) -> str:
        """Have a lease of another project due at a time; return the id of its server."""
        (server,) = self._servers(1, RIVAL_PROJECT)
        rival = {**self.headers, 'X-Auth-Token': self.cloud.token(RIVAL)}
        self._create([_reservation(server)], at, rival)
        return server

    def _create(
        self,
        reservations: Iterable[Mapping[str, Any]],
        at: float,
        headers: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Create a lease for each reservation; return their ids."""
        made = []
        start = datetime.datetime.fromtimestamp(at, datetime.UTC)
        end = start + datetime.timedelta(days=1)
        for each in reservations:
            body = {
                'name': 'filler',
                'start_date': f'{start:%Y-%m-%d %H:%M:%S}',
                'end_date': f'{end:%Y-%m-%d %H:%M:%S}',
                'reservations': [each],
            }
            answer, _ = web.call('POST', self.api + '/v1/leases', body, headers or self.headers)
            made.append(str(answer['lease']['id']))
        return made

    def started(self) -> Sequence[float]:
        times = self.cloud.started().items()
        return [moment for server, moment in times if server in self._due]


def _beaten(port: int) -> int:
    """Return how many claims of the manager with this port others had made first."""
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics') as answer:
        lines = answer.read().decode().splitlines()
    counts = [each.split() for each in lines if each.startswith('climate_claims_beaten_total')]
    return int(sum(float(count) for _, count in counts))


def _reservation(server: str) -> Mapping[str, Any]:
    """Return what nova-compute sends (nova_ext/compute/reserve.py)."""
    return {
        'resource_type': 'virtual:instance',
        'resource_id': server,
        'amounts': {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1},
    }
