# SPDX-License-Identifier: Apache-2.0
"""Write rows of dataclasses, and claim and read them: one way for all tables.

Rows of queues, such as the outbox, wait to be sent; each is claimed by one manager for a time.
"""

import contextlib
import dataclasses
import datetime
import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import by_id, utcnow
from climate_core.db.engine import Stale, signal

T = TypeVar('T')

#: Key of ``Session.info``: what waits to be written for a group.
_TOGETHER: Final = 'together'

#: Completes a statement that changes rows.
Then = Callable[[sa.Update], sa.Update]


class _Kind(NamedTuple):
    """Changes that one statement can make."""

    table: sa.Table
    names: tuple[str, ...]
    guarded: bool
    then: Then | None


def columns(table: sa.Table, kind: type[Any]) -> list[sa.Column[Any]]:
    """Return the columns that the fields of a dataclass or a named tuple have, in their order."""
    is_dataclass = dataclasses.is_dataclass(kind)
    names = [each.name for each in dataclasses.fields(kind)] if is_dataclass else kind._fields
    return [table.c[name] for name in names if name in table.c]


def cut(sized: Iterable[tuple[T, int]], most: int) -> list[T]:
    """Return the first items, until those before one have more than this number of bytes.

    :param sized: items, each with its bytes
    """
    kept, total = [], 0
    for item, size in sized:
        if total > most:
            break
        kept.append(item)
        total += size
    return kept


def page_ids(
    session: orm.Session, table: sa.Table, query: sa.Select[Any], size: Any, most: int
) -> tuple[list[Any], bool]:
    """Read the ids of a page that has no more than some bytes beside its last row.

    The rows are read by their ids afterwards: a result cannot be left half-way with PyMySQL.

    :param query: of rows of the table, with an order and a limit
    :param size: the column with the bytes of a row
    :returns: the ids, in the order of the query, and whether it has more
    """
    found = session.execute(query.with_only_columns(table.c.id, size)).all()
    ids = cut(((row[0], row[1]) for row in found), most)
    return ids, len(ids) < len(found)


def values(table: sa.Table, one: Any) -> dict[str, Any]:
    """Return what a table keeps of an object: its attributes with the names of columns."""
    return {c.name: getattr(one, c.name) for c in table.columns if hasattr(one, c.name)}


def difference(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are new."""
    return {name: value for name, value in new.items() if value != old[name]}


def insert(session: orm.Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows in one statement, if there are any."""
    if rows:
        _write_changes(session)
        session.connection().execute(_insert(table), rows)


@functools.cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


class _Together:
    """Collect what the leases of a group write, and write alike rows in one statement."""

    def __init__(self) -> None:
        self.inserts: dict[sa.Table, list[Mapping[str, Any]]] = defaultdict(list)
        self.changes: dict[_Kind, list[by_id.RowChange]] = defaultdict(list)

    def write_changes(self, session: orm.Session) -> None:
        changes, self.changes = self.changes, defaultdict(list)
        # A claim comes before what its event becomes.
        for kind, rows in sorted(changes.items(), key=lambda item: item[0].then is None):
            for some in by_id.batches(rows):
                if _change_some(session, kind, some) != len(some):
                    raise Stale(f'rows of {kind.table.name}')


@contextlib.contextmanager
def written_together(session: orm.Session) -> Iterator[None]:
    """Have :func:`insert_unread` and :func:`change_row` write later, for all rows together.

    What is changed is written before anything else is read or written, and at the end. Rows that
    others have changed are found then.

    :raises climate_core.db.engine.Stale: there were some
    """
    kept = session.info[_TOGETHER] = _Together()

    def write_changes(_state: orm.ORMExecuteState) -> None:
        kept.write_changes(session)

    sa.event.listen(session, 'do_orm_execute', write_changes)
    try:
        yield
        kept.write_changes(session)
    finally:
        sa.event.remove(session, 'do_orm_execute', write_changes)
        del session.info[_TOGETHER]
    for table, new in kept.inserts.items():
        insert(session, table, new)


def insert_unread(
    session: orm.Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write rows that nothing reads before the commit."""
    kept: _Together | None = session.info.get(_TOGETHER)
    if kept is None:
        insert(session, table, rows)
    elif rows:
        kept.inserts[table].extend(rows)


def change_row(
    session: orm.Session,
    table: sa.Table,
    row_id: str,
    generation: int | None,
    values: Mapping[str, Any],
    then: Then | None = None,
) -> bool:
    """Change a row, if it still has the generation that was read.

    :param generation: None: it is changed in any case
    :param values: column -> new value, no expressions
    :param then: returns the statement with more conditions and expressions; the same object for
        the same ones
    :returns: False if it was changed meanwhile; nothing is written then. Of a group that is not
        known yet, see :func:`written_together`
    """
    kind = _Kind(table, tuple(sorted(values)), generation is not None, then)
    changed = by_id.RowChange(row_id, generation, values)
    kept: _Together | None = session.info.get(_TOGETHER)
    if kept is not None:
        kept.changes[kind].append(changed)
        return True
    return _change_some(session, kind, [changed]) == 1


def _change_some(session: orm.Session, kind: _Kind, some: Sequence[by_id.RowChange]) -> int:
    made = by_id.update(kind.table, kind.names, kind.guarded, by_id.size(len(some)))
    statement = made if kind.then is None else kind.then(made)
    return session.connection().execute(statement, by_id.parameters(some)).rowcount


def change(
    session: orm.Session,
    statement: sa.Update | sa.Delete,
    parameters: Mapping[str, Any] | None = None,
) -> int:
    """Change or delete rows; return how many."""
    _write_changes(session)
    return session.connection().execute(statement, parameters).rowcount


def _write_changes(session: orm.Session) -> None:
    kept: _Together | None = session.info.get(_TOGETHER)
    if kept is not None:
        kept.write_changes(session)


def enqueue(
    session: orm.Session,
    table: sa.Table,
    notices: Iterable[tuple[str, Mapping[str, Any]]],
    now: datetime.datetime,
    added: str | None,
    **common: Any,
) -> None:
    """Insert event types and payloads into a queue; send the signal ``added`` if there are any.

    :param added: None: no signal, they are claimed by this process
    :param common: columns that all rows of this queue have beside those of every queue, or in
        their place
    """
    common = {'claim': None, 'next_at': now, 'created_at': now, **common}
    new = [
        {**common, 'event_id': payload['event_id'], 'event_type': kind, 'payload': payload}
        for kind, payload in notices
    ]
    if new:
        insert_unread(session, table, new)
        if added is not None:
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
