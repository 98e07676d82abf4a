# SPDX-License-Identifier: Apache-2.0
"""Write down that resources went away behind a lease's back."""

from collections.abc import Mapping

from sqlalchemy import orm

from climate_core.db import leases, store
from climate_core.db.engine import Database
from climate_core.engine.clock import Clock
from climate_core.lease import plan


def record(database: Database, clock: Clock, lease_id: str, reasons: Mapping[str, str]) -> bool:
    """Take resources that are gone out of a lease. Doing it twice is fine.

    The reservation becomes ``deleted`` with ``missing_resources`` and the reason, the lease
    ``degraded``, and TERMINATED when it holds nothing any more. Nudge the engine if True.

    :param reasons: reservation id -> a sentence that says what happened to its resource
    :returns: whether the lease was changed
    """

    def change(session: orm.Session) -> bool:
        lease = leases.find(session, lease_id, lock=True)
        if lease is None or lease.deleted_at is not None:
            return False
        now = clock.now()
        after = plan.gone(lease, reasons, now)
        store.save(session, lease, after, now)
        return bool(after.notices)

    return database.write(change)
