# SPDX-License-Identifier: Apache-2.0
"""What users are told when a database fails: to try again only if that may help."""

import contextlib
import datetime
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from climate_common import dates
from climate_core.db import tables
from climate_core.db.engine import Database
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.support import databases
from tests.support.databases import *  # noqa: F403
from tests.support.fakes import cloud_server

LEASE = {'name': 'any', 'duration': '1h'}
WAITING = {
    'name': 'long',
    'kind': 'retry',
    'duration': '36500d',
    'reservations': [{'resource_type': 'physical:host', 'min': 1}],
}


@contextlib.contextmanager
def running(directory: pathlib.Path, cloud_url: str, url: str) -> Iterator[Any]:
    conf = world.configure_hosts(directory, cloud_url, url)
    database = Database(conf)
    with world.running(conf, database, HostPlugin) as application:
        yield application
    database.dispose()


@pytest.fixture(params=['mariadb', 'postgresql'])
def server_url(request: pytest.FixtureRequest, new_database: Any) -> str:
    """Return the URL of an empty database that has its own types, as SQLite has not."""
    return str(new_database(request.param))


def test_value_that_the_database_cannot_store_is_no_outage(
    tmp_path: pathlib.Path,
    hosts_cloud: cloud_server.Server,
    server_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dates, 'LONGEST_DURATION', datetime.timedelta(days=999_999))
    with running(tmp_path, hosts_cloud.url, server_url) as application:
        refused = world.ask(application, 'POST', '/v1/leases', WAITING, status=400).json
    assert refused['error_message'] == (
        'The database cannot store a value of this request: it is too large or too long.'
    )
    assert refused['error_name'] == 'request.invalid'


def test_statement_that_fails_is_no_outage(
    tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server, server_url: str
) -> None:
    with running(tmp_path, hosts_cloud.url, server_url) as application:
        engine = sa.create_engine(server_url)
        tables.FEEDS.drop(engine)
        engine.dispose()
        for method, body in (('GET', None), ('POST', {'name': 'phone'})):
            failed = world.ask(application, method, '/v1/feeds', body, status=500).json
            assert failed['error_name'] == 'internal_error'


def test_database_that_is_away_is_an_outage(
    tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server
) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(databases.run_mariadb())
        with running(tmp_path, hosts_cloud.url, server.create()) as application:
            # A connection is there: oslo.db waits for a database only for its first one.
            world.ask(application, 'POST', '/v1/leases', LEASE, status=201)
            stack.close()
            for method, path, body in (
                ('GET', 'leases', None),
                ('GET', 'calendar', None),
                ('GET', 'feeds', None),
                ('POST', 'leases', LEASE),
            ):
                failed = world.ask(application, method, f'/v1/{path}', body, status=503).json
                assert failed['error_message'] == 'The database does not answer. Try again.'
