# SPDX-License-Identifier: Apache-2.0
"""Pages of leases, whole or as a list shows them, and pages of their histories.

A page takes three statements, and one for the marker, however many leases there are. It begins
behind the values that its marker has now, so that an index can be searched for it: a late page
costs what the first one does.

What a list shows comes from PyMySQL as one JSON text for each lease with all that it has, see
:func:`_select_json`: PyMySQL decodes each value of a row in Python, which was half of the cost of
a list. The drivers of the other databases are written in C, and return the rows of each table.
Such a page ends before :data:`.sql.MAX_PAGE_BYTES`, since one lease has up to 1 MiB and a page
1000 leases.
"""

import dataclasses
import datetime
import functools
import itertools
import json
import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import resource_types
from climate_core import exceptions
from climate_core.db import leases, secrets, sql, tables
from climate_core.db.tables import HISTORY, LEASES, RESERVATIONS
from climate_core.lease import history as lease_history
from climate_core.lease import model
from climate_core.lease.views import EventSummary, LeaseSummary, ReservationSummary

#: Sort keys. A lease that was never changed counts as changed at its creation.
SORT_KEYS: Final = (
    'created_at',
    'updated_at',
    'start_date',
    'end_date',
    'name',
    'status',
    'project_id',
    'id',
)
#: A time, or its distance from the time of the database.
Moment = datetime.datetime | datetime.timedelta
Sort = tuple[str, bool]
#: Bytes that a reservation or an event costs beside its own JSON.
_PART_BYTES: Final = 512

_ID: Final = 0
#: Where the rows of the parts of a lease have its id.
_LEASE_ID: Final = 1
_BY_CREATION: Final = operator.attrgetter('created_at', 'id')
_BY_TIME: Final = operator.attrgetter('time', 'id')
_PARAMS: Final = operator.attrgetter('params')

_DECODER: Final = json.JSONDecoder()

_COLUMNS: Final = sql.columns(LEASES, LeaseSummary)
#: By their names in the API.
_PARTS: Final[Mapping[str, Sequence[sa.Column[Any]]]] = {
    'reservations': sql.columns(RESERVATIONS, ReservationSummary),
    'events': sql.columns(tables.EVENTS, EventSummary),
}


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseQuery:
    """The filters, order and page of a listing of leases.

    :param project_id: only leases of this project; None: of all projects
    :param deleted: only deleted leases, instead of only the others
    :param lease_id: only the lease with this id
    :param resource_type: only leases with a reservation of this type, in any status
    :param resource_id: only leases with a reservation of this resource, in any status
    :param since: only leases that end later
    :param until: only leases that start earlier
    :param sort: keys of :data:`SORT_KEYS`, and whether they are descending
    :param marker: the id of the last lease of the previous page
    :param limit: maximum number of leases
    :param parts: which of ``reservations`` and ``events`` are read; a statement for each
    """

    project_id: str | None = None
    deleted: bool = False
    statuses: Sequence[str] = ()
    name: str | None = None
    lease_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    sort: Sequence[Sort] = (('created_at', False),)
    marker: str | None = None
    limit: int = 1000
    parts: Collection[str] = leases.PARTS


def read_page(session: orm.Session, query: LeaseQuery) -> tuple[list[model.Lease], bool]:
    """Read a page of leases, and whether there are more.

    :raises climate_core.exceptions.BadRequest: the marker is no lease of the project
    """
    rows = session.execute(_select(session, query)).all()
    return leases.build_leases(session, rows[: query.limit], query.parts), len(rows) > query.limit


def read_summaries(session: orm.Session, query: LeaseQuery) -> tuple[list[LeaseSummary], bool]:
    """Read what a list shows of a page of leases, as :func:`read_page` does.

    A page may end before its limit, see :data:`.sql.MAX_PAGE_BYTES`.
    """
    select = _select(session, query)
    is_packed = session.get_bind().dialect.driver == 'pymysql'
    read, more = (_read_json if is_packed else _read_rows)(session, select, query.parts)
    found = _add_allocations(session, _open_secrets(session, read))
    return found[: query.limit], more or len(found) > query.limit


def _select(session: orm.Session, query: LeaseQuery) -> sa.Select[Any]:
    """Select the leases of a page, and another one."""
    order = _order(query.sort)
    where = _filters(session, query)
    if query.marker is not None:
        where.append(_after(order, _read_marker(session, query, order)))
    select = sa.select(LEASES).where(*where).order_by(*_directed(session, order, query))
    return select.limit(query.limit + 1)


def _read_marker(
    session: orm.Session, query: LeaseQuery, order: Sequence[Sort]
) -> Mapping[str, Any]:
    """Read the sort keys of the marker, which may be deleted by now."""
    columns = [_column(key).label(key) for key, _ in order]
    here = sa.and_(LEASES.c.id == query.marker, *_of_project(query))
    found = session.execute(sa.select(*columns).where(here)).mappings().first()
    if found is None:
        message = f'marker: there is no lease {query.marker} to continue after.'
        raise exceptions.BadRequest(message, field='marker')
    return dict(found)


def _of_project(query: LeaseQuery) -> list[sa.ColumnElement[bool]]:
    return [] if query.project_id is None else [LEASES.c.project_id == query.project_id]


def _filters(session: orm.Session, query: LeaseQuery) -> list[sa.ColumnElement[bool]]:
    deleted = LEASES.c.deleted_at
    found: list[sa.ColumnElement[bool]] = _of_project(query)
    found.append(deleted.is_not(None) if query.deleted else deleted.is_(None))
    if query.statuses:
        found.append(LEASES.c.status.in_(query.statuses))
    if query.name is not None:
        found += _named(session, query.name)
    if query.lease_id is not None:
        found.append(LEASES.c.id == query.lease_id)
    if query.resource_type is not None or query.resource_id is not None:
        found.append(_reserves(query))
    if query.since is not None:
        found.append(LEASES.c.end_date > _moment(session, query.since))
    if query.until is not None:
        found.append(LEASES.c.start_date < _moment(session, query.until))
    return found


def _named(session: orm.Session, name: str) -> list[sa.ColumnElement[bool]]:
    same: list[sa.ColumnElement[bool]] = [LEASES.c.name == name]
    if session.get_bind().dialect.name in ('mysql', 'mariadb'):
        # To their usual collation "A " is "a"; it is that of the index, which is searched first.
        same.append(sa.cast(LEASES.c.name, sa.LargeBinary) == name.encode())
    return same


def _reserves(query: LeaseQuery) -> sa.ColumnElement[bool]:
    types = resource_types.stored_types(query.resource_type or '')
    by_type = RESERVATIONS.c.resource_type.in_(types)
    if query.resource_id is None:
        # Most leases match: a subquery checks each lease that is read; its LIMIT keeps MariaDB
        # from searching for all of them first.
        reserved = sa.select(RESERVATIONS.c.id).where(
            RESERVATIONS.c.lease_id == LEASES.c.id, by_type
        )
        return reserved.limit(1).correlate(LEASES).scalar_subquery().is_not(None)
    # Few leases match: they are found through the index of resources.
    found = sa.select(RESERVATIONS.c.lease_id).where(
        RESERVATIONS.c.resource_id == query.resource_id
    )
    return LEASES.c.id.in_(found if query.resource_type is None else found.where(by_type))


def _moment(session: orm.Session, moment: Moment) -> Any:
    if isinstance(moment, datetime.timedelta):
        return sql.now(session, moment.total_seconds())
    return moment


def _order(sort: Sequence[Sort]) -> list[Sort]:
    """Add the id, so that no two leases are equal."""
    keys = [key for key, _ in sort]
    return [*sort] if 'id' in keys else [*sort, ('id', sort[-1][1])]


def _column(key: str) -> sa.ColumnElement[Any]:
    if key == 'updated_at':
        return sa.func.coalesce(LEASES.c.updated_at, LEASES.c.created_at)
    return LEASES.c[key]


def _directed(session: orm.Session, order: Sequence[Sort], query: LeaseQuery) -> list[Any]:
    directed = [_column(key).desc() if down else _column(key).asc() for key, down in order]
    if query.deleted or session.get_bind().dialect.name != 'postgresql':
        return directed
    # All values are NULL, but PostgreSQL reads the index in its order only with this column. The
    # other databases do so only without it.
    first = LEASES.c.deleted_at
    return [first.desc() if order[0][1] else first.asc(), *directed]


def _after(order: Sequence[Sort], marker: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    """Return the condition for rows behind the marker: greater in one key, before it equal."""
    places = []
    for place, (key, down) in enumerate(order):
        equal = [_column(each) == marker[each] for each, _ in order[:place]]
        mine = _column(key)
        places.append(sa.and_(*equal, mine < marker[key] if down else mine > marker[key]))
    # Redundant, but lets an index begin at the marker.
    key, down = order[0]
    mine = _column(key)
    return sa.and_(mine <= marker[key] if down else mine >= marker[key], sa.or_(*places))


@functools.cache
def _select_json(parts: frozenset[str]) -> sa.Select[Any]:
    """Select the ids of leases, and a JSON array of the lease and its parts.

    A part has the number of its rows, and an array of them.

    MariaDB cuts what JSON_ARRAYAGG returns at ``group_concat_max_len``, 1 MiB unless it was set.
    """
    pieces = [_literal('['), _pack_row(_COLUMNS)]
    for name, columns in _PARTS.items():
        all_of_them = sa.func.json_arrayagg(_pack_row(columns))
        count = sa.func.concat(sa.func.count(), _literal(','))
        query = sa.select(
            sa.func.concat(count, sa.func.coalesce(all_of_them, _literal('[]')), type_=sa.Text())
        )
        mine = query.where(columns[_LEASE_ID] == LEASES.c.id)
        pieces.append(_literal(','))
        pieces.append(mine.scalar_subquery() if name in parts else _literal('0,[]'))
    text = sa.func.concat(*pieces, _literal(']'), type_=sa.Text())
    ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
    return sa.select(LEASES.c.id, text).where(LEASES.c.id.in_(ids))


def _literal(text: str) -> sa.ColumnElement[str]:
    return sa.literal_column(f"'{text}'", sa.Text())


def _read_json(
    session: orm.Session, select: sa.Select[Any], parts: Collection[str]
) -> tuple[list[LeaseSummary], bool]:
    """Read leases as JSON texts."""
    ids, more = sql.read_page_ids(
        session, LEASES, select, _byte_size(frozenset(parts)), sql.MAX_PAGE_BYTES
    )
    texts = session.execute(_select_json(frozenset(parts)), {'ids': ids}) if ids else ()
    by_id = {row[0]: _decode_lease(row[1]) for row in texts}
    # Leases may be deleted between the reads: more may follow, and a page with a link has a last
    # lease.
    found = [by_id[each] for each in ids if each in by_id]
    more = more or len(found) < len(ids)
    if None in found:
        plain, later = _read_rows(session, select.limit(len(ids)), parts)
        return plain, bool(plain) and (more or later)
    rows = [row for row in found if row is not None]
    _decode_values(_COLUMNS, [row[0] for row in rows])
    _decode_values(_PARTS['reservations'], [each for row in rows for each in row[2]])
    read = [_build_summary(lease, held, events) for lease, _, held, _, events in rows]
    return read, bool(read) and more


def _pack_row(columns: Sequence[sa.Column[Any]]) -> sa.ColumnElement[str]:
    """Return an expression for columns as a JSON array; times become texts."""
    no_zone = _literal('')
    values = (
        sa.func.concat(column, no_zone, type_=sa.Text())
        if isinstance(column.type, tables.Time)
        else column
        for column in columns
    )
    return sa.func.json_array(*values, type_=sa.Text())


def _decode_values(columns: Sequence[sa.Column[Any]], packed: Sequence[list[Any]]) -> None:
    """Decode the values of JSON arrays by the types of the columns, except times."""
    for place, column in enumerate(columns):
        if isinstance(column.type, tables.Json):
            for row in packed:
                if row[place] is not None:
                    # Without a search for blanks around it, which Climate does not write.
                    row[place] = _DECODER.raw_decode(row[place])[0]
        elif isinstance(column.type, sa.Boolean):
            for row in packed:
                if row[place] is not None:
                    row[place] = bool(row[place])


def _decode_lease(text: str | None) -> list[Any] | None:
    """Decode a JSON text of a lease; None if it was too long for the database."""
    try:
        row: list[Any] = json.loads(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return row if row[1] == len(row[2]) and row[3] == len(row[4]) else None


def _read_rows(
    session: orm.Session, select: sa.Select[Any], parts: Collection[str]
) -> tuple[list[LeaseSummary], bool]:
    """Read leases, and the rows of their parts."""
    rows = session.execute(select.with_only_columns(*_COLUMNS, _byte_size(frozenset(parts)))).all()
    found = sql.limit_bytes(((row[:-1], row[-1]) for row in rows), sql.MAX_PAGE_BYTES)
    ids = [row[_ID] for row in found]
    kept: dict[tuple[str, str], list[Sequence[Any]]] = defaultdict(list)
    for name in parts if ids else ():
        for row in session.execute(_select_part(name), {'ids': ids}):
            kept[name, row[_LEASE_ID]].append(row)
    read = [
        _build_summary(row, kept['reservations', row[_ID]], kept['events', row[_ID]])
        for row in found
    ]
    return read, len(read) < len(rows)


@functools.cache
def _byte_size(parts: frozenset[str]) -> sa.ColumnElement[int]:
    """Return an estimate of the bytes of JSON of the parts of a lease."""
    params = sa.func.sum(sql.byte_length(RESERVATIONS.c.params))
    own = {'reservations': sa.func.coalesce(params, 0)}
    size: sa.ColumnElement[int] = sa.literal(0)
    for name in parts:
        of_lease = _PARTS[name][_LEASE_ID] == LEASES.c.id
        mine = own.get(name, 0) + sa.func.count() * _PART_BYTES
        size = size + sa.select(mine).where(of_lease).scalar_subquery()
    return size


@functools.cache
def _select_part(part: str) -> sa.Select[Any]:
    columns = _PARTS[part]
    ids: sa.BindParameter[Any] = sa.bindparam('ids', expanding=True)
    return sa.select(*columns).where(columns[_LEASE_ID].in_(ids))


def _build_summary(
    row: Sequence[Any], held: Iterable[Sequence[Any]], events: Iterable[Sequence[Any]]
) -> LeaseSummary:
    reservations = sorted(itertools.starmap(ReservationSummary, held), key=_BY_CREATION)
    in_order = sorted(itertools.starmap(EventSummary, events), key=_BY_TIME)
    return LeaseSummary._make([*row, reservations, in_order])


def _open_secrets(session: orm.Session, found: Iterable[LeaseSummary]) -> Iterator[LeaseSummary]:
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


def _add_allocations(session: orm.Session, read: Iterable[LeaseSummary]) -> list[LeaseSummary]:
    """Return leases with the allocations of their reservations."""
    found = list(read)
    held = (each for lease in found for each in lease.reservations)
    ids = [each.id for each in held if each.unit_kind is not None]
    if not ids:
        return found
    allocated = leases.find_allocations(session, ids)
    return [
        lease._replace(
            reservations=[
                each._replace(allocations=allocated.get((each.id, False), ()))
                for each in lease.reservations
            ]
        )
        for lease in found
    ]


_HISTORY_COLUMNS = sql.columns(HISTORY, lease_history.HistoryEntry)


def read_history_page(
    session: orm.Session,
    lease_id: str,
    after: int | None = None,
    limit: int = 1000,
    newest_first: bool = False,
) -> tuple[list[tuple[int, lease_history.HistoryEntry]], bool]:
    """Read a page of the history of a lease.

    A page may end before its limit, see :data:`.sql.MAX_PAGE_BYTES`.

    :param after: the number of the last entry of the page before
    :returns: entries with their numbers, and whether there is more
    """
    in_order = (
        sa.select(HISTORY)
        .where(HISTORY.c.lease_id == lease_id)
        .order_by(HISTORY.c.id.desc() if newest_first else HISTORY.c.id)
    )
    query = in_order
    if after is not None:
        query = query.where(HISTORY.c.id < after if newest_first else HISTORY.c.id > after)
    size = sql.byte_length(HISTORY.c.changes)
    ids, more = sql.read_page_ids(
        session, HISTORY, query.limit(limit + 1), size, sql.MAX_PAGE_BYTES
    )
    more, ids = more or len(ids) > limit, ids[:limit]
    chosen = in_order.with_only_columns(HISTORY.c.id, *_HISTORY_COLUMNS).where(
        HISTORY.c.id.in_(ids)
    )
    found = session.execute(chosen).all() if ids else ()
    entries = ((number, lease_history.HistoryEntry(*values)) for number, *values in found)
    # The entries may be purged between the reads: a page with a link has a last entry.
    return [(number, _open_entry(session, each)) for number, each in entries], more and bool(found)


def _open_entry(
    session: orm.Session, entry: lease_history.HistoryEntry
) -> lease_history.HistoryEntry:
    unseal = functools.partial(secrets.open_params, session, entry.lease_id)
    changes = secrets.change_history(entry.changes, unseal)
    return dataclasses.replace(entry, changes=changes)
