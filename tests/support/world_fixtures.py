# SPDX-License-Identifier: Apache-2.0
"""A manager to test with; a folder's conftest imports it whole."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core import test_hooks
from climate_core.db import outbox
from tests.support.databases import *  # noqa: F403
from tests.support.world import Time, World
from tests.unit.payloads import problems


@pytest.fixture(autouse=True)
def documented_payloads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look at every notification that a test makes: it must be what the documents say."""
    wrong: list[str] = []
    add = outbox.add_notifications

    def checked(*args: Any, **kw: Any) -> list[tuple[str, dict[str, Any]]]:
        told = add(*args, **kw)
        for event_type, payload in told:
            wrong.extend(problems(event_type, payload))
        return told

    monkeypatch.setattr(outbox, 'add_notifications', checked)
    yield
    assert not wrong


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def world(tmp_path: pathlib.Path, time: Time) -> Iterator[World]:
    """Return a manager on SQLite, at noon."""
    made = World(f'sqlite:///{tmp_path}/world.sqlite', time)
    yield made
    made.database.dispose()


@pytest.fixture
def any_world(database_url: str) -> Iterator[World]:
    """Return a manager on each database in turn, by the clock of the database."""
    made = World(database_url)
    yield made
    made.database.dispose()


@pytest.fixture
def install_hook() -> Iterator[Callable[[test_hooks.Hook], None]]:
    yield test_hooks.install
    test_hooks.install(None)
