# SPDX-License-Identifier: Apache-2.0
"""Work on one event at a time, and run whole events in threads."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import orm

from climate_core.db.engine import Database
from climate_core.db.events import NO_SERVICES, CalledServices, DueEvent
from climate_core.db.sql import Clock
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.event_pool import EventPool
from climate_core.engine.executor import EventExecutor, EventJob, JobStage, WorkResult
from climate_core.engine.fast_start import FastStarts
from climate_core.lease.model import Lease


class SingleExecutor(EventExecutor):
    """Does all steps of an event in one thread."""

    def run(self, due: DueEvent) -> WorkResult:
        """Work on an event to its end; return its result."""
        job = self.create_job(due)
        while job.stage is not JobStage.ENDED:
            if job.writes:
                self.write([job])
            else:
                self.call(job)
        if job.error is not None:
            raise job.error
        return job.result


class ScriptedExecutor(SingleExecutor):
    """Does the steps of a test for some events: ``calls`` and ``writes``, by their ids."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls_of: dict[str, Callable[[EventJob], None]] = {}
        self.writes_of: dict[str, Callable[[orm.Session, Lease | None], Any]] = {}
        self.written: dict[str, Any] = {}

    def create_job(self, due: DueEvent) -> EventJob:
        if due.id in self.calls_of:
            return EventJob(due, JobStage.CALL)
        return (
            EventJob(due, JobStage.FINISH) if due.id in self.writes_of else super().create_job(due)
        )

    def call(self, job: EventJob) -> None:
        call = self.calls_of.get(job.due.id)
        if call is None:
            super().call(job)
            return
        job.stage = JobStage.FINISH if job.due.id in self.writes_of else JobStage.ENDED
        try:
            call(job)
        except Exception as exc:  # noqa: BLE001 - it is the result
            job.stage, job.error = JobStage.ENDED, exc

    def _write_job(self, session: orm.Session, job: EventJob, lease: Lease | None) -> Any:
        write = self.writes_of.get(job.due.id)
        return super()._write_job(session, job, lease) if write is None else write(session, lease)

    def _record_finish(self, job: EventJob, after: Any, error: BaseException | None) -> None:
        if job.due.id in self.writes_of:
            self.written[job.due.id] = error or after
            job.stage = JobStage.ENDED
        else:
            super()._record_finish(job, after, error)


class WholeEvents:
    """Run each event from its beginning to its end as one call.

    :param run: works on one
    """

    def __init__(self, run: Callable[[DueEvent], WorkResult]) -> None:
        self._run = run

    def create_job(self, due: DueEvent) -> EventJob:
        return EventJob(due, JobStage.CALL)

    def call(self, job: EventJob) -> None:
        try:
            job.result = self._run(job.due)
        except BaseException as exc:  # noqa: BLE001 - it is the result
            job.error = exc
        job.stage = JobStage.ENDED

    def abandon(self, job: EventJob) -> None:
        job.stage = JobStage.ENDED


def pool_of(run: Callable[[DueEvent], WorkResult], workers: int) -> EventPool:
    """Return a pool that runs whole events.

    :param workers: how many threads, and events at the same time
    """
    executor: EventExecutor = WholeEvents(run)  # type: ignore[assignment]
    return EventPool(executor, workers, ServiceBulkhead(workers, 100))


def early_polls(database: Database, services: CalledServices = NO_SERVICES) -> FastStarts:
    """Return what finds early polls in the database, without a cached start."""
    return FastStarts(database, Clock(database), {}, ServiceBulkhead(1, 100, services))
