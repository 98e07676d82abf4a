# SPDX-License-Identifier: Apache-2.0
"""MariaDB as an ordinary process: one server, one database for each service."""

import getpass
import pathlib
import shutil
import subprocess

import pymysql

from climate_cloud.processes import Service, ServiceFailed, clean_environment
from climate_cloud.settings import Settings

USER = 'cloud'

_CONFIG = """\
[mariadbd]
datadir = {data}
# Not /tmp: another server that starts deletes the temporary tables there.
tmpdir = {data}
user = {user}
bind-address = {host}
port = {port}
# Relative to datadir: a long path would not fit into a socket's name.
socket = mariadb.sock
pid-file = mariadb.pid
init-file = {init}
skip-name-resolve
max_connections = 1000
character-set-server = utf8mb4
collation-server = utf8mb4_general_ci
transaction-isolation = READ-COMMITTED
# Fast, and safe when a process dies; not when the machine does.
innodb_flush_log_at_trx_commit = 2
innodb_buffer_pool_size = 256M
performance_schema = OFF
"""

# Run at every start, so it must be repeatable.
_INIT = """\
CREATE USER IF NOT EXISTS '{user}'@'{host}';
ALTER USER '{user}'@'{host}' IDENTIFIED BY '{password}';
GRANT ALL ON *.* TO '{user}'@'{host}' WITH GRANT OPTION;
DELETE FROM mysql.global_priv WHERE User IN ('', 'root');
FLUSH PRIVILEGES;
"""


class MariaDB:
    """The database server of one cloud."""

    def __init__(self, settings: Settings, password: str) -> None:
        self.settings = settings
        self.password = password
        self.directory = settings.data / 'mariadb'

    def url(self, database: str) -> str:
        where = f'{self.settings.host}:{self.settings.port("mariadb")}'
        return f'mysql+pymysql://{USER}:{self.password}@{where}/{database}?charset=utf8mb4'

    def prepare(self) -> None:
        """Write the configuration, and the empty server the first time."""
        config = self.settings.etc / 'mariadb.cnf'
        init = self.settings.etc / 'mariadb.sql'
        host = self.settings.host
        config.write_text(
            _CONFIG.format(
                data=self.directory,
                user=getpass.getuser(),
                host=host,
                port=self.settings.port('mariadb'),
                init=init,
            )
        )
        init.touch(mode=0o600)
        init.write_text(_INIT.format(user=USER, host=host, password=self.password))
        if not self.directory.exists():
            self._create()

    def _create(self) -> None:
        # Made beside its place and moved, so that an interrupted try leaves nothing behind.
        draft = pathlib.Path(f'{self.directory}.new')
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        options = ['--no-defaults', f'--user={getpass.getuser()}']
        options += [f'--datadir={draft}', f'--tmpdir={draft}']
        options += ['--skip-test-db', '--auth-root-authentication-method=normal']
        log = self.settings.logs / 'mariadb-install.log'
        with open(log, 'wb') as output:
            done = subprocess.run(
                ['mariadb-install-db', *options],
                check=False,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=clean_environment(),
            )
        if done.returncode:
            raise ServiceFailed(f'mariadb-install-db failed, see {log}')
        draft.rename(self.directory)

    def service(self) -> Service:
        command = ['/usr/sbin/mariadbd', f'--defaults-file={self.settings.etc}/mariadb.cnf']
        return Service('mariadb', command, self.answers, port='mariadb')

    def connect(self, database: str | None = None) -> pymysql.Connection:
        return pymysql.connect(
            host=self.settings.host,
            port=self.settings.port('mariadb'),
            user=USER,
            password=self.password,
            database=database,
            autocommit=True,
        )

    def answers(self) -> bool:
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def recreate(self, database: str) -> None:
        """Make the database empty, whatever was in it."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS `{database}`')
            cursor.execute(f'CREATE DATABASE `{database}`')
