# SPDX-License-Identifier: Apache-2.0
"""Database servers of the tests' own: on 127.0.0.1, on free ports, in a temporary directory.

A server starts when the first test wants it and is stopped at the end of the session. What is
not installed makes the test fail, with the name of the package.

Import the fixtures into a ``conftest.py``: ``from tests.support.databases import *``.
"""

import contextlib
import dataclasses
import functools
import getpass
import glob
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

__all__ = ('Server', 'database_url', 'mariadb', 'new_database', 'postgresql')

ENGINES = ('sqlite', 'mariadb', 'postgresql')

#: Seconds for a server to come up.
PATIENCE = 60


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server.

    :param url: SQLAlchemy URL with ``{}`` for the name of a database
    :param home: the name of a database that is always there
    """

    url: str
    home: str

    def create(self) -> str:
        """Make an empty database and return its URL."""
        name = f't{uuid.uuid4().hex}'
        self._run(f'CREATE DATABASE {name}')
        return self.url.format(name)

    def drop(self, url: str) -> None:
        """Remove a database of :meth:`create`, also when a client is still connected."""
        force = ' WITH (FORCE)' if url.startswith('postgresql') else ''
        self._run(f'DROP DATABASE {sa.make_url(url).database}{force}')

    def _run(self, statement: str) -> None:
        engine = sa.create_engine(self.url.format(self.home), isolation_level='AUTOCOMMIT')
        with contextlib.closing(engine.raw_connection()) as connection:
            connection.cursor().execute(statement)
        engine.dispose()


@pytest.fixture(scope='session')
def mariadb() -> Iterator[Server]:
    """Start a MariaDB server."""
    with run_mariadb() as server:
        yield server


@pytest.fixture(scope='session')
def postgresql() -> Iterator[Server]:
    """Start a PostgreSQL server."""
    with run_postgresql() as server:
        yield server


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Callable[[str], str]:
    """Return a function that makes an empty database on a server and returns its URL."""

    def make(kind: str) -> str:
        if kind == 'sqlite':
            return f'sqlite:///{tmp_path}/{uuid.uuid4().hex}.sqlite'
        server: Server = request.getfixturevalue(kind)
        url = server.create()
        request.addfinalizer(lambda: server.drop(url))
        return url

    return make


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    """Return the URL of an empty database, on each of the three in turn."""
    return new_database(request.param)


@contextlib.contextmanager
def run_mariadb() -> Iterator[Server]:
    """Run MariaDB while the context lasts."""
    daemon = _program('mariadbd', 'mariadb-server', '/usr/sbin')
    installer = _program('mariadb-install-db', 'mariadb-server')
    with _directory() as place:
        data, pipe, port = place / 'data', place / 'sock', _free_port()
        data.mkdir()
        user = f'--user={getpass.getuser()}'
        # Not the one that other servers have: each deletes all temporary tables there when it
        # starts.
        temporary = f'--tmpdir={data}'
        _call(
            installer,
            '--no-defaults',
            f'--datadir={data}',
            temporary,
            user,
            '--auth-root-authentication-method=normal',
        )
        command = [
            daemon,
            '--no-defaults',
            f'--datadir={data}',
            temporary,
            f'--socket={pipe}',
            f'--port={port}',
            '--bind-address=127.0.0.1',
            '--innodb-flush-log-at-trx-commit=0',
            '--innodb-buffer-pool-size=64M',
            '--max-connections=300',
            user,
        ]
        url = f'mysql+pymysql://root@127.0.0.1:{port}/{{}}'
        with _running(command, place, url, 'mysql'):
            yield Server(url, 'mysql')


@contextlib.contextmanager
def run_postgresql() -> Iterator[Server]:
    """Run PostgreSQL while the context lasts; as root, by the system user ``postgres``."""
    places = sorted(glob.glob('/usr/lib/postgresql/*/bin'), reverse=True)
    daemon = _program('postgres', 'postgresql', *places)
    installer = _program('initdb', 'postgresql', *places)
    with _directory() as place:
        data, port = place / 'data', _free_port()
        become: list[str] = []
        if os.getuid() == 0:
            shutil.chown(place, 'postgres')
            become = ['setpriv', '--reuid=postgres', '--regid=postgres', '--init-groups']
        _call(*become, installer, '-D', data, '-A', 'trust', '-U', 'test', '-E', 'UTF8', '-N')
        command = [
            *become,
            daemon,
            '-D',
            str(data),
            '-p',
            str(port),
            '-k',
            str(place),
            *('-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off', '-c', 'max_connections=300'),
        ]
        url = f'postgresql+psycopg2://test@127.0.0.1:{port}/{{}}'
        with _running(command, place, url, 'postgres'):
            yield Server(url, 'postgres')


def _program(name: str, package: str, *places: str) -> str:
    path = os.pathsep.join([*places, os.environ['PATH']])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.fail(f'{name} is missing: apt-get install {package}', pytrace=False)
    return found


def _free_port() -> int:
    with socket.create_server(('127.0.0.1', 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextlib.contextmanager
def _directory() -> Iterator[pathlib.Path]:
    # Not pytest's tmp_path: that of root cannot be entered by the user postgres.
    with tempfile.TemporaryDirectory(prefix='climate-test-') as name:
        place = pathlib.Path(name)
        place.chmod(0o755)
        yield place


def _call(*command: str | pathlib.Path) -> None:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.fail(f'{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}')


@contextlib.contextmanager
def _running(command: list[str], place: pathlib.Path, url: str, home: str) -> Iterator[None]:
    output = place / 'log'
    with output.open('wb') as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=place)
    try:
        _wait(server, url.format(home), output)
        yield
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(server: 'subprocess.Popen[bytes]', url: str, output: pathlib.Path) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    pause = functools.partial(server.wait, 0.1)
    for _ in range(PATIENCE * 10):
        with contextlib.suppress(sa.exc.DBAPIError), engine.connect():
            return
        # Waiting for its end is the pause: one that has died is noticed at once.
        with contextlib.suppress(subprocess.TimeoutExpired):
            pause()
            break
    text = output.read_text(errors='replace')[-3000:]
    pytest.fail(f'{server.args} does not answer:\n{text}')
