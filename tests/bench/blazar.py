# SPDX-License-Identifier: Apache-2.0
"""Blazar 18: installed into an environment of its own, configured, started, filled."""

import hashlib
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench import web
from tests.bench.blazar_rows import Rows
from tests.bench.cloud import PASSWORD, PROJECT, USER
from tests.bench.processes import Failed, Processes, run
from tests.bench.servers import MariaDB, RabbitMQ
from tests.bench.side import Side

REQUIREMENTS = pathlib.Path(__file__).with_name('blazar-requirements.txt')
#: File in the environment that says what was installed.
STAMP = 'bench-stamp'
#: Seconds between the filling of the tables and the moment the leases are due.
AHEAD = 3


def installed(venv: pathlib.Path) -> bool:
    """Tell whether ``venv`` holds what the requirements say today."""
    stamp = venv / STAMP
    return stamp.exists() and stamp.read_text() == _wanted()


def _wanted() -> str:
    return hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()


def install(venv: pathlib.Path) -> None:
    """Put Blazar into ``venv``, a new one.

    :raises Failed: it cannot be installed here
    """
    python = venv / 'bin' / 'python'
    uv = shutil.which('uv', path=f'{pathlib.Path(sys.prefix) / "bin"}:{os.environ["PATH"]}')
    if uv:
        run([uv, 'venv', '--clear', '--python', sys.executable, venv])
        run([uv, 'pip', 'install', '--python', python, '-r', REQUIREMENTS])
    else:
        run([sys.executable, '-m', 'venv', '--clear', venv])
        run([python, '-m', 'pip', 'install', '-r', REQUIREMENTS])
    (venv / STAMP).write_text(_wanted())


CONFIG = """\
[DEFAULT]
host = bench
transport_url = {transport}
os_auth_host = 127.0.0.1
os_auth_port = {port}
os_auth_prefix = identity
os_admin_username = {user}
os_admin_password = {password}
os_admin_project_name = service
os_region_name = RegionOne
endpoint_type = public

[nova]
endpoint_type = public

[placement]
endpoint_type = public

[database]
connection = {database}

[manager]
plugins = physical.host.plugin

[keystone_authtoken]
auth_type = password
interface = public
auth_url = {cloud}/identity/v3
www_authenticate_uri = {cloud}/identity/v3
username = {user}
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default

[oslo_messaging_notifications]
driver = messagingv2
"""


class Blazar(Side):
    """The service with its fake cloud.

    :param venv: where :func:`install` put it
    """

    name = 'Blazar 18'
    database = 'blazar'
    # All are in one answer, which takes half a millisecond of CPU for each.
    most_listed = 10_000
    has_history = False

    def __init__(
        self, venv: pathlib.Path, running: Processes, mariadb: MariaDB, rabbitmq: RabbitMQ
    ) -> None:
        super().__init__(running, mariadb, venv)
        self._known: set[str] = set()
        self.headers = {'X-Auth-Token': self.cloud.token(USER)}
        trust_id = self.cloud.trust(USER, PROJECT, 'blazar')
        self._rows = Rows(mariadb.connect(self.database), trust_id)
        config = self._configure(
            CONFIG.format(
                transport=rabbitmq.url,
                cloud=self.cloud.url,
                port=self.cloud.url.rpartition(':')[2],
                user='blazar',
                password=PASSWORD,
                database=self._url,
            )
        )
        run([self._bin / 'blazar-db-manage', '--config-file', config, 'upgrade', 'head'])
        self._start(config, 'blazar.wsgi.api', {'OS_BLAZAR_CONFIG_DIR': str(config.parent)})
        # A list is served by the manager, over RPC: with the answer both are there.
        web.call('GET', self.api + '/v1/leases', None, self.headers)

    def set_hosts(self, count: int) -> None:
        self.cloud.order('hosts', self._rows.set_hosts(count))

    def reservation(self) -> Mapping[str, Any]:
        return {
            'resource_type': 'physical:host',
            'min': 1,
            'max': 1,
            'hypervisor_properties': '',
            'resource_properties': '',
        }

    def fill(self, count: int) -> None:
        self._rows.add_leases(time.time() + 500 * 86400, [0] * count)

    def seed(self, count: int) -> None:
        self.fill(count)

    def pages(self) -> Mapping[str, str]:
        """Return all of them: it has neither pages nor filters."""
        return {'in order': '/v1/leases'}

    def arrange(self, count: int) -> float:
        """Write the leases into the tables as a create leaves them, each with its own host."""
        self._known = set(self.cloud.started())
        names = [f'due-{number}' for number in range(count)]
        at = float(int(time.time()) + AHEAD + count // 200)
        self._rows.add_leases(at, self.cloud.order('aggregates', names), allocate=True)
        return at

    def started(self) -> Sequence[float]:
        times = self.cloud.started().items()
        return [moment for key, moment in times if key not in self._known]


def check(venv: pathlib.Path) -> str:
    """Return the release that is installed."""
    code = 'import importlib.metadata as m; print(m.version("blazar"))'
    version = run([venv / 'bin' / 'python', '-c', code]).strip()
    if not version.startswith('18.'):
        raise Failed(f'Blazar {version} is not release 18')
    return version
