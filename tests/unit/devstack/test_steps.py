# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from climate_cloud import steps


def test_each_step_runs_once_after_what_it_needs() -> None:
    done: list[str] = []
    plan = {
        name: (needs, lambda name=name: done.append(name))
        for name, needs in {'roof': ['wall'], 'wall': ['floor'], 'floor': []}.items()
    }
    steps.run(plan)
    assert done == ['floor', 'wall', 'roof']


def test_independent_steps_run_at_once() -> None:
    meeting = threading.Barrier(2, timeout=30)
    steps.run({'a': ([], meeting.wait), 'b': ([], meeting.wait)})


def test_the_first_failure_ends_the_waiting() -> None:
    give_up = threading.Event()
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError('burnt')

    plan = {
        'bad': ([], fail),
        'waits': ([], lambda: give_up.wait(30)),
        'later': (['bad'], lambda: done.append('later')),
    }
    with pytest.raises(RuntimeError, match='burnt'):
        steps.run(plan, give_up=give_up)
    assert give_up.is_set()
    assert done == []


def test_what_is_refused_at_first_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [ValueError('not yet'), ValueError('not yet')]

    def ask() -> None:
        if refusals:
            raise refusals.pop()

    monkeypatch.setattr(steps, 'LOOK_AGAIN', 0)
    steps.retry(ask, ValueError, 60, threading.Event())
    assert refusals == []


@pytest.mark.parametrize('seconds', [-1, 60])
def test_what_is_refused_is_told_in_the_end(seconds: float) -> None:
    give_up = threading.Event()
    if seconds > 0:
        give_up.set()

    def ask() -> None:
        raise ValueError('never')

    with pytest.raises(ValueError, match='never'):
        steps.retry(ask, ValueError, seconds, give_up)
