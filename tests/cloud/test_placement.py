# SPDX-License-Identifier: Apache-2.0
"""Placement gives nothing away twice, with the line in placement.conf that the guide asks for."""

import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.cloud.people import CONF, STATE, cloud

pytestmark = pytest.mark.alone

FILE = STATE / 'etc' / 'placement' / 'placement.conf'
LINE = 'allocation_conflict_retry_count = 1\n'
WARNING = 'Placement gives more away than there is'


def upgrade_check() -> str:
    command = [STATE / 'venv' / 'bin' / 'climate-status', '--config-file', CONF]
    done = subprocess.run(
        [*command, 'upgrade', 'check'], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    # The words are wrapped in a table.
    return ' '.join(done.stdout.replace('|', ' ').split())


@pytest.fixture
def without_line() -> Iterator[pathlib.Path]:
    text = FILE.read_text()
    assert LINE in text
    FILE.write_text(text.replace(LINE, ''))
    try:
        cloud('restart', 'placement-api')
        yield FILE
    finally:
        FILE.write_text(text)
        cloud('restart', 'placement-api')


def test_upgrade_check_finds_nothing_with_the_line() -> None:
    assert WARNING not in upgrade_check()


def test_upgrade_check_sees_that_the_line_is_missing(without_line: pathlib.Path) -> None:
    assert WARNING in upgrade_check()
