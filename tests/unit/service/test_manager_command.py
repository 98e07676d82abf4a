# SPDX-License-Identifier: Apache-2.0
"""climate-manager as a process."""

import signal
import urllib.request

import pytest

from climate_core.db import migration
from tests.support.world import configure
from tests.unit.service.manager_process import PATIENCE, Start, read_until, terminate


def test_it_serves_its_metrics_reports_on_its_threads_and_runs_until_sigterm(
    start: Start, url: str
) -> None:
    migration.upgrade(configure(url))
    with start(extra='[metrics]\nlisten = 127.0.0.1:0\n') as process:
        found, _ = read_until(process, 'Metrics are at (http://.*)$')
        read_until(process, 'is running')
        with urllib.request.urlopen(found[1], timeout=PATIENCE) as answer:
            metrics = answer.read().decode()
        process.send_signal(signal.SIGUSR2)
        _, text = read_until(process, 'Configuration')
        terminate(process)
    assert 'climate_database_up 1.0' in metrics
    assert 'climate_leases{status="ACTIVE"} 0.0' in metrics
    assert 'Guru Meditation' in text
    assert 'vendor = OpenStack' in text
    # The thread that looks for what is due, and where it is.
    assert 'climate_core/threads.py' in text


@pytest.mark.parametrize(
    ('upgraded', 'plugins', 'extra', 'reason'),
    [
        (True, '', '[metrics]\nlisten = nowhere\n', '[metrics] listen'),
        (False, '', '', 'climate-manage db upgrade'),
        (True, 'no:such', '', 'no:such'),
    ],
    ids=['address', 'old database', 'plugins'],
)
def test_it_does_not_start_and_says_why(
    start: Start, url: str, upgraded: bool, plugins: str, extra: str, reason: str
) -> None:
    if upgraded:
        migration.upgrade(configure(url))
    with start(plugins=plugins, extra=extra) as process:
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
    assert reason in said


@pytest.mark.parametrize(
    ('number', 'arguments'),
    [(signal.SIGTERM, ()), (signal.SIGINT, ()), (signal.SIGTERM, ('--workers', '2'))],
)
def test_signal_stops_a_manager_that_rabbitmq_does_not_answer(
    start: Start, url: str, number: int, arguments: tuple[str, ...]
) -> None:
    """Its connection is tried for longer than this test and the grace last."""
    migration.upgrade(configure(url))
    away = (
        '[DEFAULT]\ntransport_url = rabbit://guest:guest@127.0.0.1:1/\n'
        f'[engine]\ngrace_seconds = {10 * PATIENCE}\n'
    )
    with start(*arguments, extra=away) as process:
        read_until(process, 'Connection failed')
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
