# SPDX-License-Identifier: Apache-2.0
"""Find the leases that hold resources."""

from collections import defaultdict
from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import leases, tables
from climate_core.lease import model

_LEASE, _RESERVATION = tables.LEASES, tables.RESERVATIONS

#: Type and id of a resource.
Key = tuple[str, str]


def find(session: orm.Session, keys: Iterable[Key]) -> dict[Key, model.Lease]:
    """Find who holds resources, in one statement.

    :returns: for those that are held, the lease without its reservations and events
    """
    by_type: dict[str, list[str]] = defaultdict(list)
    for resource_type, resource_id in keys:
        by_type[resource_type].append(resource_id)
    if not by_type:
        return {}
    column = _RESERVATION.c
    wanted = [
        sa.and_(column.resource_type == kind, column.resource_id.in_(ids))
        for kind, ids in by_type.items()
    ]
    query = (
        sa.select(column.resource_type, column.resource_id, *_LEASE.columns)
        .join_from(_RESERVATION, _LEASE, column.lease_id == _LEASE.c.id)
        .where(column.hold == 1, sa.or_(*wanted))
    )
    rows = session.execute(query).mappings()
    return {(row['resource_type'], row['resource_id']): leases.read(row) for row in rows}
