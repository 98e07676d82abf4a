# SPDX-License-Identifier: Apache-2.0
"""The database server and the message broker that both services use in turn.

They are the bench's own: data in its directory, ports that were free, nothing shared with what
else runs on the machine.
"""

import os
import pathlib
import shutil

import pymysql

from tests.bench.processes import Failed, Processes, free_port, listens, run

RABBITMQ = '/usr/lib/rabbitmq/bin/rabbitmq-server'


def program(name: str, package: str) -> str:
    """Find a program; say which Debian package has it when it is not there."""
    found = shutil.which(name, path=f'{os.environ.get("PATH", "")}:/usr/sbin')
    if not found:
        raise Failed(f'{name} is not installed: apt-get install {package}')
    return found


class MariaDB:
    """A server with a commit that is durable (``innodb_flush_log_at_trx_commit = 1``).

    :param buffer_pool: how much of the tables it has in memory
    """

    def __init__(self, processes: Processes, buffer_pool: str = '512M') -> None:
        state = processes.directory
        data = state / 'mariadb'
        server = program('mariadbd', 'mariadb-server')
        # As root the server wants a name; as anybody else it runs as that one.
        user = ['--user=root'] if os.getuid() == 0 else []
        data.mkdir()
        run(
            [
                program('mariadb-install-db', 'mariadb-server'),
                '--no-defaults',
                f'--datadir={data}',
                f'--tmpdir={data}',
                '--skip-test-db',
                '--auth-root-authentication-method=normal',
                *user,
            ]
        )
        self.port = free_port()
        self.process = processes.start(
            'mariadb',
            [
                server,
                '--no-defaults',
                f'--datadir={data}',
                # Not /tmp: servers of others are there, and names of temporary tables collide.
                f'--tmpdir={data}',
                '--bind-address=127.0.0.1',
                f'--port={self.port}',
                f'--socket={state / "mariadb.sock"}',
                '--skip-name-resolve',
                '--max-connections=400',
                f'--innodb-buffer-pool-size={buffer_pool}',
                '--innodb-flush-log-at-trx-commit=1',
                *user,
            ],
        )
        self.process.wait_for(lambda: listens(self.port))

    def create(self, database: str) -> str:
        """Make an empty database; return its URL for SQLAlchemy."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute('SET foreign_key_checks = 0')
            cursor.execute(f'CREATE OR REPLACE DATABASE {database} CHARACTER SET utf8mb4')
        return f'mysql+pymysql://root@127.0.0.1:{self.port}/{database}?charset=utf8mb4'

    def connect(self, database: str | None = None) -> pymysql.connections.Connection:
        """Open a connection that commits by itself."""
        return pymysql.connect(
            host='127.0.0.1', port=self.port, user='root', database=database, autocommit=True
        )

    def version(self) -> str:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute('SELECT VERSION()')
            return str(cursor.fetchone()[0])


class RabbitMQ:
    """One broker node, with a port mapper (epmd) of its own."""

    def __init__(self, processes: Processes) -> None:
        if not pathlib.Path(RABBITMQ).exists():
            raise Failed('RabbitMQ is not installed: apt-get install rabbitmq-server')
        home = processes.directory / 'rabbitmq'
        home.mkdir()
        config = home / 'rabbitmq.conf'
        config.write_text(
            'vm_memory_high_watermark.absolute = 400MB\ndisk_free_limit.absolute = 50MB\n'
        )
        (home / 'plugins').write_text('[].\n')
        self.port, mapper = free_port(), free_port()
        local = {'ERL_EPMD_ADDRESS': '127.0.0.1', 'ERL_EPMD_PORT': str(mapper)}
        epmd = processes.start('epmd', [program('epmd', 'erlang-base')], local)
        epmd.wait_for(lambda: listens(mapper))
        process = processes.start(
            'rabbitmq',
            [RABBITMQ],
            {
                **local,
                'HOME': str(home),
                'RABBITMQ_NODENAME': f'bench{self.port}@localhost',
                'RABBITMQ_NODE_IP_ADDRESS': '127.0.0.1',
                'RABBITMQ_NODE_PORT': str(self.port),
                'RABBITMQ_DIST_PORT': str(free_port()),
                'RABBITMQ_MNESIA_BASE': str(home / 'mnesia'),
                'RABBITMQ_LOG_BASE': str(home / 'log'),
                'RABBITMQ_CONFIG_FILE': str(config),
                'RABBITMQ_ADVANCED_CONFIG_FILE': str(home / 'advanced.config'),
                'RABBITMQ_ENABLED_PLUGINS_FILE': str(home / 'plugins'),
                'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': (
                    '-kernel inet_dist_use_interface {127,0,0,1} +S 2:2'
                ),
            },
        )
        process.wait_for(lambda: listens(self.port))

    @property
    def url(self) -> str:
        """Return the ``transport_url`` of oslo.messaging."""
        return f'rabbit://guest:guest@127.0.0.1:{self.port}/'
