# SPDX-License-Identifier: Apache-2.0
"""The engine of a database that several threads use at once."""

import pathlib
import threading

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import engine
from climate_core.db.engine import Database
from tests.support.world import configure

#: Seconds for which the second thread may do what it should not.
_CHANCE = 0.2


def test_no_thread_gets_an_engine_without_its_listeners(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(configure(f'sqlite:///{tmp_path}/climate.db'))
    prepare = engine._prepare
    prepared: list[sa.Engine] = []
    got: list[list[sa.Engine]] = []

    def get() -> None:
        found = database.engine
        got.append([each for each in prepared if each is found])

    other = threading.Thread(target=get, daemon=True)

    def slowly(made: sa.Engine) -> None:
        other.start()
        other.join(_CHANCE)
        prepare(made)
        prepared.append(made)

    monkeypatch.setattr(engine, '_prepare', slowly)
    made = database.engine
    other.join()
    assert (prepared, got) == ([made], [[made]])
    database.dispose()


def test_writers_of_a_process_take_turns(tmp_path: pathlib.Path) -> None:
    """SQLite itself lets a writer wait for hundreds of others that come later."""
    database = Database(configure(f'sqlite:///{tmp_path}/climate.db'))
    database.write(_write)
    written = [0]
    ended = threading.Event()

    def hold(session: orm.Session) -> None:
        _write(session)
        ended.wait(0.005)

    def write_on() -> None:
        while not ended.is_set():
            database.write(hold)
            written[0] += 1

    others = [threading.Thread(target=write_on, daemon=True) for _ in range(2)]
    for each in others:
        each.start()
    overtaken = []
    for _ in range(21):
        ended.wait(0.02)
        before = written[0]
        database.write(_write)
        overtaken.append(written[0] - before)
    ended.set()
    for each in others:
        each.join()
    database.dispose()
    # Two threads may each commit once before it; which thread runs next is chance.
    assert sum(overtaken) < 10 * len(overtaken), overtaken


def _write(session: orm.Session) -> None:
    session.execute(sa.text('CREATE TABLE IF NOT EXISTS numbers (number INTEGER)'))
