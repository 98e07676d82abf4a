# SPDX-License-Identifier: Apache-2.0
"""A worker that looks at intervals looks soon after its start, and then apart from others."""

import random

import pytest

from climate_core import threads


class Looker(threads.PeriodicWorker):
    name = 'looker'

    def poll(self) -> float:
        return self.next_poll()


@pytest.mark.parametrize(('interval', 'within', 'latest'), [(600, 10, 10), (5, 60, 5)])
def test_first_look_comes_within_the_shorter_time(
    interval: float, within: float, latest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, 'uniform', lambda _least, most: most)
    assert Looker(interval, within)._first_seconds == latest
    monkeypatch.setattr(random, 'uniform', lambda least, _most: least)
    assert Looker(interval, within)._first_seconds == 0


def test_next_look_comes_at_the_interval_or_a_tenth_before_or_after() -> None:
    worker = Looker(100, 10)
    found = [worker.poll() for _ in range(1000)]
    assert 90 <= min(found) < 95
    assert 105 < max(found) <= 110
    # One whose look says nothing sleeps for no longer than that.
    assert threads.limit_sleep(None, worker._idle_seconds) == pytest.approx(110)
