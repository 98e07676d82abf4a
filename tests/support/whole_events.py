# SPDX-License-Identifier: Apache-2.0
"""Work on the events of a scheduler without their steps."""

from collections.abc import Callable, Sequence
from concurrent import futures

from climate_core.db.events import DueEvent
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.event_pool import Ended
from climate_core.engine.event_steps import WorkResult


class WholeEvents:
    """Run each event from its beginning to its end in one thread.

    :param run: works on one
    :param workers: how many threads, and events at the same time
    """

    def __init__(self, run: Callable[[DueEvent], WorkResult], workers: int) -> None:
        self.bulkhead = ServiceBulkhead(workers, 100)
        self.places = workers
        self._run = run
        self._pool = futures.ThreadPoolExecutor(workers)

    def begin(self, batch: Sequence[DueEvent], ended: Ended) -> None:
        for each in batch:
            self._pool.submit(self._work, each, ended)

    def stop(self) -> None:
        """All that has begun goes on."""

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    def _work(self, due: DueEvent, ended: Ended) -> None:
        try:
            result = self._run(due)
        except BaseException as exc:
            ended(due, None, exc)
            raise
        ended(due, result, None)
