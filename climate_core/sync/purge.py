# SPDX-License-Identifier: Apache-2.0
"""Remove leases that were deleted or ended long ago, a few in each transaction.

Every manager does so once a day. That is harmless: the statement that removes leases checks again
that they are to be removed, and a manager that finds none has read the table once.
"""

import datetime
from typing import ClassVar, Final

from oslo_log import log

from climate_core.db import store
from climate_core.db.engine import DATABASE_ERRORS, Clock, Database, Stale
from climate_core.threads import PeriodicWorker

LOG = log.getLogger(__name__)

#: Seconds between two rounds, and until the first one at most.
_ROUND: Final = 86400.0
_FIRST: Final = 3600.0
#: Seconds between two transactions of a round, so that other work comes in between.
_PAUSE: Final = 1.0
BATCH: Final = 200


class LeasePurger(PeriodicWorker):
    """Remove old leases in a thread of its own.

    :param days: how long a lease is stored after its deletion or its end
    """

    name = 'purge'
    expected_errors: ClassVar[tuple[type[Exception], ...]] = (*DATABASE_ERRORS, Stale)
    failure_message = 'Could not purge old leases; the purge is retried'

    def __init__(self, database: Database, clock: Clock, days: int) -> None:
        super().__init__(_ROUND, _FIRST)
        self._database, self._clock = database, clock
        self._age = datetime.timedelta(days=days)
        self._after, self._removed = '', 0

    def poll(self) -> float:
        """Remove the next leases of a round.

        :returns: the seconds until there may be more
        """
        before = self._clock.now() - self._age
        found = self._database.write(store.purge_batch, before, self._after, BATCH)
        if found is not None:
            removed, self._after = found
            self._removed += removed
            return _PAUSE
        if self._removed:
            LOG.info('Purged %d leases that ended before %s', self._removed, before)
        self._after, self._removed = '', 0
        return self.next_poll()
