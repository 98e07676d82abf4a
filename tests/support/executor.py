# SPDX-License-Identifier: Apache-2.0
"""Work on one event at a time."""

from climate_core import context
from climate_core.db.events import DueEvent
from climate_core.engine import event_steps
from climate_core.engine.event_steps import CALL_SERVICES, NO_OUTCOME, WorkResult, advance
from climate_core.engine.executor import EventExecutor


class SingleExecutor(EventExecutor):
    """Does all steps of an event in one thread."""

    def run(self, due: DueEvent) -> WorkResult:
        """Work on an event to its end; return its result."""
        context.of_event(due.id, due.lease_id)
        work, outcome = self.work(due), NO_OUTCOME
        while True:
            try:
                step = advance(work, outcome)
            except StopIteration as end:
                result: WorkResult = end.value
                return result
            (outcome,) = (
                [NO_OUTCOME]
                if step is CALL_SERVICES
                else event_steps.EventWriter(self.database, 1).run_batch([step])
            )
