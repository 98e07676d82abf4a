# SPDX-License-Identifier: Apache-2.0
"""Work on one event at a time."""

from climate_core import context
from climate_core.db.due_events import DueEvent
from climate_core.engine import group_commit
from climate_core.engine.executor import EventExecutor
from climate_core.engine.steps import CALLS, NOTHING, Result, advance


class SingleExecutor(EventExecutor):
    """Does all steps of an event in one thread."""

    def run(self, due: DueEvent) -> Result:
        """Work on an event to its end; return its result."""
        context.of_event(due.id, due.lease_id)
        work, outcome = self.work(due), NOTHING
        while True:
            try:
                step = advance(work, outcome)
            except StopIteration as end:
                result: Result = end.value
                return result
            (outcome,) = (
                [NOTHING] if step is CALLS else group_commit.write_all(self.database, [step])
            )
