# SPDX-License-Identifier: Apache-2.0
"""Expressions that differ between databases, the clock of the database, and the writing of rows.

Several managers on several hosts agree on what is due because they all use the clock of the
database.

A commit waits for a disk, and a statement for the database: many rows cost little more than one.
A statement that changes rows by their ids is built once for its columns and a number of rows: to
build and to compile it takes much longer than to execute it.
"""

import contextlib
import dataclasses
import datetime
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import compiler
from sqlalchemy.sql import expression

from climate_core.db import tables
from climate_core.db.engine import CLOCK, Database, Stale


class utcnow(expression.FunctionElement[datetime.datetime]):
    """Render the database's time in UTC plus an offset in seconds."""

    type = tables.Time()
    name = 'utcnow'
    inherit_cache = True

    def __init__(self, offset: float = 0.0) -> None:
        super().__init__(sa.bindparam('offset', float(offset), sa.Float, unique=True))


class microseconds(expression.FunctionElement[int]):
    """Render a time as microseconds since 1970: a million of these are read in a second or two."""

    type = sa.BigInteger()
    name = 'microseconds'
    inherit_cache = True


class json_member(expression.FunctionElement[str]):
    """Render a member of an object that is stored as JSON, as JSON; NULL if it has none."""

    type = sa.Text()
    name = 'json_member'
    inherit_cache = True


class byte_length(expression.FunctionElement[int]):
    """Render the length of a text of JSON in bytes, which needs no transfer of the text."""

    type = sa.BigInteger()
    name = 'byte_length'
    inherit_cache = True


_MYSQL: Final = {
    byte_length: 'LENGTH({0})',
    # Texts that differ only by case are equal without a binary collation.
    json_member: (
        """(CAST(JSON_EXTRACT({0}, CONCAT('$."', {1}, '"')) AS CHAR) COLLATE utf8mb4_bin)"""
    ),
    utcnow: '(UTC_TIMESTAMP(6) + INTERVAL {0} * 1000000 MICROSECOND)',
    microseconds: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {0})",
}
#: Dialect -> function -> its SQL; ``{0}`` stands for the first argument.
_SQL: Final[Mapping[str, Mapping[Any, str]]] = {
    'sqlite': {
        byte_length: 'length({0})',
        # %f has milliseconds; the zeros make the text sort like the stored times.
        utcnow: "(strftime('%Y-%m-%d %H:%M:%f', 'now', {0} || ' seconds') || '000')",
        json_member: """({0} -> ('$."' || {1} || '"'))""",
        microseconds: "(strftime('%s', {0}) * 1000000 + substr({0}, 21))",
    },
    'mysql': _MYSQL,
    'mariadb': _MYSQL,
    'postgresql': {
        byte_length: 'octet_length({0})',
        # statement_timestamp is stable, so that an index can be searched with it.
        utcnow: "(statement_timestamp() AT TIME ZONE 'UTC' + make_interval(secs => {0}))",
        json_member: 'CAST(CAST({0} AS jsonb) -> {1} AS TEXT)',
        microseconds: 'CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS BIGINT)',
    },
}


def _register(function: Any, dialect: str, sql: str) -> None:
    @compiler.compiles(function, dialect)
    def render(element: Any, compiler: Any, **kw: Any) -> str:
        return sql.format(*(compiler.process(each, **kw) for each in element.clauses))


for _dialect, _functions in _SQL.items():
    for _function, _text in _functions.items():
        _register(_function, _dialect, _text)


T = TypeVar('T')

#: Such a function.
TestClock = Callable[[], datetime.datetime]


def now(session: orm.Session, offset: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
    """Return the time ``offset`` seconds from now as an expression to compare with and store."""
    return now_by_clock(session.info.get(CLOCK), offset)


def now_by_clock(
    clock: TestClock | None, offset: float = 0.0
) -> sa.ColumnElement[datetime.datetime]:
    """Return the same by the clock of a test, or by the clock of the database."""
    if clock is None:
        return utcnow(offset)
    return sa.literal(clock() + datetime.timedelta(seconds=offset), tables.Time())


def cached_statement(session: orm.Session, make: Callable[..., T], *args: Any) -> T:
    """Return a statement that contains the time; with the clock of the database it is built once.

    :param make: a function of a module, which builds it from a clock, see :func:`now_by_clock`
    :param args: its other arguments, few different ones
    """
    clock = session.info.get(CLOCK)
    return _build_once(make, *args) if clock is None else make(clock, *args)


@functools.lru_cache(maxsize=256)
def _build_once(make: Callable[..., Any], *args: Any) -> Any:
    return make(None, *args)


def read_time(session: orm.Session) -> datetime.datetime:
    """Read the time."""
    clock = session.info.get(CLOCK)
    time = clock() if clock else session.scalar(sa.select(utcnow()))
    assert time is not None  # nosec B101 # for mypy: it holds already
    return time


#: Seconds for which the clock of this host may continue by itself.
MAX_CLOCK_AGE = 60.0


#: Maximum seconds of an answer that sets the clock: due events would be delayed by them.
MAX_CLOCK_DELAY = 0.1


#: Maximum number of reads until an answer is quick.
_MAX_CLOCK_READS = 3


class _ClockReading(NamedTuple):
    """A time of the database, and when it was received, by the monotonic clock.

    :param doubt: maximum seconds of its transfer
    """

    time: datetime.datetime
    at: float
    doubt: float


class Clock:
    """The time of the database. Only the database decides whether an event is due."""

    def __init__(
        self, database: Database, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._seen: _ClockReading | None = None

    def now(self) -> datetime.datetime:
        """Return the time in UTC."""
        if self._database.clock is not None:
            return self._database.clock()
        with self._lock:
            seen = self._seen
        if seen is None or self._monotonic() - seen.at > MAX_CLOCK_AGE:
            seen = self._read()
            with self._lock:
                self._seen = seen
        return seen.time + datetime.timedelta(seconds=self._monotonic() - seen.at)

    def observe(self, now: datetime.datetime, since: float) -> None:
        """Set the clock by a time that the database has just returned, unless it took long.

        :param since: the time of the request, by the monotonic clock
        """
        seen = self._answer(now, since)
        if seen.doubt <= MAX_CLOCK_DELAY:
            with self._lock:
                self._seen = seen

    def _read(self) -> _ClockReading:
        """Read the time, again if the database was slow; return the quickest answer."""
        found: list[_ClockReading] = []
        while len(found) < _MAX_CLOCK_READS and not any(
            each.doubt <= MAX_CLOCK_DELAY for each in found
        ):
            since = self._monotonic()
            found.append(self._answer(self._database.read(read_time), since))
        return min(found, key=lambda each: each.doubt)

    def _answer(self, now: datetime.datetime, since: float) -> _ClockReading:
        at = self._monotonic()
        return _ClockReading(now, at, at - since)


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
