# SPDX-License-Identifier: Apache-2.0
"""Rows that wait to be sent, each claimed by one manager for a time: outbox and deliveries."""

from collections.abc import Collection

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_core.db import utcnow


def due_in(
    session: orm.Session, table: sa.Table, *conditions: sa.ColumnElement[bool]
) -> float | None:
    """Tell in how many seconds the next row is due; None if there is none."""
    next_at = table.c.next_at
    query = sa.select(next_at, utcnow.now(session)).where(*conditions).order_by(next_at).limit(1)
    row = session.execute(query).first()
    return None if row is None else max(0.0, (row[0] - row[1]).total_seconds())


def claim(session: orm.Session, table: sa.Table, ids: Collection[int], ttl: float) -> str:
    """Claim those of the rows that are still due for ``ttl`` seconds.

    :returns: the name of the claim
    """
    name = uuidutils.generate_uuid()
    session.connection().execute(
        sa.update(table)
        .where(table.c.id.in_(ids), table.c.next_at <= utcnow.now(session))
        .values(claim=name, next_at=utcnow.now(session, ttl))
    )
    return name
