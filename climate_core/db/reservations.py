# SPDX-License-Identifier: Apache-2.0
"""Reservations in the database: pages, what holds a resource, and their rows."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import events, rows, secrets, sql, tables
from climate_core.lease import states
from climate_core.lease.model import (
    PREEMPT,
    REPORTED,
    SEALED,
    SPECIFICATIONS,
    Reservation,
)

#: The signal that resources were freed, for which leases may be queued.
FREED: Final = 'reservations.freed'

_RESERVATION = tables.RESERVATIONS
COLUMNS = rows.columns(_RESERVATION, Reservation)
_NAMES = tuple(each.name for each in COLUMNS)
_WHOLE: Final = _RESERVATION.alias('whole')
#: What forecasts and the queue read of params. MariaDB reads all columns of a table that a query
#: names, so the whole params have a subquery, which it executes only where it needs them.
SHORT_PARAMS: Final[sa.ColumnElement[Any]] = sa.func.coalesce(
    _RESERVATION.c.short_params,
    sa.select(_WHOLE.c.params)
    .where(_WHOLE.c.id == _RESERVATION.c.id)
    .correlate(_RESERVATION)
    .scalar_subquery(),
    type_=tables.Json(),
)
#: The same columns with these params.
SHORT_COLUMNS: Final = tuple(
    SHORT_PARAMS if each is _RESERVATION.c.params else each for each in COLUMNS
)
#: Bytes of params after which a page ends. One reservation may have 1 MB.
MAX_PAGE_BYTES: Final = 32 * 1024 * 1024
#: Bytes that a reservation costs beside its params.
_ROW_BYTES: Final = 512
#: What forecasts read of a specification; of lists only whether they are given.
_SHORT_FIELDS: Final = frozenset(
    {
        'availability_zone',
        'block_device_mapping_v2',
        'flavorRef',
        'imageRef',
        'size',
        'volume_type',
    }
)
#: About how many bytes the rows of a query have with these columns.
SHORT_BYTES: Final = sa.func.sum(sql.byte_length(SHORT_PARAMS) + _ROW_BYTES)


class Count(NamedTuple):
    """The number of reservations of a lease that have a type and a status."""

    resource_type: str
    status: str
    number: int


def count_by_lease(session: orm.Session, ids: Collection[str]) -> dict[str, list[Count]]:
    """Count the reservations of leases in one statement, and read nothing else of them."""
    column = _RESERVATION.c
    by = (column.lease_id, column.resource_type, column.status)
    query = sa.select(*by, sa.func.count()).where(column.lease_id.in_(ids)).group_by(*by)
    found: dict[str, list[Count]] = defaultdict(list)
    for lease_id, *count in session.execute(query):
        found[lease_id].append(Count(*count))
    return found


def is_held(resource_type: str) -> sa.ColumnElement[bool]:
    """Return the condition for reservations of a type that hold their resource."""
    return sa.and_(_RESERVATION.c.resource_type == resource_type, _RESERVATION.c.hold == 1)


def find_holders(
    session: orm.Session, resource_type: str, resource_ids: Collection[str]
) -> list[Reservation]:
    """Read the reservations that hold resources."""
    query = sa.select(*COLUMNS).where(
        is_held(resource_type), _RESERVATION.c.resource_id.in_(resource_ids)
    )
    return [build_reservation(session, row) for row in session.execute(query)]


def read_held_page(
    session: orm.Session, resource_type: str, after: str = '', limit: int = 1000
) -> list[Reservation]:
    """Read a page of the reservations of a type that hold their resource, by id.

    A page may end before its limit at :data:`MAX_PAGE_BYTES`.
    """
    return _read_page(session, is_held(resource_type), after, limit)


def read_reported_page(
    session: orm.Session, resource_type: str, after: str = '', limit: int = 1000
) -> list[Reservation]:
    """Read such a page of reservations with amounts that were reported and not verified yet."""
    params = sa.type_coerce(_RESERVATION.c.params, sa.Text)
    is_reported = params.contains(f'"{REPORTED}"', autoescape=True)
    return _read_page(session, sa.and_(is_held(resource_type), is_reported), after, limit)


def _read_page(
    session: orm.Session, where: sa.ColumnElement[bool], after: str, limit: int
) -> list[Reservation]:
    page = sa.select(_RESERVATION).where(where, _RESERVATION.c.id > after)
    in_order = page.order_by(_RESERVATION.c.id)
    size = sql.byte_length(_RESERVATION.c.params)
    ids, _ = rows.read_page_ids(session, _RESERVATION, in_order.limit(limit), size, MAX_PAGE_BYTES)
    found = in_order.with_only_columns(*COLUMNS).where(_RESERVATION.c.id.in_(ids))
    return [build_reservation(session, row) for row in session.execute(found)] if ids else []


def _shorten(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return params without what only the creation of a resource needs, up to 1 MB of metadata.

    :returns: None if nothing is left out
    """
    short = {name: value for name, value in params.items() if name != SEALED}
    for name in SPECIFICATIONS:
        specification = params.get(name)
        if isinstance(specification, Mapping):
            short[name] = {
                key: [] if isinstance(value, list) else value
                for key, value in specification.items()
                if key in _SHORT_FIELDS
            }
    return None if short == params else short


def filter_holding(session: orm.Session, ids: Collection[str]) -> set[str]:
    """Return which of some reservations hold their resource."""
    query = sa.select(_RESERVATION.c.id).where(
        _RESERVATION.c.id.in_(ids), _RESERVATION.c.hold == 1
    )
    return set(session.scalars(query))


def build_reservation(session: orm.Session, row: Sequence[Any]) -> Reservation:
    """Build a reservation from a row of :data:`COLUMNS`."""
    values = dict(zip(_NAMES, row, strict=True))
    values['params'] = secrets.open_params(session, values['lease_id'], values['params'])
    return Reservation(**values)


def insert(session: orm.Session, reservations: Sequence[Reservation]) -> None:
    """Write new reservations; DBDuplicateEntry: a resource is reserved already."""
    new = [to_row(each) for each in reservations]
    for each in new:
        each['params'] = secrets.seal_params(session, each['lease_id'], each['params'])
    rows.insert(session, _RESERVATION, new)


def to_row(reservation: Reservation) -> dict[str, Any]:
    """Return the row of a reservation, with its metadata in plain."""
    own = {'hold': 1 if reservation.live else None, 'short_params': _shorten(reservation.params)}
    return rows.values(_RESERVATION, reservation) | own


def update(session: orm.Session, changes: Sequence[tuple[Reservation, Reservation]]) -> None:
    """Change pairs of reservations, before and after: one statement for all alike changes."""
    groups: dict[tuple[str, str], tuple[dict[str, Any], list[str]]] = {}
    for before, after in changes:
        values = rows.difference(to_row(after), to_row(before))
        # Sealed metadata is bound to its lease.
        is_bound = secrets.has_metadata(values.get('params', {}))
        key = before.lease_id if is_bound else '', repr(sorted(values.items()))
        groups.setdefault(key, (values, []))[1].append(before.id)
    for (lease_id, _), (values, ids) in groups.items():
        if lease_id:
            values['params'] = secrets.seal_params(session, lease_id, values['params'])
        if len(ids) == 1:
            rows.change_row(session, _RESERVATION, ids[0], None, values)
            continue
        changed = sa.update(_RESERVATION).where(_RESERVATION.c.id.in_(ids))
        rows.change(session, changed.values(**values))


def find_unheld(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return the resources that no lease holds."""
    resource_id = _RESERVATION.c.resource_id
    query = sa.select(resource_id).where(is_held(resource_type), resource_id.in_(ids))
    return set(ids) - set(session.scalars(query))


def find_released(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return the resources that a lease held before and that no lease holds now.

    Those that no lease has ever held are not among them.
    """
    column = _RESERVATION.c
    known = column.resource_type == resource_type, column.resource_id.in_(ids)
    query = sa.select(column.resource_id).where(*known).group_by(column.resource_id)
    return set(session.scalars(query.having(sa.func.count(column.hold) == 0)))


def find_in_use(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return the resources that are active in a lease that is not being preempted."""
    column = _RESERVATION.c
    query = sa.select(column.resource_id).where(
        is_held(resource_type),
        column.resource_id.in_(ids),
        column.status == states.ReservationStatus.ACTIVE,
        ~events.is_open(column.lease_id, PREEMPT),
    )
    return set(session.scalars(query))


def find_unheld_created(
    session: orm.Session, resource_type: str, created: Collection[tuple[str, bool]]
) -> set[str]:
    """Return the ids of reservations that hold nothing, of those that have created something.

    :param created: their ids, and whether an unknown id is Climate's, too
    """
    column = _RESERVATION.c
    query = sa.select(column.id, column.hold).where(
        column.resource_type == resource_type, column.id.in_({each for each, _ in created})
    )
    known = {row.id: row.hold for row in session.execute(query)}
    return {
        each for each, is_ours in created if not known.get(each) and (is_ours or each in known)
    }
