# SPDX-License-Identifier: Apache-2.0
"""The engine of a database that several threads use at once."""

import pathlib
import threading

import pytest
import sqlalchemy as sa

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
