# SPDX-License-Identifier: Apache-2.0
"""The lease service in one process: the real API, a real manager, SQLite, RPC in memory."""

import contextlib
import pathlib
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
import webob
from oslo_config import cfg
from oslo_serialization import jsonutils

from climate_core import conf as configuration
from climate_core import exceptions
from climate_core.api import app
from climate_core.cloud import Cloud
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.lease.model import Lease, Reservation
from climate_core.plugins import base
from climate_core.service import ManagerService
from climate_hosts.plugins.host import HostPlugin
from tests.support import templates
from tests.support.fakes import settings
from tests.support.world import Trusts

#: A resource that does not exist.
NOWHERE = '00000000-0000-4000-8000-000000000000'


class Thing(base.ResourcePlugin):
    """A resource that is always ready."""

    resource_type = 'test:thing'
    title = 'Thing'
    description = 'Something to test with.'
    reusable = True
    schema = {
        'resource_id': {'type': 'string', 'format': 'uuid'},
        'colour': {'type': 'string', 'enum': ['red', 'green']},
        'size': {'type': 'integer', 'minimum': 1, 'maximum': 9},
    }
    required = ('resource_id',)
    changeable = ('colour',)

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> base.ReservedResource:
        if values['resource_id'] == NOWHERE:
            raise exceptions.ResourceNotFound('There is no such thing.', field='resource_id')
        params = {'colour': values.get('colour', 'green')}
        return base.ReservedResource(resource_id=values['resource_id'], params=params)

    def start(self, lease: Lease, reservation: Reservation) -> None:
        return None

    def end(self, lease: Lease, reservation: Reservation) -> None:
        return None


def configure(directory: pathlib.Path, *options: Sequence[str]) -> cfg.ConfigOpts:
    """Make a configuration with a migrated database in this directory.

    :param options: triples of section, option and value
    """
    sections: dict[str, list[str]] = {
        'DEFAULT': ['transport_url = fake:/', f'control_exchange = {uuid.uuid4().hex}'],
        'database': [f'connection = sqlite:///{directory}/climate.sqlite'],
        'api': ['auth_strategy = noauth'],
        'hosts': ['enrol_seconds = 0'],
    }
    for section, option, value in options:
        sections.setdefault(section, []).append(f'{option} = {value}')
    file = directory / 'climate.conf'
    file.write_text('\n'.join(f'[{name}]\n' + '\n'.join(sections[name]) for name in sections))
    conf = configuration.load([], [str(file)])
    templates.migrate(conf)
    return conf


def run(directory: pathlib.Path, code: str) -> 'subprocess.CompletedProcess[str]':
    """Run code in a process of its own, for which the same configuration is made."""
    configure(directory)
    return subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', code],
        env={'OS_CLIMATE_CONFIG_FILES': str(directory / 'climate.conf'), 'HOME': str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )


def configure_hosts(
    directory: pathlib.Path, cloud_url: str, database_url: str | None = None
) -> cfg.ConfigOpts:
    """Make the same with a fake cloud, for hosts.

    :param database_url: of an empty database; None for one of SQLite
    """
    options = [('cloud', *each) for each in settings.cloud_options(cloud_url).items()]
    if database_url is not None:
        options.append(('database', 'connection', database_url))
    conf = configure(directory, *options)
    conf.register_opts(HostPlugin.options, group=HostPlugin.resource_type)
    return conf


@contextlib.contextmanager
def running(
    conf: cfg.ConfigOpts,
    database: Database,
    *more: type[base.ResourcePlugin],
    with_trusts: bool = False,
) -> Iterator[Any]:
    """Run a manager and give the API in front of it, as a WSGI application.

    :param more: plugins beside that of things
    :param with_trusts: trusts are those of the cloud
    """
    plugins = {each.resource_type: each for each in (Thing, *more)}
    cloud = Cloud(conf)
    manager = ManagerService(
        conf,
        database=database,
        cloud=cloud,
        plugins={kind: plugin(conf, cloud) for kind, plugin in plugins.items()},
        trusts=None if with_trusts else Trusts(),
        watch=False,
    )
    manager.start()
    try:
        yield app.load_application(conf, database=database, plugins=plugins)
    finally:
        manager.stop()


def ask(
    application: Any,
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> webob.Response:
    """Send a request to the API.

    :param body: bytes, or what is sent as JSON
    :param status: what must be answered
    """
    request = webob.Request.blank(path, method=method, headers=dict(headers or {}))
    if body is not None:
        request.content_type = 'application/json'
        request.body = body if isinstance(body, bytes) else jsonutils.dump_as_bytes(body)
    response: webob.Response = request.get_response(application)
    assert status in (None, response.status_code), response.text
    return response


@contextlib.contextmanager
def selects(database: Database) -> Iterator[list[str]]:
    """Give what this thread reads of the database; the manager works in others."""
    me, seen = threading.get_ident(), []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if threading.get_ident() == me and statement.startswith('SELECT'):
            seen.append(statement)

    sa.event.listen(database.engine, 'before_cursor_execute', note)
    try:
        yield seen
    finally:
        sa.event.remove(database.engine, 'before_cursor_execute', note)


def wait_for_lease(
    application: Any,
    lease_id: str,
    is_so: Callable[[Mapping[str, Any]], bool],
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a lease when threads of the manager have brought it so far."""
    pause, deadline = threading.Event(), time.monotonic() + 60
    while True:
        answer = ask(application, 'GET', f'/v1/leases/{lease_id}', headers=headers, status=200)
        lease: dict[str, Any] = answer.json['lease']
        if is_so(lease):
            return lease
        assert time.monotonic() < deadline, lease
        pause.wait(0.05)


def wait_for_status(application: Any, lease_id: str, status: str) -> dict[str, Any]:
    """Return a lease when it has a status."""
    return wait_for_lease(application, lease_id, lambda lease: lease['status'] == status)
