# SPDX-License-Identifier: Apache-2.0
"""Write rows of dataclasses, and claim and read them: one way for all tables.

Rows of queues, such as the outbox, wait to be sent; each is claimed by one manager for a time.
"""

import contextlib
import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import utcnow
from climate_core.db.engine import signal

T = TypeVar('T')

#: Key of ``Session.info``: rows that wait for the end of a group, by table.
_UNREAD: Final = 'unread'


def columns(table: sa.Table, kind: type[Any]) -> list[sa.Column[Any]]:
    """Return the columns that the fields of a dataclass have, in their order."""
    names = (field.name for field in dataclasses.fields(kind))
    return [table.c[name] for name in names if name in table.c]


def values(table: sa.Table, one: Any) -> dict[str, Any]:
    """Return what a table keeps of an object: its attributes with the names of columns."""
    return {c.name: getattr(one, c.name) for c in table.columns if hasattr(one, c.name)}


def difference(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are new."""
    return {name: value for name, value in new.items() if value != old[name]}


def insert(session: orm.Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows in one statement, if there are any."""
    if rows:
        session.connection().execute(sa.insert(table), rows)


@contextlib.contextmanager
def inserted_together(session: orm.Session) -> Iterator[None]:
    """Have :func:`insert_unread` write at the end, in one statement for each table."""
    kept: dict[sa.Table, list[Mapping[str, Any]]] = defaultdict(list)
    session.info[_UNREAD] = kept
    try:
        yield
    finally:
        del session.info[_UNREAD]
    for table, new in kept.items():
        insert(session, table, new)


def insert_unread(
    session: orm.Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write rows that nothing reads before the commit."""
    kept = session.info.get(_UNREAD)
    if kept is None:
        insert(session, table, rows)
    elif rows:
        kept[table].extend(rows)


def change(session: orm.Session, statement: sa.Update | sa.Delete) -> int:
    """Change or delete rows; return how many."""
    return session.connection().execute(statement).rowcount


def enqueue(
    session: orm.Session,
    table: sa.Table,
    notices: Iterable[tuple[str, Mapping[str, Any]]],
    now: datetime.datetime,
    added: str,
    **common: Any,
) -> None:
    """Insert event types and payloads into a queue; send the signal ``added`` if there are any.

    :param common: columns that all rows of this queue have beside those of every queue
    """
    common |= {'claim': None, 'next_at': now, 'created_at': now}
    new = [
        {**common, 'event_id': payload['event_id'], 'event_type': kind, 'payload': payload}
        for kind, payload in notices
    ]
    if new:
        insert_unread(session, table, new)
        signal(session, added)


def due_in(
    session: orm.Session, table: sa.Table, *conditions: sa.ColumnElement[bool]
) -> float | None:
    """Tell in how many seconds the next row of a queue is due; None if there is none."""
    next_at = table.c.next_at
    query = sa.select(next_at, utcnow.now(session)).where(*conditions).order_by(next_at).limit(1)
    row = session.execute(query).first()
    return None if row is None else max(0.0, (row[0] - row[1]).total_seconds())


def take(
    session: orm.Session, table: sa.Table, ids: Collection[int], ttl: float
) -> tuple[str, int]:
    """Claim rows of a queue that are still due; return the name of the claim and how many.

    :param ttl: seconds until they are due again, unless the claim is finished or renewed
    """
    if not ids:
        return '', 0
    name = uuidutils.generate_uuid()
    due = table.c.next_at <= utcnow.now(session)
    claimed = {'claim': name, 'next_at': utcnow.now(session, ttl)}
    statement = sa.update(table).where(table.c.id.in_(ids), due).values(claimed)
    return name, change(session, statement)


def taken(session: orm.Session, table: sa.Table, kind: type[T], claim: str) -> list[T]:
    """Read the rows of a claim, in their order."""
    query = sa.select(*columns(table, kind)).where(table.c.claim == claim).order_by(table.c.id)
    return [kind(*row) for row in session.execute(query)]
