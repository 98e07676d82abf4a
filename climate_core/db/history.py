# SPDX-License-Identifier: Apache-2.0
"""The history of leases in the database: one row for each change, kept until the purge."""

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import rows, tables
from climate_core.lease import history

_ROW = tables.HISTORY


def add(session: orm.Session, entry: history.HistoryEntry | None) -> None:
    """Write what happened, in the transaction in which it happens; None is nothing."""
    if entry is not None:
        rows.insert_unread(session, _ROW, [rows.values(_ROW, entry)])


def page(
    session: orm.Session,
    lease_id: str,
    after: int | None = None,
    limit: int = 1000,
    newest_first: bool = False,
) -> list[tuple[int, history.HistoryEntry]]:
    """Read a page of the history of a lease.

    :param after: the number of the last entry of the page before
    :returns: entries with their numbers
    """
    query = (
        sa.select(_ROW.c.id, *rows.columns(_ROW, history.HistoryEntry))
        .where(_ROW.c.lease_id == lease_id)
        .order_by(_ROW.c.id.desc() if newest_first else _ROW.c.id)
        .limit(limit)
    )
    if after is not None:
        query = query.where(_ROW.c.id < after if newest_first else _ROW.c.id > after)
    return [(row[0], history.HistoryEntry(*row[1:])) for row in session.execute(query)]
