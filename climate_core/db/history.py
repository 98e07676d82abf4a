# SPDX-License-Identifier: Apache-2.0
"""The history of leases in the database: one row for each change, kept until the purge."""

import dataclasses
import functools
from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import rows, secrets, sql, tables
from climate_core.lease import history

_ROW = tables.HISTORY
_COLUMNS = rows.columns(_ROW, history.HistoryEntry)


def add(
    session: orm.Session, entry: history.HistoryEntry | None, generation: int | None = None
) -> None:
    """Add an entry, in the transaction of the change; None: no entry.

    Nothing is written if the lease has :data:`.history.MOST_REPEATABLE` entries like it: anyone
    may let servers join a lease and leave it, and the history is stored until the purge.

    :param generation: of the lease; None: the entry is written in any case
    """
    if generation is not None:
        entry = _limit_repeatable(session, entry, generation)
    if entry is not None:
        kept = rows.values(_ROW, entry)
        seal = functools.partial(secrets.seal_params, session, entry.lease_id)
        kept['changes'] = secrets.change_history(entry.changes, seal)
        rows.insert_deferred(session, _ROW, [kept])


def _limit_repeatable(
    session: orm.Session, entry: history.HistoryEntry | None, generation: int
) -> history.HistoryEntry | None:
    most = history.MAX_REPEATABLE
    # A change of a lease writes about two entries: those of few changes need not be counted.
    if entry is None or entry.action not in history.REPEATABLE or 2 * generation + 1 < most:
        return entry
    count = _count(session, entry.lease_id, history.REPEATABLE)
    if count >= most:
        return None
    if count < most - 1:
        return entry
    return dataclasses.replace(
        entry, reason=' '.join(filter(None, (entry.reason, history.LAST_REASON)))
    )


def _count(session: orm.Session, lease_id: str, actions: Collection[str]) -> int:
    mine = _ROW.c.lease_id == lease_id, _ROW.c.action.in_(sorted(actions))
    return session.scalar(sa.select(sa.func.count()).select_from(_ROW).where(*mine)) or 0


def check_changes(session: orm.Session, lease_id: str, generation: int, most: int) -> None:
    """Check that a user may change a lease once more.

    Older entries are never dropped: otherwise a user could push a change out of the history.

    :param generation: of the lease; it counts each change by a user, and others
    :param most: the maximum number of :data:`.history.LIMITED` changes; additions by services and
        releases are not counted, otherwise anyone whose servers join and leave the lease could
        use up the changes of its owner
    :raises climate_core.exceptions.LimitExceeded: the history has as many
    """
    # The create is an entry, and the generation after it is 0.
    if generation + 1 < most:
        return
    count = _count(session, lease_id, history.LIMITED)
    if count >= most:
        raise exceptions.LimitExceeded(
            f'changes_per_lease: the lease has {count} changes, the maximum is {most}. '
            'It can be started, ended and deleted; create another lease for other changes.',
            field='changes_per_lease',
        )


def page(
    session: orm.Session,
    lease_id: str,
    after: int | None = None,
    limit: int = 1000,
    newest_first: bool = False,
) -> tuple[list[tuple[int, history.HistoryEntry]], bool]:
    """Read a page of the history of a lease.

    A page may end before its limit, see :data:`.rows.MAX_PAGE_BYTES`.

    :param after: the number of the last entry of the page before
    :returns: entries with their numbers, and whether there is more
    """
    in_order = (
        sa.select(_ROW)
        .where(_ROW.c.lease_id == lease_id)
        .order_by(_ROW.c.id.desc() if newest_first else _ROW.c.id)
    )
    query = in_order
    if after is not None:
        query = query.where(_ROW.c.id < after if newest_first else _ROW.c.id > after)
    size = sql.byte_length(_ROW.c.changes)
    ids, more = rows.read_page_ids(
        session, _ROW, query.limit(limit + 1), size, rows.MAX_PAGE_BYTES
    )
    more, ids = more or len(ids) > limit, ids[:limit]
    chosen = in_order.with_only_columns(_ROW.c.id, *_COLUMNS).where(_ROW.c.id.in_(ids))
    found = session.execute(chosen).all() if ids else ()
    entries = ((number, history.HistoryEntry(*values)) for number, *values in found)
    # The entries may be purged between the reads: a page with a link has a last entry.
    return [(number, _opened(session, each)) for number, each in entries], more and bool(found)


def _opened(session: orm.Session, entry: history.HistoryEntry) -> history.HistoryEntry:
    unseal = functools.partial(secrets.open_params, session, entry.lease_id)
    changes = secrets.change_history(entry.changes, unseal)
    return dataclasses.replace(entry, changes=changes)
