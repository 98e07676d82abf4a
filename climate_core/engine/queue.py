# SPDX-License-Identifier: Apache-2.0
"""Try the leases that wait as soon as there may be enough for one of them.

The events ``retry_lease`` find what is missed, as by a manager that dies.
"""

from collections.abc import Callable

from climate_core.db import calendar, events, reservations
from climate_core.db.engine import Database
from climate_core.threads import Worker


class QueueWorker(Worker):
    """Look when units are freed or added, when a lease begins to wait, and at the next time.

    :param look: looks; returns in how many seconds there is more
    """

    name = 'queue'
    # A bug in a plugin must not end the manager.
    expected_errors = (Exception,)
    failure_message = (
        'It is not known which leases need not wait any more; they are tried again later'
    )
    #: The longest sleep: nothing is polled.
    _IDLE_SECONDS = 3600.0

    def __init__(self, database: Database, look: Callable[[], float | None]) -> None:
        super().__init__(self._IDLE_SECONDS)
        self._look = look
        database.listen(calendar.FREED, self.nudge)
        database.listen(reservations.FREED, self.nudge)
        database.listen(events.QUEUED, self.nudge)

    def poll(self) -> float | None:
        return self._look()
