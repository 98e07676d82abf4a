# SPDX-License-Identifier: Apache-2.0
"""Read which reservations and leases hold a resource, and which resources none holds."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import events, leases, sql
from climate_core.db.tables import LEASES, RESERVATIONS
from climate_core.lease import states
from climate_core.lease.model import PREEMPT, REPORTED, Lease, Reservation, ResourceKey

#: Bytes of params after which a page ends. One reservation may have 1 MB.
MAX_PAGE_BYTES: Final = 32 * 1024 * 1024


def is_held(resource_type: str) -> sa.ColumnElement[bool]:
    """Return the condition for reservations of a type that hold their resource."""
    return sa.and_(RESERVATIONS.c.resource_type == resource_type, RESERVATIONS.c.hold == 1)


def find_holding_reservations(
    session: orm.Session, resource_type: str, resource_ids: Collection[str]
) -> list[Reservation]:
    """Read the reservations that hold resources."""
    query = sa.select(*leases.RESERVATION_COLUMNS).where(
        is_held(resource_type), RESERVATIONS.c.resource_id.in_(resource_ids)
    )
    return [leases.build_reservation(session, row) for row in session.execute(query)]


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
    params = sa.type_coerce(RESERVATIONS.c.params, sa.Text)
    is_reported = params.contains(f'"{REPORTED}"', autoescape=True)
    return _read_page(session, sa.and_(is_held(resource_type), is_reported), after, limit)


def _read_page(
    session: orm.Session, where: sa.ColumnElement[bool], after: str, limit: int
) -> list[Reservation]:
    page = sa.select(RESERVATIONS).where(where, RESERVATIONS.c.id > after)
    in_order = page.order_by(RESERVATIONS.c.id)
    size = sql.byte_length(RESERVATIONS.c.params)
    ids, _ = sql.read_page_ids(session, RESERVATIONS, in_order.limit(limit), size, MAX_PAGE_BYTES)
    found = in_order.with_only_columns(*leases.RESERVATION_COLUMNS).where(
        RESERVATIONS.c.id.in_(ids)
    )
    return (
        [leases.build_reservation(session, row) for row in session.execute(found)] if ids else []
    )


def filter_holding(session: orm.Session, ids: Collection[str]) -> set[str]:
    """Return which of some reservations hold their resource."""
    query = sa.select(RESERVATIONS.c.id).where(
        RESERVATIONS.c.id.in_(ids), RESERVATIONS.c.hold == 1
    )
    return set(session.scalars(query))


def find_unheld(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return the resources that no lease holds."""
    resource_id = RESERVATIONS.c.resource_id
    query = sa.select(resource_id).where(is_held(resource_type), resource_id.in_(ids))
    return set(ids) - set(session.scalars(query))


def find_released(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return the resources that a lease held before and that no lease holds now.

    Those that no lease has ever held are not among them.
    """
    column = RESERVATIONS.c
    known = column.resource_type == resource_type, column.resource_id.in_(ids)
    query = sa.select(column.resource_id).where(*known).group_by(column.resource_id)
    return set(session.scalars(query.having(sa.func.count(column.hold) == 0)))


def find_in_use(session: orm.Session, resource_type: str, ids: Collection[str]) -> set[str]:
    """Return the resources that are active in a lease that is not being preempted."""
    column = RESERVATIONS.c
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
    column = RESERVATIONS.c
    query = sa.select(column.id, column.hold).where(
        column.resource_type == resource_type, column.id.in_({each for each, _ in created})
    )
    known = {row.id: row.hold for row in session.execute(query)}
    return {
        each for each, is_ours in created if not known.get(each) and (is_ours or each in known)
    }


def find_holding_leases(
    session: orm.Session, keys: Iterable[ResourceKey]
) -> dict[ResourceKey, Lease]:
    """Find the leases that hold resources, by type and id, without their parts. One statement."""
    by_type: dict[str, list[str]] = defaultdict(list)
    for resource_type, resource_id in keys:
        by_type[resource_type].append(resource_id)
    if not by_type:
        return {}
    column = RESERVATIONS.c
    wanted = [sa.and_(is_held(kind), column.resource_id.in_(ids)) for kind, ids in by_type.items()]
    query = (
        sa.select(column.resource_type, column.resource_id, *LEASES.columns)
        .join_from(RESERVATIONS, LEASES, column.lease_id == LEASES.c.id)
        .where(sa.or_(*wanted))
    )
    rows = session.execute(query).all()
    holders = leases.build_leases(session, [row[2:] for row in rows], parts=())
    return {(row[0], row[1]): lease for row, lease in zip(rows, holders, strict=True)}
