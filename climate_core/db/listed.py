# SPDX-License-Identifier: Apache-2.0
"""Read what a list shows of leases.

PyMySQL reads each value of a row in Python, and so most of what a list costs. There a lease comes
as one JSON text with all that it has, which is read in C (:mod:`climate_core.db.sql`).
The other databases are asked for the rows of each table.

A page ends before :data:`MOST_BYTES`, since one lease has up to 1 MiB and a page 1000 leases.
"""

import functools
import itertools
import json
import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import allocations, secrets, sql, tables
from climate_core.db import rows as db_rows
from climate_core.lease.views import EventSummary, LeaseSummary, ReservationSummary

#: Bytes of JSON of a page; more are not read. A page has one lease at least.
MOST_BYTES: Final = 8 * 1024 * 1024
#: What a reservation or an event costs beside its own JSON, in such bytes.
_PART_BYTES: Final = 512

_LEASE, _RESERVATION = tables.LEASES, tables.RESERVATIONS
_ID: Final = 0
#: Where the rows of the parts of a lease have its id.
_LEASE_ID: Final = 1
_BY_CREATION: Final = operator.attrgetter('created_at', 'id')
_BY_TIME: Final = operator.attrgetter('time', 'id')
_PARAMS: Final = operator.attrgetter('params')


_COLUMNS: Final = db_rows.columns(_LEASE, LeaseSummary)
#: By their names in the API.
_PARTS: Final[Mapping[str, Sequence[sa.Column[Any]]]] = {
    'reservations': db_rows.columns(_RESERVATION, ReservationSummary),
    'events': db_rows.columns(tables.EVENTS, EventSummary),
}


def read(
    session: orm.Session, select: sa.Select[Any], parts: Collection[str]
) -> tuple[list[LeaseSummary], bool]:
    """Return leases in the order of a query: two statements with PyMySQL, else one for each table.

    One more if the calendar promises something to one of them.

    :param select: of leases
    :param parts: which of ``reservations`` and ``events`` are read
    :returns: leases, and whether the query has more
    """
    is_packed = session.get_bind().dialect.driver == 'pymysql'
    found, more = (_unpacked if is_packed else _assembled)(session, select, parts)
    return _promised(session, [*_opened(session, found)]), more


@functools.cache
def _texts(parts: frozenset[str]) -> sa.Select[Any]:
    """Select the ids of leases, and a JSON array of each: of the lease, and of its parts.

    A part has the number of its rows, and an array of them.

    MariaDB cuts what JSON_ARRAYAGG returns at ``group_concat_max_len``, 1 MiB unless it was set.
    """
    pieces = [_literal('['), sql.json_row(_COLUMNS)]
    for name, columns in _PARTS.items():
        all_of_them = sa.func.json_arrayagg(sql.json_row(columns))
        count = sa.func.concat(sa.func.count(), _literal(','))
        query = sa.select(
            sa.func.concat(count, sa.func.coalesce(all_of_them, _literal('[]')), type_=sa.Text())
        )
        mine = query.where(columns[_LEASE_ID] == _LEASE.c.id)
        pieces.append(_literal(','))
        pieces.append(mine.scalar_subquery() if name in parts else _literal('0,[]'))
    text = sa.func.concat(*pieces, _literal(']'), type_=sa.Text())
    ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
    return sa.select(_LEASE.c.id, text).where(_LEASE.c.id.in_(ids))


def _literal(text: str) -> sa.ColumnElement[str]:
    return sa.literal_column(f"'{text}'", sa.Text())


def _unpacked(
    session: orm.Session, select: sa.Select[Any], parts: Collection[str]
) -> tuple[list[LeaseSummary], bool]:
    """Read leases as such texts."""
    ids, more = db_rows.read_page_ids(session, _LEASE, select, _size(frozenset(parts)), MOST_BYTES)
    texts = session.execute(_texts(frozenset(parts)), {'ids': ids}) if ids else ()
    by_id = {row[0]: _unpack(row[1]) for row in texts}
    # Leases may be deleted between the reads: more may follow, and a page with a link has a last
    # lease.
    found = [by_id[each] for each in ids if each in by_id]
    more = more or len(found) < len(ids)
    if None in found:
        plain, later = _assembled(session, select.limit(len(ids)), parts)
        return plain, bool(plain) and (more or later)
    rows = [row for row in found if row is not None]
    sql.decode_rows(_COLUMNS, [row[0] for row in rows])
    sql.decode_rows(_PARTS['reservations'], [each for row in rows for each in row[2]])
    read = [_lease(lease, held, events) for lease, _, held, _, events in rows]
    return read, bool(read) and more


def _unpack(text: str | None) -> list[Any] | None:
    """Read such a text; None if it was too long for the database."""
    try:
        row: list[Any] = json.loads(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return row if row[1] == len(row[2]) and row[3] == len(row[4]) else None


def _assembled(
    session: orm.Session, select: sa.Select[Any], parts: Collection[str]
) -> tuple[list[LeaseSummary], bool]:
    """Read leases, and the rows of the other tables."""
    rows = session.execute(select.with_only_columns(*_COLUMNS, _size(frozenset(parts)))).all()
    found = db_rows.limit_bytes(((row[:-1], row[-1]) for row in rows), MOST_BYTES)
    ids = [row[_ID] for row in found]
    kept: dict[tuple[str, str], list[Sequence[Any]]] = defaultdict(list)
    for name in parts if ids else ():
        for row in session.execute(_select(name), {'ids': ids}):
            kept[name, row[_LEASE_ID]].append(row)
    read = [_lease(row, kept['reservations', row[_ID]], kept['events', row[_ID]]) for row in found]
    return read, len(read) < len(rows)


@functools.cache
def _size(parts: frozenset[str]) -> sa.ColumnElement[int]:
    """Return about how many bytes of JSON the parts of a lease have."""
    params = sa.func.sum(sql.byte_length(_RESERVATION.c.params))
    own = {'reservations': sa.func.coalesce(params, 0)}
    size: sa.ColumnElement[int] = sa.literal(0)
    for name in parts:
        of_lease = _PARTS[name][_LEASE_ID] == _LEASE.c.id
        mine = own.get(name, 0) + sa.func.count() * _PART_BYTES
        size = size + sa.select(mine).where(of_lease).scalar_subquery()
    return size


@functools.cache
def _select(part: str) -> sa.Select[Any]:
    columns = _PARTS[part]
    ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
    return sa.select(*columns).where(columns[_LEASE_ID].in_(ids))


def _lease(
    row: Sequence[Any], held: Iterable[Sequence[Any]], events: Iterable[Sequence[Any]]
) -> LeaseSummary:
    reservations = sorted(itertools.starmap(ReservationSummary, held), key=_BY_CREATION)
    in_order = sorted(itertools.starmap(EventSummary, events), key=_BY_TIME)
    return LeaseSummary._make([*row, reservations, in_order])


def _opened(session: orm.Session, found: Iterable[LeaseSummary]) -> Iterator[LeaseSummary]:
    """Yield leases with their secrets in plain."""
    for lease in found:
        changes: dict[str, Any] = {}
        if lease.webhook is not None:
            changes['webhook'] = secrets.open_webhook(session, lease.id, lease.webhook)
        if any(map(secrets.has_metadata, map(_PARAMS, lease.reservations))):
            changes['reservations'] = [
                each._replace(params=secrets.open_params(session, lease.id, each.params))
                for each in lease.reservations
            ]
        yield lease._replace(**changes) if changes else lease


def _promised(session: orm.Session, found: list[LeaseSummary]) -> list[LeaseSummary]:
    """Return leases with what the calendar promises to their reservations."""
    held = (each for lease in found for each in lease.reservations)
    ids = [each.id for each in held if each.unit_kind is not None]
    if not ids:
        return found
    promises = allocations.find_allocations(session, ids)
    return [
        lease._replace(
            reservations=[
                each._replace(allocations=promises.get((each.id, False), ()))
                for each in lease.reservations
            ]
        )
        for lease in found
    ]
