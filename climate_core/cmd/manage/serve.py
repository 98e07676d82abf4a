# SPDX-License-Identifier: Apache-2.0
"""``climate-manage serve``: the API, a manager, SQLite and RPC in memory, in one process.

With ``--noauth`` there is no cloud: leases start and end, and their events happen; the resources
in them are only names.
"""

import argparse
import pathlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_utils import netutils

from climate_core.api import app
from climate_core.cloud.trusts import Trusts
from climate_core.cmd.manage.database import create_directory
from climate_core.context import RequestContext
from climate_core.db import migration
from climate_core.db.engine import Database
from climate_core.lease.model import Lease, Reservation
from climate_core.plugins import base, loading
from climate_core.service import ManagerService
from climate_core.threads import HttpServer, Shutdown, stop_on_broken_thread

LOG = log.getLogger(__name__)


#: The default port of the API.
PORT = 1234


def add_command(subparsers: Any) -> None:
    """Add the command to a parser."""
    parser = subparsers.add_parser(
        'serve',
        help='run the whole service in this process',
        description='Run the API, a manager, SQLite and in-process RPC in one process, to try '
        'the service on one machine. For more than that run climate-manager, and the API in a '
        'WSGI server.',
    )
    parser.add_argument('--host', default='127.0.0.1', help='address to listen on (%(default)s)')
    parser.add_argument('--port', type=int, default=PORT, help='0: a free one (%(default)s)')
    parser.add_argument(
        '--state-dir',
        type=_state_dir,
        help='directory of the SQLite file (default: the value of [database] connection with '
        '--config-file, else ~/.local/state/climate)',
    )
    parser.add_argument(
        '--noauth',
        action='store_true',
        help='take user, project and roles from headers, and reserve nothing in a cloud',
    )
    parser.set_defaults(run=run)


def run(conf: cfg.ConfigOpts) -> int:
    """Serve until SIGINT or SIGTERM.

    :returns: 0; 1 if the service broke
    """
    stop = Shutdown()
    broken = stop_on_broken_thread(stop.set)
    stop.on_signals()
    with serving(conf) as url:
        print(f'Climate answers at {url} - stop it with Ctrl-C', flush=True)
        stop.wait()
    return int(broken.is_set())


@contextmanager
def serving(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Run the service in the context.

    :param conf: with the command line of this command
    :returns: the URL of the API
    """
    options = conf.command
    _configure(conf)
    create_directory(conf)
    migration.upgrade(conf)
    database = Database(conf)
    manager = _create_manager(conf, database)
    api = app.load_application(conf, database=database)
    server = HttpServer('api', options.host, options.port, api)
    manager.start()
    server.start()
    try:
        yield f'http://{netutils.escape_ipv6(options.host)}:{server.port}/v1'
    finally:
        server.stop()
        manager.stop()


def _state_dir(text: str) -> pathlib.Path:
    directory = pathlib.Path(text).absolute()
    if '?' in str(directory):
        raise argparse.ArgumentTypeError(
            f'{directory} has a "?", which ends the path in the URL of a database: it must be a '
            'path without "?"'
        )
    return directory


def _configure(conf: cfg.ConfigOpts) -> None:
    conf.set_override('transport_url', 'fake:/')
    conf.set_default('state_path', str(pathlib.Path.home() / '.local/state/climate'))
    if conf.command.noauth:
        conf.set_override('auth_strategy', 'noauth', group='api')
        if conf.limits.driver == 'keystone':
            conf.set_override('driver', 'configured', group='limits')
    if conf.command.state_dir is not None:
        # oslo.config would replace $NAME in it.
        path = str(conf.command.state_dir / 'climate.sqlite').replace('$', '$$')
        conf.set_override('connection', f'sqlite:///{path}', group='database')


def _create_manager(conf: cfg.ConfigOpts, database: Database) -> ManagerService:
    if not conf.command.noauth:
        return ManagerService(conf, database=database)
    manager = ManagerService(
        conf,
        database=database,
        plugins=create_stand_ins(conf),
        trusts=NoTrusts(),
        watch=False,
    )
    manager.publisher.send = log_notification
    return manager


class NoTrusts(Trusts):
    """Trusts without Keystone: their ids mean nothing."""

    def __init__(self) -> None:
        """Use no cloud."""

    def check(self, context: RequestContext) -> None:
        """Accept every token."""

    def scope(self, context: RequestContext) -> None:
        """Return None: no lease shares the trust of another."""

    def create(self, context: RequestContext, roles: Sequence[str] | None = None) -> str:  # noqa: ARG002
        return uuid.uuid4().hex

    def roles(self, trust_id: str) -> Sequence[str]:  # noqa: ARG002
        return ['member', 'reader']

    def delete(self, trust_id: str) -> None:
        """Do nothing."""


def log_notification(event_type: str, payload: Mapping[str, Any]) -> None:
    """Write a notification to the log."""
    LOG.info('%s: lease %s is %s', event_type, payload.get('lease_id'), payload.get('status'))


def create_stand_ins(conf: cfg.ConfigOpts) -> dict[str, base.ResourcePlugin]:
    """Create a plugin without a cloud for each one of climate.conf, with the same schema."""
    return {
        plugin.resource_type: _create_stand_in(plugin, conf)
        for plugin in loading.load_classes(conf.manager.plugins)
    }


def _create_stand_in(
    plugin: type[base.ResourcePlugin], conf: cfg.ConfigOpts
) -> base.ResourcePlugin:
    class NoCloud(base.ResourcePlugin):
        resource_type = plugin.resource_type
        title = plugin.title
        description = plugin.description
        schema = plugin.schema
        required = plugin.required
        reusable = plugin.reusable
        changeable = plugin.changeable
        rank = plugin.rank
        reserves_locally = plugin.reserves_locally

        def __init__(self) -> None:
            self.conf = conf

        def reserve(
            self,
            context: RequestContext,  # noqa: ARG002
            values: Mapping[str, Any],
            lease_id: str = '',  # noqa: ARG002
        ) -> base.ReservedResource:
            params = _without_write_only(values, plugin.schema)
            for name in ('resource_type', 'resource_id'):
                params.pop(name, None)
            return base.ReservedResource(values.get('resource_id') or str(uuid.uuid4()), params)

        def start(self, lease: Lease, reservation: Reservation) -> None:  # noqa: ARG002
            LOG.info('%s %s starts', reservation.resource_type, reservation.resource_id)

        def end(self, lease: Lease, reservation: Reservation) -> None:  # noqa: ARG002
            LOG.info('%s %s ends', reservation.resource_type, reservation.resource_id)

    return NoCloud()


def _without_write_only(values: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that are write-only in their schema.

    :param schema: JSON Schema by the names of the values
    """
    shown = {}
    for name, value in values.items():
        own = schema.get(name, {})
        if isinstance(value, Mapping) and 'properties' in own:
            value = _without_write_only(value, own['properties'])
        if not own.get('writeOnly'):
            shown[name] = value
    return shown
