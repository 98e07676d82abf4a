# SPDX-License-Identifier: Apache-2.0
"""What all tests share: compiled statements, the garbage collector, logs, and Hypothesis."""

import gc
import logging
import time
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support import connections, statements

# Not by the time that something takes, for other suites run beside.
hypothesis.settings.register_profile(
    'climate', deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile('climate')
statements.share()
connections.keep()


def pytest_collection_finish() -> None:
    """Set apart what the process has imported, which no collection of garbage has to look at.

    OpenStack's modules are a million objects: to go through them for each test takes an eighth of
    the time of the suites.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Return the machine, or its user, is in Berlin: +01:00 in winter, +02:00 in summer."""
    monkeypatch.setenv('TZ', 'Europe/Berlin')
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def idle_connections() -> Iterator[None]:
    """Close what the databases of this test have kept open."""
    yield
    connections.close()


@pytest.fixture(autouse=True)
def root_handlers() -> Iterator[None]:
    """Take away the handlers of logs that a command of this test leaves in the process.

    They write to the standard error output that pytest captured, which is closed after it.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    # Setting it looks at each of some thousand loggers.
    if root.level != level:
        root.setLevel(level)
