# SPDX-License-Identifier: Apache-2.0
"""The lines that Climate writes to its log as JSON."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_log import formatters


class Lines(logging.Handler):
    """The lines that oslo.log writes with use_json."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(formatters.JSONFormatter())
        self.written: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(json.loads(self.format(record)))

    def of(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.written if line['name'] == name]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    logger = logging.getLogger('climate_core')
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)
