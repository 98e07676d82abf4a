# SPDX-License-Identifier: Apache-2.0
"""Stop parts of a service."""

import time

from climate_core import threads


def stop(*parts: threads.Background, seconds: float = 60.0) -> bool:
    """Stop them in order; tell whether all ended in time."""
    return not threads.stop(parts, time.monotonic() + seconds)


class PolledWorker(threads.Worker):
    """A worker of a package that polls when a nova-compute changes; it counts its nudges."""

    name = 'polled'
    polls_on_compute_change = True

    def __init__(self) -> None:
        super().__init__(600)
        self.nudges = 0

    def poll(self) -> None:
        """Do nothing."""

    def nudge(self) -> None:
        self.nudges += 1
