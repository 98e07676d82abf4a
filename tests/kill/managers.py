# SPDX-License-Identifier: Apache-2.0
"""A database, a cloud with a journal, and the manager processes between them."""

import contextlib
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from climate_core.db import outbox
from climate_core.db.engine import Database
from climate_core.lease.model import Lease
from tests.fakes import leases, settings

#: Seconds after which something that should have happened did not.
PATIENCE = 90.0
ROOT = pathlib.Path(__file__).parents[2]


class Cloud:
    """The fake cloud as a process of its own."""

    def __init__(self, directory: pathlib.Path) -> None:
        port_file = directory / 'port'
        self._process = subprocess.Popen(
            [
                sys.executable,
                '-m',
                'tests.fakes.cloud_server',
                f'--journal={directory / "journal"}',
                f'--port-file={port_file}',
                '--tell',
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        self._process.stdout.readline()
        self.url = f'http://127.0.0.1:{port_file.read_text(encoding="ascii")}'

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        assert self._process.stdout
        self._process.stdout.close()

    def order(self, what: str, body: Any) -> Any:
        """Put something into the cloud."""
        data = json.dumps(body).encode()
        with urllib.request.urlopen(f'{self.url}/fake/{what}', data, PATIENCE) as answer:
            return json.load(answer)

    def servers(self, count: int, **fields: Any) -> list[str]:
        return [each['id'] for each in self.order('servers', [fields] * count)]

    def trust(self) -> str:
        """A trust of alice to the service."""
        trust = {
            'id': uuid.uuid4().hex,
            'trustor_user_id': 'alice-id',
            'trustee_user_id': 'climate-id',
            'project_id': 'demo-id',
            'impersonation': True,
            'roles': ['member', 'reader'],
        }
        return str(self.order('trusts', trust)['id'])

    def journal(self) -> list[Mapping[str, Any]]:
        with urllib.request.urlopen(f'{self.url}/fake/journal', timeout=PATIENCE) as answer:
            found: list[Mapping[str, Any]] = json.load(answer)
        return found

    def effects(self) -> dict[str, list[str]]:
        """Resource -> what was asked of it and accepted, in order."""
        found: dict[str, list[str]] = {}
        for entry in self.journal():
            found.setdefault(entry['id'], []).append(entry['what'])
        own = ('server create', 'server is', 'server gone', 'trust create', 'image complete')
        return {key: [e for e in told if e not in own] for key, told in found.items()}


class Manager:
    """One climate-manager in a process group of its own."""

    def __init__(self, place: 'Place', kill: str | None) -> None:
        command = [sys.executable, '-m', 'tests.kill.start_manager']
        command += ['--config-file', str(place.config)]
        command += ['--kill', kill] if kill else []
        self._log = (place.directory / 'manager.log').open('ab')
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(place.told,), daemon=True)
        self._reader.start()

    def _read(self, told: 'queue.SimpleQueue[str]') -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            told.put(line.decode().strip())
        told.put('')

    def dies(self) -> None:
        """Wait until it was killed at its point."""
        assert self._process.wait(PATIENCE) == -signal.SIGKILL
        self._close()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._close()

    def _close(self) -> None:
        self._reader.join(PATIENCE)
        assert self._process.stdout
        self._process.stdout.close()
        self._log.close()


class Place:
    """Where one test happens.

    :param url: of an empty database
    """

    def __init__(self, directory: pathlib.Path, url: str, cloud: Cloud) -> None:
        self.directory = directory
        self.cloud = cloud
        self.database: Database = leases.create(url)
        self.config = directory / 'climate.conf'
        self.config.write_text(_config(url, cloud.url, directory), encoding='utf-8')
        self.told: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._managers: list[Manager] = []

    def manager(self, kill: str | None = None) -> Manager:
        """Start a manager."""
        started = Manager(self, kill)
        self._managers.append(started)
        return started

    def close(self) -> None:
        for each in self._managers:
            each.kill()
        self.database.dispose()

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for something; it is looked at again whenever a manager reaches a point."""
        while not happened():
            try:
                self.told.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(self.log()) from None
            while not self.told.empty():
                self.told.get()

    def lease(self, lease: Lease) -> Lease:
        return leases.read(self.database, lease.id)

    def over(self, lease: Lease) -> bool:
        """Tell whether the lease has ended and nothing is left of its trust."""
        found = self.lease(lease)
        return found.status == 'TERMINATED' and found.trust_id is None

    def all_told(self) -> bool:
        """Tell whether the outbox is empty."""
        return self.database.read(outbox.due_in) is None

    def images(self) -> int:
        """Number of images that were made."""
        return [entry['what'] for entry in self.cloud.journal()].count('image create')

    def log(self) -> str:
        return (self.directory / 'manager.log').read_text(encoding='utf-8')[-5000:]

    def notified(self) -> list[Mapping[str, Any]]:
        """The notifications that were sent, from the log."""
        found = []
        for line in (self.directory / 'notices.log').read_text(encoding='utf-8').splitlines():
            _, _, body = line.partition(' ')
            found.append(json.loads(body))
        return found


_CONFIG = """\
[DEFAULT]
transport_url = fake:/
log_config_append = {directory}/logging.conf
state_path = {directory}
[database]
connection = {database}
[engine]
claim_ttl = 1.0
idle_seconds = 600
[manager]
host = 127.0.0.1
[nova_notifications]
enabled = false
[reconcile]
interval = 86400
[oslo_messaging_notifications]
driver = log
[cloud]
{cloud}
"""

_LOGGING = """\
[loggers]
keys = root, notices
[handlers]
keys = stderr, notices
[formatters]
keys = line
[logger_root]
level = INFO
handlers = stderr
[logger_notices]
level = INFO
handlers = notices
propagate = 0
qualname = oslo.messaging.notification
[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = line
[handler_notices]
class = FileHandler
args = ('{directory}/notices.log', 'a')
formatter = line
[formatter_line]
format = %(name)s %(message)s
"""


def _config(database: str, cloud: str, directory: pathlib.Path) -> str:
    logging = directory / 'logging.conf'
    logging.write_text(_LOGGING.format(directory=directory), encoding='utf-8')
    (directory / 'notices.log').touch()
    options = '\n'.join(f'{k} = {v}' for k, v in settings.cloud_options(cloud).items())
    escaped = database.replace('$', '$$')
    return _CONFIG.format(database=escaped, cloud=options, directory=directory)


@contextlib.contextmanager
def place(directory: pathlib.Path, url: str) -> Iterator[Place]:
    """Make a place and take everything down again."""
    cloud = Cloud(directory)
    try:
        made = Place(directory, url, cloud)
        try:
            yield made
        finally:
            made.close()
    finally:
        cloud.stop()
