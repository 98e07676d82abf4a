# SPDX-License-Identifier: Apache-2.0
"""``climate-manage serve``: the API, a manager, SQLite and RPC in memory, in one process."""

import argparse
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oslo_config import cfg
from oslo_utils import netutils

from climate_core.api import deploy
from climate_core.cmd import shutdown
from climate_core.cmd.manage import noauth
from climate_core.cmd.manage.database import make_directory
from climate_core.db import migration
from climate_core.db.engine import Database
from climate_core.service import ManagerService
from climate_core.threads import HttpServer

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
        help='directory of the SQLite file (default: what [database] connection says with '
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
    stop = shutdown.Shutdown()
    broken = shutdown.on_broken_thread(stop.set)
    stop.on_signals()
    with serving(conf) as url:
        print(f'Climate answers at {url} - stop it with Ctrl-C', flush=True)
        stop.wait()
    return int(broken.is_set())


@contextmanager
def serving(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Run the service.

    :param conf: with the command line of this command
    :returns: the URL of the API
    """
    options = conf.command
    _configure(conf)
    make_directory(conf)
    migration.upgrade(conf)
    database = Database(conf)
    manager = _manager(conf, database)
    api = deploy.load_application(conf, database=database)
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


def _manager(conf: cfg.ConfigOpts, database: Database) -> ManagerService:
    if not conf.command.noauth:
        return ManagerService(conf, database=database)
    return ManagerService(
        conf,
        database=database,
        plugins=noauth.plugins(conf),
        trusts=noauth.NoTrusts(),
        send=noauth.send,
        watch=False,
    )
