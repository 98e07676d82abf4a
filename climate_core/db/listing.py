# SPDX-License-Identifier: Apache-2.0
"""Pages of leases: three statements, and one for the marker, however many leases there are.

A page begins behind the values that its marker has now, so that an index can be searched for it:
a late page costs what the first one does.
"""

import dataclasses
import datetime
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common import resource_types
from climate_core import exceptions
from climate_core.db import leases, listed, sql, tables
from climate_core.lease import model
from climate_core.lease.views import LeaseSummary

_LEASE, _RESERVATION = tables.LEASES, tables.RESERVATIONS

#: What leases are sorted by. A lease that was never changed counts as changed when it was made.
KEYS: Final = (
    'created_at',
    'updated_at',
    'start_date',
    'end_date',
    'name',
    'status',
    'project_id',
    'id',
)
#: A time, or how long after the database's now it is.
Moment = datetime.datetime | datetime.timedelta
Sort = tuple[str, bool]


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseQuery:
    """The filters, order and page of a listing of leases.

    :param project_id: only the leases of this project; None: of all
    :param deleted: only those that are deleted, instead of only the others
    :param resource_type: only those with a reservation of this type, whatever became of it
    :param resource_id: only those with a reservation of this resource, whatever became of it
    :param since: only those that end later
    :param until: only those that start earlier
    :param sort: keys of :data:`KEYS`, each with whether it descends
    :param marker: the id of the last lease of the page before
    :param limit: how many at most
    :param parts: which of ``reservations`` and ``events`` are read; a statement for each
    """

    project_id: str | None = None
    deleted: bool = False
    statuses: Sequence[str] = ()
    name: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    sort: Sequence[Sort] = (('created_at', False),)
    marker: str | None = None
    limit: int = 1000
    parts: Collection[str] = leases.PARTS


def page(session: orm.Session, query: LeaseQuery) -> tuple[list[model.Lease], bool]:
    """Read a page of leases, and whether there are more.

    :raises climate_core.exceptions.BadRequest: the project has no lease that is the marker
    """
    rows = [*sql.JsonQuery(_select(session, query), leases.COLUMNS).rows(session)]
    return leases.assemble(session, rows[: query.limit], query.parts), len(rows) > query.limit


def shown(session: orm.Session, query: LeaseQuery) -> tuple[list[LeaseSummary], bool]:
    """Read what a list shows of a page of leases, as :func:`page` does.

    A page may end before its limit, see :data:`.listed.MOST_BYTES`.
    """
    found, more = listed.read(session, _select(session, query), query.parts)
    return found[: query.limit], more or len(found) > query.limit


def _select(session: orm.Session, query: LeaseQuery) -> sa.Select[Any]:
    """Select the leases of a page, and one more."""
    order = _order(query.sort)
    where = _filters(session, query)
    if query.marker is not None:
        where.append(_after(order, _marker(session, query, order)))
    select = sa.select(_LEASE).where(*where).order_by(*_directed(session, order, query))
    return select.limit(query.limit + 1)


def _marker(session: orm.Session, query: LeaseQuery, order: Sequence[Sort]) -> Mapping[str, Any]:
    """Read what the marker is sorted by. One that was deleted meanwhile still marks its place."""
    columns = [_column(key).label(key) for key, _ in order]
    here = sa.and_(_LEASE.c.id == query.marker, *_of_project(query))
    found = session.execute(sa.select(*columns).where(here)).mappings().first()
    if found is None:
        message = f'marker: there is no lease {query.marker} to go on after.'
        raise exceptions.BadRequest(message, field='marker')
    return dict(found)


def _of_project(query: LeaseQuery) -> list[sa.ColumnElement[bool]]:
    return [] if query.project_id is None else [_LEASE.c.project_id == query.project_id]


def _filters(session: orm.Session, query: LeaseQuery) -> list[sa.ColumnElement[bool]]:
    deleted = _LEASE.c.deleted_at
    found: list[sa.ColumnElement[bool]] = _of_project(query)
    found.append(deleted.is_not(None) if query.deleted else deleted.is_(None))
    if query.statuses:
        found.append(_LEASE.c.status.in_(query.statuses))
    if query.name is not None:
        found += _named(session, query.name)
    if query.resource_type is not None or query.resource_id is not None:
        found.append(_reserves(query))
    if query.since is not None:
        found.append(_LEASE.c.end_date > _moment(session, query.since))
    if query.until is not None:
        found.append(_LEASE.c.start_date < _moment(session, query.until))
    return found


def _named(session: orm.Session, name: str) -> list[sa.ColumnElement[bool]]:
    same: list[sa.ColumnElement[bool]] = [_LEASE.c.name == name]
    if session.get_bind().dialect.name in ('mysql', 'mariadb'):
        # To their usual collation "A " is "a"; it is that of the index, which is searched first.
        same.append(sa.cast(_LEASE.c.name, sa.LargeBinary) == name.encode())
    return same


def _reserves(query: LeaseQuery) -> sa.ColumnElement[bool]:
    types = resource_types.stored(query.resource_type or '')
    by_type = _RESERVATION.c.resource_type.in_(types)
    if query.resource_id is None:
        # Most leases match: a subquery asks each lease that is looked at; its LIMIT keeps MariaDB
        # from searching for all of them first.
        asked = sa.select(_RESERVATION.c.id).where(_RESERVATION.c.lease_id == _LEASE.c.id, by_type)
        return asked.limit(1).correlate(_LEASE).scalar_subquery().is_not(None)
    # Few leases match: they are found through the index of resources.
    found = sa.select(_RESERVATION.c.lease_id).where(
        _RESERVATION.c.resource_id == query.resource_id
    )
    return _LEASE.c.id.in_(found if query.resource_type is None else found.where(by_type))


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
        return sa.func.coalesce(_LEASE.c.updated_at, _LEASE.c.created_at)
    return _LEASE.c[key]


def _directed(session: orm.Session, order: Sequence[Sort], query: LeaseQuery) -> list[Any]:
    directed = [_column(key).desc() if down else _column(key).asc() for key, down in order]
    if query.deleted or session.get_bind().dialect.name != 'postgresql':
        return directed
    # All of them are NULL, but PostgreSQL reads the index in its order only with this column. The
    # other databases do so only without it.
    first = _LEASE.c.deleted_at
    return [first.desc() if order[0][1] else first.asc(), *directed]


def _after(order: Sequence[Sort], marker: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    """Return the condition for rows behind the marker: greater in one key, before it equal."""
    places = []
    for place, (key, down) in enumerate(order):
        equal = [_column(each) == marker[each] for each, _ in order[:place]]
        mine = _column(key)
        places.append(sa.and_(*equal, mine < marker[key] if down else mine > marker[key]))
    # Says nothing new, but lets an index begin at the marker.
    key, down = order[0]
    mine = _column(key)
    return sa.and_(mine <= marker[key] if down else mine >= marker[key], sa.or_(*places))
