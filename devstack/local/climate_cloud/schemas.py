# SPDX-License-Identifier: Apache-2.0
"""Make the databases of the services with their own commands.

A database whose first making was interrupted is made again from nothing. The commands run in
sessions of their own, so that Ctrl-C lets them finish, and they hold the lock of the cloud.
"""

import hashlib
import pathlib
import subprocess
import threading

from climate_cloud.configs import Configs
from climate_cloud.install import LOCK
from climate_cloud.mariadb import MariaDB
from climate_cloud.processes import ServiceFailed, clean_environment
from climate_cloud.settings import Settings

#: service -> its databases
DATABASES = {
    'keystone': ['keystone'],
    'nova': ['nova_api', 'nova', 'nova_cell0'],
    'neutron': ['neutron'],
    'cinder': ['cinder'],
    'heat': ['heat'],
    'placement': ['placement'],
    'glance': ['glance'],
    'climate': ['climate'],
}


class Schemas:
    """The schemas of one cloud.

    :param lock_descriptor: kept open by the commands, see :mod:`climate_cloud.lock`
    :param give_up: when set, no further command is begun
    """

    def __init__(
        self,
        settings: Settings,
        configs: Configs,
        mariadb: MariaDB,
        lock_descriptor: int,
        give_up: threading.Event,
    ) -> None:
        self.settings = settings
        self.configs = configs
        self.mariadb = mariadb
        self.lock_descriptor = lock_descriptor
        self.give_up = give_up
        self.stamps = settings.data / 'schemas'
        self.versions = hashlib.sha256(LOCK.read_bytes()).hexdigest()
        # More at once than cores would only make them slower. Nova has several, one after the
        # other, and the rest of the cloud waits for it: it has a slot of its own.
        self._slots = threading.Semaphore(2)
        self._nova_slot = threading.Semaphore(1)

    def make(self, service: str) -> None:
        """Bring the databases of a service to the installed version.

        :raises ServiceFailed: a command failed
        """
        stamp = self.stamps / service
        if stamp.exists() and stamp.read_text() == self.versions and service != 'climate':
            return
        new = not stamp.exists()
        if new:
            for database in DATABASES[service]:
                self.mariadb.recreate(database)
        for command in self._commands(service, new):
            self.run(service, command)
        self.stamps.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.versions)

    def _commands(self, service: str, new: bool) -> list[list[str]]:
        config = ['--config-file', str(self.configs.path(service))]
        if service == 'nova':
            nova = ['nova-manage', *config]
            cell0 = ['--database_connection', self.mariadb.url('nova_cell0')]
            cells = [
                [*nova, 'cell_v2', 'map_cell0', *cell0],
                [*nova, 'cell_v2', 'create_cell', '--name', 'cell1'],
            ]
            sync = [[*nova, 'api_db', 'sync'], [*nova, 'db', 'sync']]
            return [sync[0], cells[0], sync[1], cells[1]] if new else sync
        return [
            {
                'keystone': ['keystone-manage', *config, 'db_sync'],
                'placement': ['placement-manage', *config, 'db', 'sync'],
                'glance': ['glance-manage', *config, 'db_sync'],
                'neutron': ['neutron-db-manage', *config, 'upgrade', 'heads'],
                'cinder': ['cinder-manage', *config, 'db', 'sync'],
                'heat': ['heat-manage', *config, 'db_sync'],
                'climate': ['climate-manage', *config, 'db', 'upgrade'],
            }[service]
        ]

    def discover_computes(self) -> None:
        """Map the compute hosts that have reported into the cell."""
        config = ['--config-file', str(self.configs.path('nova'))]
        self.run('nova', ['nova-manage', *config, 'cell_v2', 'discover_hosts', '--by-service'])

    def bootstrap_keystone(self, password: str, url: str) -> None:
        """Make the administrator, the default roles and Keystone's own endpoints."""
        config = ['--config-file', str(self.configs.path('keystone'))]
        options = ['--bootstrap-password', password, '--bootstrap-region-id', 'RegionOne']
        for interface in ('admin', 'internal', 'public'):
            options += [f'--bootstrap-{interface}-url', f'{url}/v3']
        self.run('keystone', ['keystone-manage', *config, 'bootstrap', *options])

    def run(self, service: str, command: list[str]) -> None:
        """Run a command of the virtual environment and wait for it, even through Ctrl-C."""
        program = str(self.settings.bin / command[0])
        log = self.settings.logs / f'{service}-manage.log'
        slot = self._nova_slot if service == 'nova' else self._slots
        with slot, open(log, 'ab') as output:
            if self.give_up.is_set():
                raise ServiceFailed(f'interrupted before {command[0]}')
            done = subprocess.Popen(
                [program, *command[1:]],
                cwd=self.settings.state,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[self.lock_descriptor],
            ).wait()
        if done:
            raise ServiceFailed(_failure(command, done, log))


def _failure(command: list[str], status: int, log: pathlib.Path) -> str:
    lines = log.read_text(errors='replace').splitlines()[-20:]
    text = '\n'.join(f'    {line}' for line in lines)
    return (
        f'"{command[0]} {command[-2]} {command[-1]}" failed ({status}). The end of {log}:\n{text}'
    )
