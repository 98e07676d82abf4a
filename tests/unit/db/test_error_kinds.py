# SPDX-License-Identifier: Apache-2.0
"""Logs name the kind of an error of the database: an outage is no error of a statement."""

import pathlib
from collections.abc import Callable
from unittest import mock

import pytest
import sqlalchemy as sa

from climate_core.db.engine import DATABASE_ERRORS, Database, describe_error
from climate_core.db.sql import Clock
from climate_core.engine.scheduler import Scheduler
from tests.support.databases import *  # noqa: F403
from tests.support.world import configure


def open_database(url: str) -> Database:
    conf = configure(url)
    conf.set_override('max_retries', 0, group='database')
    return Database(conf)


def fail(database: Database, statement: str) -> str:
    """Return how the error of a statement is described."""
    with pytest.raises(DATABASE_ERRORS) as raised, database.reader() as session:
        session.execute(sa.text(statement))
    database.dispose()
    return describe_error(raised.value)


@pytest.mark.parametrize(
    ('url', 'line'),
    [
        ('sqlite:///{}/missing/climate.sqlite', 'unable to open database file'),
        ('mysql+pymysql://climate:p4ssword@127.0.0.1:1/climate', "Can't connect to MySQL server"),
        ('postgresql+psycopg2://climate:p4ssword@127.0.0.1:1/climate', 'Connection refused'),
    ],
)
def test_database_that_is_away_cannot_be_reached(
    tmp_path: pathlib.Path, url: str, line: str
) -> None:
    said = fail(open_database(url.format(tmp_path)), 'SELECT 1')
    assert said.startswith('the database cannot be reached: ')
    assert line in said
    assert 'p4ssword' not in said


@pytest.mark.parametrize('statement', ['SELECT * FROM missing', 'no statement'])
def test_statement_that_fails_is_no_outage(database_url: str, statement: str) -> None:
    said = fail(open_database(database_url), statement)
    assert said.startswith('the database rejected a statement: ')
    assert '\n' not in said


def test_pool_without_a_free_connection_is_no_outage(new_database: Callable[[str], str]) -> None:
    conf = configure(new_database('mariadb'))
    for name, value in (('max_pool_size', 1), ('max_overflow', 0), ('pool_timeout', 0)):
        conf.set_override(name, value, group='database')
    database = Database(conf)
    with database.engine.connect():
        said = fail(database, 'SELECT 1')
    assert said.startswith('all connections to the database are in use: ')


def test_scheduler_logs_the_first_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_database('mysql+pymysql://climate@127.0.0.1:1/climate')
    scheduler = Scheduler(database, Clock(database), mock.Mock(places=1), 60.0)
    pauses = iter([lambda: None, scheduler.stop])
    monkeypatch.setattr(scheduler, '_sleep', lambda _seconds: next(pauses)())
    scheduler._run()
    (logged,) = caplog.messages
    assert '; the scheduler retries: ' in logged
    assert "Can't connect to MySQL server" in logged
    assert '\n' not in logged
