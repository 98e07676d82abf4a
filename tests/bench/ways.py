# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.ways``: how much of the service each of three requests runs through.

The API and a manager run in one process against the fake cloud of the tests. Of each way it prints
the distinct files and functions of the service that ran, and the calls from a function of one
package to a function of another. Each way runs once before it is traced, so that imports and
caches do not count.
"""

import argparse
import collections
import contextlib
import datetime
import pathlib
import sys
import threading
import types
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from climate_core import conf as configuration
from climate_core.api import app
from climate_core.db.engine import Database
from climate_core.service import ManagerService
from tests.bench.climate import CONFIG, CREDENTIALS
from tests.bench.cloud import NOVA, PASSWORD, PROJECT, PROJECT_ID, SERVICE_PROJECT, USER
from tests.bench.processes import run_in_directory, wait_until
from tests.functional.api import world
from tests.support import templates
from tests.support.fakes import cloud_server, hypervisors
from tests.support.fakes.remote import Remote

_ROOT = pathlib.Path(__file__).resolve().parents[2]
#: What the service consists of; the extensions and the client run elsewhere.
_SERVICE = ('climate_common/', 'climate_core/', 'climate_hosts/', 'climate_networks/')
_SERVED = ('climate_core/api/', 'climate_core/rpc.py')
_STARTED = ('climate_core/engine/',)

#: Beside the configuration of the bench: hosts may be added at once.
_HOSTS = '\n[hosts]\nenrol_seconds = 0\n'


class Trace:
    """Record the functions of the service that threads run while :meth:`recorded` lasts."""

    def __init__(self) -> None:
        self._is_on = False
        self._calls: collections.Counter[tuple[int, types.CodeType, types.CodeType | None]]
        self._calls = collections.Counter()

    def install(self) -> None:
        """Record this thread, and those that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Forget what was recorded, and record until the end of the block."""
        self._calls.clear()
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def _note(self, frame: types.FrameType, event: str, _: Any) -> None:
        if not self._is_on or event != 'call' or _file(frame.f_code) is None:
            return
        caller = frame.f_back
        while caller is not None and _file(caller.f_code) is None:
            caller = caller.f_back
        code = None if caller is None else caller.f_code
        self._calls[threading.get_ident(), frame.f_code, code] += 1

    def describe(self, way: str, entries: tuple[str, ...], names_files: bool) -> str:
        """Return what was recorded in the threads that ran a function of some folders.

        :param entries: these folders; other threads do something else beside it
        :param names_files: whether to list the files
        """
        calls = dict(self._calls)
        threads = {thread for thread, code, _ in calls if (_file(code) or '').startswith(entries)}
        mine = {key: count for key, count in calls.items() if key[0] in threads}
        functions = {code for _, code, _ in mine if code.co_name != '<module>'}
        files = sorted({name for name in map(_file, functions) if name})
        changes = sum(
            count
            for (_, code, caller), count in mine.items()
            if caller is not None and _package(code) != _package(caller)
        )
        lines = [f'| {way} | {len(files)} | {len(functions)} | {changes} |']
        return '\n'.join(lines + [f'|   {name} | | | |' for name in files if names_files])


_files: dict[types.CodeType, str | None] = {}


def _file(code: types.CodeType) -> str | None:
    """Return the path of the function's file in the tree; None: it is not of the service."""
    if code not in _files:
        name = code.co_filename.removeprefix(f'{_ROOT}/')
        _files[code] = name if name.startswith(_SERVICE) else None
    return _files[code]


def _package(code: types.CodeType) -> str:
    return str(pathlib.PurePath(_file(code) or '').parent)


class Orders(Remote):
    """Orders to a fake cloud at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url


class Ways:
    """The three ways, each a function that takes its steps.

    :param application: the API
    :param cloud: orders to the fake cloud
    :param trace: what records each way
    """

    def __init__(self, application: Any, cloud: Orders, trace: Trace) -> None:
        self._application = application
        self._cloud = cloud
        self._trace = trace
        self._operator = {'X-Auth-Token': cloud.token(NOVA)}
        self._headers = {
            'X-Auth-Token': cloud.token(USER),
            'X-Service-Token': cloud.token(NOVA),
        }

    def enrol(self, names: list[str]) -> None:
        """Add hosts to the pool."""
        for name in names:
            body = {'name': name}
            world.ask(self._application, 'POST', '/v1/os-hosts', body, self._operator, 201)

    def create(self) -> str:
        """Create a lease of a host; return its id."""
        with self._trace.recorded():
            return self._create({'resource_type': 'physical:host', 'min': 1}, '+1h')

    def start(self) -> None:
        """Have the lease of a reserved server start."""
        (server,) = self._cloud.order('servers', [{'project_id': PROJECT_ID}])
        wanted = {
            'resource_type': 'virtual:instance',
            'resource_id': server['id'],
            'amounts': {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1},
        }
        lease_id = self._create(wanted, '+3s')
        with self._trace.recorded():
            self._wait_for(lease_id, 'ACTIVE')

    def extend(self) -> None:
        """Extend a lease of a host."""
        lease_id = self._create({'resource_type': 'physical:host', 'min': 1}, '+5h')
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=8)
        path, body = f'/v1/leases/{lease_id}', {'end_date': f'{end:%Y-%m-%d %H:%M}'}
        with self._trace.recorded():
            world.ask(self._application, 'PUT', path, body, self._headers, 200)

    def _create(self, reservation: Mapping[str, Any], start: str) -> str:
        body = {
            'name': uuid.uuid4().hex,
            'start_date': start,
            'duration': '1h',
            'reservations': [reservation],
        }
        answer = world.ask(self._application, 'POST', '/v1/leases', body, self._headers, 201)
        return str(answer.json['lease']['id'])

    def _wait_for(self, lease_id: str, status: str) -> None:
        def is_there() -> bool:
            path = f'/v1/leases/{lease_id}'
            answer = world.ask(self._application, 'GET', path, None, self._headers, 200)
            return bool(answer.json['lease']['status'] == status)

        wait_until(status, is_there, 60, 0.2)


def measure(directory: pathlib.Path, names_files: bool) -> None:
    trace = Trace()
    with cloud_server.running(directory / 'journal') as cloud:
        for name in ('climate', NOVA):
            cloud.state.user(name, PASSWORD, SERVICE_PROJECT, ['admin', 'service'])
        cloud.state.user(USER, PASSWORD, PROJECT, ['member', 'reader'])
        hosts = [f'cn{number}' for number in range(8)]
        for name in hosts:
            hypervisors.add(cloud.state, name)
        conf = _configure(directory, cloud.url)
        database = Database(conf)
        trace.install()
        manager = ManagerService(conf, database=database, watch=False)
        manager.start()
        try:
            ways = Ways(app.load_application(conf, database=database), Orders(cloud.url), trace)
            ways.enrol(hosts)
            print('| way | files | functions | calls into another package |\n|---|---|---|---|')
            for way, walk, entries in _table(ways):
                walk()
                walk()
                print(trace.describe(way, entries, names_files), flush=True)
        finally:
            sys.setprofile(None)
            manager.stop()


def _table(ways: Ways) -> list[tuple[str, Callable[[], Any], tuple[str, ...]]]:
    return [
        ('create of a lease of a host', ways.create, _SERVED),
        ('start of a reserved server, from due to ACTIVE', ways.start, _STARTED),
        ('extension of a lease of a host', ways.extend, _SERVED),
    ]


def _configure(directory: pathlib.Path, cloud: str) -> Any:
    file = directory / 'climate.conf'
    file.write_text(
        CONFIG.format(
            transport='fake:/',
            state=directory,
            database=f'sqlite:///{directory}/climate.sqlite',
            cloud=cloud,
            credentials=CREDENTIALS.format(cloud=cloud, password=PASSWORD),
            more=_HOSTS,
        )
    )
    conf = configuration.load([], [str(file)])
    templates.migrate(conf)
    return conf


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.ways', description=__doc__)
    parser.add_argument('--files', action='store_true', help='list the files of each way')
    options = parser.parse_args()
    return run_in_directory(lambda directory: measure(directory, options.files))


if __name__ == '__main__':
    sys.exit(main())
