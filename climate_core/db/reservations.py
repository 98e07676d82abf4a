# SPDX-License-Identifier: Apache-2.0
"""Reservations in the database."""

import datetime
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy import orm

from climate_common.resource_types import STACK
from climate_core.db import events, rows, secrets, sql, tables
from climate_core.lease import states
from climate_core.lease.model import (
    PARTS,
    PREPARE,
    REPORTED,
    SEALED,
    SPECIFICATIONS,
    UNMADE,
    Reservation,
)

#: Signals that resources were freed, for which leases may wait.
FREED: Final = 'reservations.freed'

_RESERVATION = tables.RESERVATIONS
COLUMNS = rows.columns(_RESERVATION, Reservation)
_NAMES = tuple(each.name for each in COLUMNS)
_WHOLE: Final = _RESERVATION.alias('whole')
#: What forecasts and the queue read of params. MariaDB reads all columns of a table that a query
#: names, so the whole params have a subquery, which it executes only where it needs them.
_SHORT_PARAMS: Final[sa.ColumnElement[Any]] = sa.func.coalesce(
    _RESERVATION.c.short_params,
    sa.select(_WHOLE.c.params)
    .where(_WHOLE.c.id == _RESERVATION.c.id)
    .correlate(_RESERVATION)
    .scalar_subquery(),
    type_=tables.Json(),
)
#: The same columns with these params.
SHORT_COLUMNS: Final = tuple(
    _SHORT_PARAMS if each is _RESERVATION.c.params else each for each in COLUMNS
)
#: Bytes of params after which a page of :func:`held` ends. One reservation may have 1 MB.
MOST_BYTES: Final = 32 * 1024 * 1024
#: What a reservation costs beside its params, in such bytes.
_ROW_BYTES: Final = 512
#: What forecasts read of a specification; of lists only whether they are given.
_FORECAST: Final = frozenset(
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
SHORT_BYTES: Final = sa.func.sum(sql.byte_length(_SHORT_PARAMS) + _ROW_BYTES)


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


def held_of(resource_type: str) -> sa.ColumnElement[bool]:
    """Return the condition for reservations of a type that hold their resource."""
    return sa.and_(_RESERVATION.c.resource_type == resource_type, _RESERVATION.c.hold == 1)


def holders(
    session: orm.Session, resource_type: str, resource_ids: Collection[str]
) -> list[Reservation]:
    """Find the reservations that hold resources."""
    query = sa.select(*COLUMNS).where(
        held_of(resource_type), _RESERVATION.c.resource_id.in_(resource_ids)
    )
    return [read(session, row) for row in session.execute(query)]


def held(
    session: orm.Session, resource_type: str, after: str = '', limit: int = 1000
) -> list[Reservation]:
    """Read a page of the reservations of a type that hold their resource, after one by its id.

    It ends before its limit at :data:`MOST_BYTES`.
    """
    return _read_page(session, held_of(resource_type), after, limit)


def reported(
    session: orm.Session, resource_type: str, after: str = '', limit: int = 1000
) -> list[Reservation]:
    """Read such a page of those whose service reported what they hold, not verified yet."""
    params = sa.type_coerce(_RESERVATION.c.params, sa.Text)
    is_reported = params.contains(f'"{REPORTED}"', autoescape=True)
    return _read_page(session, sa.and_(held_of(resource_type), is_reported), after, limit)


def _read_page(
    session: orm.Session, where: sa.ColumnElement[bool], after: str, limit: int
) -> list[Reservation]:
    page = sa.select(_RESERVATION).where(where, _RESERVATION.c.id > after)
    in_order = page.order_by(_RESERVATION.c.id)
    size = sql.byte_length(_RESERVATION.c.params)
    ids, _ = rows.read_page_ids(session, _RESERVATION, in_order.limit(limit), size, MOST_BYTES)
    found = in_order.with_only_columns(*COLUMNS).where(_RESERVATION.c.id.in_(ids))
    return [read(session, row) for row in session.execute(found)] if ids else []


class ReservationEnd(NamedTuple):
    """The end of a reservation: its time, its end action, and what is held until then.

    :param given_up_at: when it gives up what it holds before that, if it does: now, if that was
        to be done by now
    """

    resource_id: str
    at: datetime.datetime
    amounts: Mapping[str, int]
    on_end: str | None
    given_up_at: datetime.datetime | None = None


def ends(session: orm.Session, resource_type: str) -> list[ReservationEnd]:
    """Read the ends to come of all reservations of a type that hold their resource.

    One statement. A resource that is there after its end is freed nobody knows when.
    """
    reservation, lease, event = tables.RESERVATIONS, tables.LEASES, tables.EVENTS
    preemption = sa.and_(events.preemption(lease), lease.c.preemptible.is_(True))
    query = (
        sa.select(
            reservation.c.resource_id,
            lease.c.end_date,
            reservation.c.amounts,
            _SHORT_PARAMS,
            event.c.time,
            sql.now(session),
        )
        .join_from(reservation, lease, lease.c.id == reservation.c.lease_id)
        .outerjoin(event, preemption)
        .where(held_of(resource_type), lease.c.end_date > sql.now(session))
    )
    return [
        ReservationEnd(
            resource_id,
            at,
            amounts or {},
            params.get('on_end'),
            given_up and max(given_up, now),
        )
        for resource_id, at, amounts, params, given_up, now in session.execute(query)
    ]


class ToBeMade(NamedTuple):
    """A resource that is not made yet, or not woken again, and what it will take.

    :param start: of its lease, as ``end``
    :param params: what forecasts read of them
    """

    start: datetime.datetime
    end: datetime.datetime
    amounts: Mapping[str, int]
    params: Mapping[str, Any]
    resource_id: str


def to_be_made(session: orm.Session, resource_type: str) -> dict[str, list[ToBeMade]]:
    """Read what leases will have made, by their ids, the first request first.

    These are the scheduled leases, and those that waited and were just granted; stacks are read as
    what is in them of the type, as long as nobody has begun to fill them. Also read is what
    preemptible leases have that is not awake: it may have been shelved. One statement.
    """
    reservation, lease = tables.RESERVATIONS, tables.LEASES
    is_unmade = sa.or_(reservation.c.resource_id.startswith(UNMADE), lease.c.preemptible.is_(True))
    is_unfilled = sa.and_(reservation.c.progress.is_(None), events.waits(PREPARE, reservation))
    query = (
        sa.select(
            lease.c.id,
            lease.c.start_date,
            lease.c.end_date,
            reservation.c.amounts,
            _SHORT_PARAMS,
            reservation.c.resource_id,
            reservation.c.resource_type,
        )
        .join_from(reservation, lease, lease.c.id == reservation.c.lease_id)
        .where(
            sa.or_(
                sa.and_(held_of(resource_type), is_unmade),
                sa.and_(held_of(STACK), is_unfilled),
            ),
            reservation.c.status == states.ReservationStatus.PENDING,
            sa.or_(
                lease.c.kind == states.LeaseKind.SCHEDULED,
                lease.c.retries_left.is_not(None),
                lease.c.preemptible.is_(True),
            ),
            lease.c.status.not_in(sorted(states.UNGRANTED)),
            lease.c.end_date > sql.now(session),
        )
        .order_by(lease.c.created_at, lease.c.id)
    )
    found: dict[str, list[ToBeMade]] = defaultdict(list)
    for lease_id, *values in session.execute(query):
        start, end, amounts, params, resource_id, found_type = values
        if found_type == resource_type:
            found[lease_id].append(ToBeMade(start, end, amounts or {}, params, resource_id))
        for each in (params.get(PARTS) or {}).get(resource_type, ()):
            found[lease_id].append(ToBeMade(start, end, {}, each, resource_id))
    return found


def _shorten(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return params without what only the creation of a resource needs, up to 1 MB of metadata.

    :returns: None if there is nothing of that kind
    """
    short = {name: value for name, value in params.items() if name != SEALED}
    for name in SPECIFICATIONS:
        said = params.get(name)
        if isinstance(said, Mapping):
            short[name] = {
                key: [] if isinstance(value, list) else value
                for key, value in said.items()
                if key in _FORECAST
            }
    return None if short == params else short


def holding(session: orm.Session, ids: Collection[str]) -> set[str]:
    """Return which of these reservations hold their resource."""
    query = sa.select(_RESERVATION.c.id).where(
        _RESERVATION.c.id.in_(ids), _RESERVATION.c.hold == 1
    )
    return set(session.scalars(query))


def read(session: orm.Session, row: Sequence[Any]) -> Reservation:
    """Make one of a row of :data:`COLUMNS`; one of the release before has no amounts."""
    values = dict(zip(_NAMES, row, strict=True))
    values['amounts'] = values['amounts'] or {}
    values['params'] = secrets.open_params(session, values['lease_id'], values['params'])
    return Reservation(**values)


def insert(session: orm.Session, reservations: Sequence[Reservation]) -> None:
    """Write new reservations; DBDuplicateEntry: a resource is reserved already."""
    new = [columns(each) for each in reservations]
    for each in new:
        each['params'] = secrets.seal_params(session, each['lease_id'], each['params'])
    rows.insert(session, _RESERVATION, new)


def columns(reservation: Reservation) -> dict[str, Any]:
    """Return what the table keeps of a reservation, with its metadata in plain."""
    own = {'hold': 1 if reservation.live else None, 'short_params': _shorten(reservation.params)}
    return rows.values(_RESERVATION, reservation) | own


def update(session: orm.Session, changes: Sequence[tuple[Reservation, Reservation]]) -> None:
    """Change pairs of reservations, before and after: one statement for all alike changes."""
    groups: dict[tuple[str, str], tuple[dict[str, Any], list[str]]] = {}
    for before, after in changes:
        values = rows.difference(columns(after), columns(before))
        # What is sealed is bound to its lease.
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
