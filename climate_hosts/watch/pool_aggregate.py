# SPDX-License-Identifier: Apache-2.0
"""Keep ordinary servers off the hosts that the database has in a pool, and off no others."""

import functools
from typing import TYPE_CHECKING

from climate_core.cloud import errors, placement
from climate_core.db.engine import Database
from climate_hosts.db import hosts as db

if TYPE_CHECKING:
    from climate_core.cloud import connections


def update(database: Database, conn: 'connections.Connection', provider_id: str) -> bool:
    """Set the aggregate of the pools on a host, or remove it, as its row in the database says.

    The row is written before this is called. So any number of processes may enrol a host, take it
    out and repair it at the same time, and each of them may die.

    :returns: whether they are kept off; not if Placement has no such provider
    """
    is_kept = functools.partial(database.read, db.is_kept, provider_id)
    try:
        return placement.update_pool_aggregate(conn, provider_id, is_kept)
    except errors.Gone:
        return False
