# SPDX-License-Identifier: Apache-2.0
"""What all tests share: compiled statements, handlers of logs, and how Hypothesis judges."""

import logging
import time
from collections.abc import Iterator

import hypothesis
import pytest

from tests.support import statements

# Not by the time that something takes, for other suites run beside.
hypothesis.settings.register_profile(
    'climate', deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile('climate')
statements.share()


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Return the machine, or its user, is in Berlin: +01:00 in winter, +02:00 in summer."""
    monkeypatch.setenv('TZ', 'Europe/Berlin')
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def root_handlers() -> Iterator[None]:
    """Take away the handlers of logs that a command of this test leaves in the process.

    They write to the standard error output that pytest captured, which is closed after it.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
