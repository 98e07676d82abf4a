# SPDX-License-Identifier: Apache-2.0
"""Remove old leases from the database, and trusts that no lease needs from Keystone."""

import datetime
from collections.abc import Iterator
from typing import ClassVar, Final

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud.trusts import Trusts
from climate_core.db import store
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import DATABASE_ERRORS, Database, Stale
from climate_core.db.sql import Clock
from climate_core.delivery.metrics import Metrics
from climate_core.threads import PeriodicWorker

LOG = log.getLogger(__name__)

#: Seconds between two rounds, and the most until the first round.
_ROUND_SECONDS: Final = 86400.0
_FIRST_SECONDS: Final = 3600.0
#: Seconds between two transactions of a round, so that other work comes in between.
_BATCH_PAUSE_SECONDS: Final = 1.0
BATCH_SIZE: Final = 200


class LeasePurger(PeriodicWorker):
    """Remove leases that were deleted or ended long ago, a few in each transaction.

    Every manager does so once a day, in a dedicated thread. That is harmless: the statement that
    removes leases checks again that they are to be removed, and a manager that finds none has read
    the table once.

    :param days: how long a lease is stored after its deletion or its end
    """

    name = 'purge'
    expected_errors: ClassVar[tuple[type[Exception], ...]] = (*DATABASE_ERRORS, Stale)
    failure_message = 'Could not purge old leases; the purge is retried'

    def __init__(self, database: Database, clock: Clock, days: int) -> None:
        super().__init__(_ROUND_SECONDS, _FIRST_SECONDS)
        self._database, self._clock = database, clock
        self._age = datetime.timedelta(days=days)
        self._after, self._removed = '', 0

    def poll(self) -> float:
        """Remove the next leases of a round.

        :returns: the seconds until there may be more
        """
        before = self._clock.now() - self._age
        page = self._database.write(store.purge_batch, before, self._after, BATCH_SIZE)
        if page is not None:
            removed, self._after = page
            self._removed += removed
            return _BATCH_PAUSE_SECONDS
        if self._removed:
            LOG.info('Purged %d leases that ended before %s', self._removed, before)
        self._after, self._removed = '', 0
        return self.next_poll()


def find_retired_trusts(database: Database) -> Iterator[str]:
    """Retire trusts that no lease needs; yield the ids of those retired long enough ago."""
    live, old = database.read(db_trusts.find_unneeded)
    if live:
        database.write(db_trusts.retire, live)
    yield from old


def delete_retired_trust(
    database: Database, trusts: Trusts, trust_id: str, metrics: Metrics | None = None
) -> bool:
    """Delete a trust in Keystone, then its row; a trust that is deleted already is a success.

    A deletion that Keystone rejects is logged once, and retried at growing intervals: from 20
    minutes to once a day.

    :param metrics: count the deletions that Keystone rejects
    :returns: False if a lease needs it by now, or Keystone rejects the deletion
    :raises climate_core.exceptions.Transient: Keystone does not answer; this counts as nothing
    """
    if not database.read(db_trusts.is_unneeded, trust_id):
        return False
    try:
        trusts.delete(trust_id)
    except exceptions.Permanent as exc:
        if database.write(db_trusts.count_rejection, trust_id) == 1:
            if metrics is not None:
                metrics.record_trust_refusal()
            message = (
                'Keystone does not let the service delete the trust %s, which no lease needs: %s'
            )
            LOG.warning(message, trust_id, exc)
        return False
    database.write(db_trusts.delete, trust_id)
    return True
