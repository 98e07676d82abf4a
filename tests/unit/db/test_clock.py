# SPDX-License-Identifier: Apache-2.0
"""The time of the database, as a process tells it without asking each time."""

import datetime
import pathlib
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from climate_core.db import sql as db_sql
from climate_core.db.engine import Database
from climate_core.db.sql import MAX_CLOCK_AGE, Clock
from tests.support.world import configure

FAST, SLOW = 0.001, 5.0
SECOND = datetime.timedelta(seconds=1)


class Host:
    """A host whose time goes on only while it waits for the database, and when it is told."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.time = 1000.0
        #: Seconds that each answer takes, the last of them for all that follow.
        self.answers = [FAST]
        self.asked = 0
        self.clock = Clock(database, lambda: self.time)

    def answered(self, _connection: object, _cursor: object, sql: str, *_: object) -> None:
        if not sql.startswith('SELECT'):
            # What the driver sends before it.
            return
        self.asked += 1
        self.time += self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def ask(self) -> None:
        """Ask the database as the engine does."""
        since = self.time
        self.clock.observe(self.database.read(db_sql.read_time), since)

    def passed(self, since: datetime.datetime) -> datetime.timedelta:
        """Return how far the clock has gone on."""
        return self.clock.now() - since


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[Host]:
    database = Database(configure(f'sqlite:///{tmp_path}/climate.db'))
    made = Host(database)
    sa.event.listen(database.engine, 'after_cursor_execute', made.answered)
    yield made
    database.dispose()


def test_time_goes_on_without_a_question(host: Host) -> None:
    began = host.clock.now()
    host.time += MAX_CLOCK_AGE - 1
    assert host.passed(began) == datetime.timedelta(seconds=MAX_CLOCK_AGE - 1)
    assert host.asked == 1
    host.time += 2
    host.clock.now()
    assert host.asked == 2


def test_slow_answer_does_not_set_the_clock_back(host: Host) -> None:
    began = host.clock.now()
    host.answers = [SLOW]
    host.ask()
    assert host.passed(began) >= datetime.timedelta(seconds=SLOW)


def test_fast_answer_sets_the_clock(host: Host) -> None:
    host.clock.now()
    host.time -= 50
    host.ask()
    with_it = host.clock.now()
    told = host.database.read(db_sql.read_time)
    assert abs(with_it - told) < SECOND


def test_slow_answer_is_asked_for_again(host: Host) -> None:
    host.answers = [SLOW, SLOW / 2, FAST]
    host.clock.now()
    assert host.asked == 3
    host.clock.now()
    assert host.asked == 3


def test_of_slow_answers_the_fastest_is_taken(host: Host) -> None:
    host.answers = [SLOW, 2.0, SLOW, FAST]
    shown = host.clock.now()
    assert host.asked == 3
    # The second one is older by the third, and was on its way for two seconds at most.
    told = host.database.read(db_sql.read_time)
    assert shown - told >= datetime.timedelta(seconds=SLOW) - SECOND
