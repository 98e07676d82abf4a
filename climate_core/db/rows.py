# SPDX-License-Identifier: Apache-2.0
"""Write rows: alone, alike rows in one statement, and items of several threads in one transaction.

A commit waits for a disk, and a statement for the database: many items cost little more than one.
A statement that changes rows by their ids is built once for its columns and a number of rows: to
build and to compile it takes much longer than to execute it.
"""

import abc
import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core.concurrency import BatchRunner, Outcome
from climate_core.db.engine import Database, Stale

T = TypeVar('T')
I = TypeVar('I')  # noqa: E741 - an item

#: Maximum bytes of JSON of a page beside its last row.
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
#: The numbers of rows for which there are statements; the last row is repeated as padding.
_BATCH_SIZES: Final = (1, 2, 4, 8, 16, 32)
#: Key of ``Session.info``: the deferred writes of a group.
_DEFERRED: Final = 'together'

#: Completes a statement that changes rows.
Completion = Callable[[sa.Update], sa.Update]


def columns(table: sa.Table, kind: type[Any]) -> list[sa.Column[Any]]:
    """Return the columns that the fields of a dataclass or a named tuple have, in their order."""
    is_dataclass = dataclasses.is_dataclass(kind)
    names = [each.name for each in dataclasses.fields(kind)] if is_dataclass else kind._fields
    return [table.c[name] for name in names if name in table.c]


def limit_bytes(sized: Iterable[tuple[T, int]], most: int) -> list[T]:
    """Return the first items, up to the item with which they exceed a number of bytes.

    :param sized: items with their bytes
    """
    kept, total = [], 0
    for item, size in sized:
        if total > most:
            break
        kept.append(item)
        total += size
    return kept


def read_page_ids(
    session: orm.Session, table: sa.Table, query: sa.Select[Any], size: Any, most: int
) -> tuple[list[Any], bool]:
    """Read the ids of a page that has a limited number of bytes beside its last row.

    The rows are read by their ids afterwards: a result cannot be left half-way with PyMySQL.

    :param query: of rows of the table, with an order and a limit
    :param size: the column with the bytes of a row
    :returns: the ids, in the order of the query, and whether it has more
    """
    found = session.execute(query.with_only_columns(table.c.id, size)).all()
    ids = limit_bytes(((row[0], row[1]) for row in found), most)
    return ids, len(ids) < len(found)


def values(table: sa.Table, record: Any) -> dict[str, Any]:
    """Return the attributes of an object that a table has columns for."""
    return {c.name: getattr(record, c.name) for c in table.columns if hasattr(record, c.name)}


def difference(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that have changed."""
    return {name: value for name, value in new.items() if value != old[name]}


class _ChangeKind(NamedTuple):
    """Changes that one statement can make."""

    table: sa.Table
    names: tuple[str, ...]
    guarded: bool
    then: Completion | None


class _RowChange(NamedTuple):
    """The new values of a row.

    :param generation: the generation that was read; None: change the row in any case
    :param values: column -> new value
    """

    row_id: str
    generation: int | None
    values: Mapping[str, Any]


def _split_batches(changes: Sequence[_RowChange]) -> list[Sequence[_RowChange]]:
    """Split changes into those of one statement each."""
    most = _BATCH_SIZES[-1]
    return [changes[at : at + most] for at in range(0, len(changes), most)]


def _padded_size(count: int) -> int:
    """Return the number of rows of the statement that changes ``count`` rows, at most a batch."""
    return next(each for each in _BATCH_SIZES if each >= count)


@functools.cache
def _bulk_update(table: sa.Table, names: tuple[str, ...], guarded: bool, rows: int) -> sa.Update:
    """Return the statement that sets columns of a number of rows.

    :param guarded: whether only rows are changed that have the generation that was read
    """
    numbers = range(rows)
    ids = [sa.bindparam(f'id_{n}', type_=table.c.id.type) for n in numbers]

    def of_row(column: sa.Column[Any], name: str) -> sa.ColumnElement[Any]:
        values = [sa.bindparam(f'{name}_{n}', type_=column.type) for n in numbers]
        if rows == 1:
            return values[0]
        return sa.case(*zip(ids, values, strict=True), value=table.c.id, else_=column)

    found = sa.update(table).where(table.c.id == ids[0] if rows == 1 else table.c.id.in_(ids))
    if guarded:
        found = found.where(table.c.generation == of_row(table.c.generation, 'was'))
    return found.values({name: of_row(table.c[name], f'new_{name}') for name in names})


def _bulk_parameters(changes: Sequence[_RowChange]) -> dict[str, Any]:
    """Return the parameters of a statement of :func:`_bulk_update`."""
    padded = [*changes, *[changes[-1]] * (_padded_size(len(changes)) - len(changes))]
    found: dict[str, Any] = {}
    for number, (row_id, generation, values) in enumerate(padded):
        found[f'id_{number}'] = row_id
        if generation is not None:
            found[f'was_{number}'] = generation
        for name, value in values.items():
            found[f'new_{name}_{number}'] = value
    return found


def insert(session: orm.Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows in one statement, if there are any."""
    if rows:
        _write_changes(session)
        session.connection().execute(_insert(table), rows)


@functools.cache
def _insert(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


class _DeferredWrites:
    """The writes of a group of items: alike rows are written in one statement."""

    def __init__(self) -> None:
        self.inserts: dict[sa.Table, list[Mapping[str, Any]]] = defaultdict(list)
        self.changes: dict[_ChangeKind, list[_RowChange]] = defaultdict(list)

    def write_changes(self, session: orm.Session) -> None:
        changes, self.changes = self.changes, defaultdict(list)
        # A claim comes before what its event becomes.
        for kind, rows in sorted(changes.items(), key=lambda item: item[0].then is None):
            for some in _split_batches(rows):
                if _change_some(session, kind, some) != len(some):
                    raise Stale(f'rows of {kind.table.name}')


@contextlib.contextmanager
def deferred_writes(session: orm.Session) -> Iterator[None]:
    """Defer :func:`insert_deferred` and :func:`change_row`, to write all rows together.

    Changes are written before anything else is read or written, and at the end.

    :raises climate_core.db.engine.Stale: a row was changed concurrently
    """
    kept = session.info[_DEFERRED] = _DeferredWrites()

    def write_changes(_state: orm.ORMExecuteState) -> None:
        kept.write_changes(session)

    sa.event.listen(session, 'do_orm_execute', write_changes)
    try:
        yield
        kept.write_changes(session)
    finally:
        sa.event.remove(session, 'do_orm_execute', write_changes)
        del session.info[_DEFERRED]
    for table, new in kept.inserts.items():
        insert(session, table, new)


def insert_deferred(
    session: orm.Session, table: sa.Table, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write rows that nothing reads before the commit."""
    kept: _DeferredWrites | None = session.info.get(_DEFERRED)
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
    then: Completion | None = None,
) -> bool:
    """Change a row, if it still has the generation that was read.

    :param generation: None: change the row in any case
    :param values: column -> new value, no expressions
    :param then: returns the statement with more conditions and expressions; the same object for
        the same ones
    :returns: False if the row was changed concurrently; nothing is written then. A deferred write
        always returns True, see :func:`deferred_writes`
    """
    kind = _ChangeKind(table, tuple(sorted(values)), generation is not None, then)
    changed = _RowChange(row_id, generation, values)
    kept: _DeferredWrites | None = session.info.get(_DEFERRED)
    if kept is not None:
        kept.changes[kind].append(changed)
        return True
    return _change_some(session, kind, [changed]) == 1


def _change_some(session: orm.Session, kind: _ChangeKind, some: Sequence[_RowChange]) -> int:
    made = _bulk_update(kind.table, kind.names, kind.guarded, _padded_size(len(some)))
    statement = made if kind.then is None else kind.then(made)
    return session.connection().execute(statement, _bulk_parameters(some)).rowcount


def change(
    session: orm.Session,
    statement: sa.Update | sa.Delete,
    parameters: Mapping[str, Any] | None = None,
) -> int:
    """Change or delete rows; return their number."""
    _write_changes(session)
    return session.connection().execute(statement, parameters).rowcount


def _write_changes(session: orm.Session) -> None:
    kept: _DeferredWrites | None = session.info.get(_DEFERRED)
    if kept is not None:
        kept.write_changes(session)


class _WriteSeparately(Exception):
    """An item of a group failed: each item is written in a separate transaction."""


class GroupWriter(BatchRunner[I, T]):
    """Write the items of concurrent threads in one transaction.

    A thread that brings an item while another thread writes waits for it; then one of the waiting
    threads writes the items of all of them. :meth:`run` returns once its item is committed, and
    raises as a transaction of its own would.

    :param most: maximum number of items of a transaction
    """

    def __init__(self, database: Database, most: int) -> None:
        super().__init__(most)
        self._database = database

    @abc.abstractmethod
    def write_one(self, session: orm.Session, item: I) -> T:
        """Write an item in its own transaction; return its result."""

    @abc.abstractmethod
    def write_all(self, session: orm.Session, items: Sequence[I]) -> Sequence[Outcome[T]]:
        """Write items; return an outcome for each.

        It raises an error that cannot be assigned to an item.
        """

    def run_batch(self, items: Sequence[I]) -> list[Outcome[T]]:
        """Write items in one transaction, or if that fails each item in a separate transaction.

        :returns: an outcome for each item, in their order
        """
        if len(items) > 1:
            try:
                return list(self._database.write(self._write_all, items))
            except db_exc.DBConnectionError as exc:
                # They may be committed nevertheless.
                return [(None, exc)] * len(items)
            except (_WriteSeparately, db_exc.DBError):
                # The database may reject a single item.
                pass
        return [self._write_alone(item) for item in items]

    def _write_all(self, session: orm.Session, items: Sequence[I]) -> Sequence[Outcome[T]]:
        try:
            return self.write_all(session, items)
        except db_exc.DBError:
            # All items retry a deadlock together.
            raise
        except Exception as exc:
            raise _WriteSeparately from exc

    def _write_alone(self, item: I) -> Outcome[T]:
        try:
            return self._database.write(self.write_one, item), None
        except Exception as exc:  # noqa: BLE001 - the caller raises it
            return None, exc
