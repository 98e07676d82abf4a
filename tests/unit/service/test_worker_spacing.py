# SPDX-License-Identifier: Apache-2.0
"""A worker with a spacing lets more come together before it looks again."""

from collections.abc import Callable

from climate_core import threads


class Waits:
    """A condition that notes how long it is waited for, and wakes at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.nudges: list[bool] = []

    def __enter__(self) -> None:
        """Take no lock: there is one thread."""

    def __exit__(self, *_: object) -> None:
        """Release none."""

    def notify_all(self) -> None:
        """Wake nobody."""

    def wait_for(self, awaited: Callable[[], bool], seconds: float) -> bool:
        self.seconds.append(seconds)
        self.nudges.append(awaited())
        return True


class Gatherer(threads.Worker):
    name = 'gatherer'
    spacing = 0.05
    looks = 0

    def poll(self) -> float:
        # Something comes while it looks.
        self.nudge()
        self.looks += 1
        self.stopping = self.looks == 2
        return 7.0


def test_a_nudge_wakes_a_worker_only_after_its_spacing() -> None:
    worker = Gatherer(idle_seconds=60)
    waits = worker._changed = Waits()  # type: ignore[assignment]
    worker._run()
    assert worker.looks == 2
    assert waits.seconds == [0.0, 0.05, 7.0, 0.05, 7.0]
    # The wait between looks does not end with a nudge, only with the stop; the sleep does.
    assert waits.nudges == [False, False, True, True, True]
