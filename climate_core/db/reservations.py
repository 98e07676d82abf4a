# SPDX-License-Identifier: Apache-2.0
"""Reservations in the database."""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import tables
from climate_core.lease import model

_RESERVATION = tables.RESERVATIONS
_COLUMNS = [c for c in _RESERVATION.columns if c.name != 'hold']


def holder(session: orm.Session, resource_type: str, resource_id: str) -> model.Reservation | None:
    """Find the reservation that holds a resource."""
    query = sa.select(*_COLUMNS).where(
        _RESERVATION.c.resource_type == resource_type,
        _RESERVATION.c.resource_id == resource_id,
        _RESERVATION.c.hold == 1,
    )
    row = session.execute(query).mappings().first()
    return None if row is None else read(row)


def held(
    session: orm.Session, resource_type: str, after: str = '', limit: int = 1000
) -> list[model.Reservation]:
    """Read a page of the reservations of a type that hold their resource, ordered by id.

    :param after: the id of the last reservation of the page before
    """
    query = (
        sa.select(*_COLUMNS)
        .where(
            _RESERVATION.c.resource_type == resource_type,
            _RESERVATION.c.hold == 1,
            _RESERVATION.c.id > after,
        )
        .order_by(_RESERVATION.c.id)
        .limit(limit)
    )
    return [read(row) for row in session.execute(query).mappings()]


def read(row: Mapping[Any, Any]) -> model.Reservation:
    """Make a reservation of a row; one of the release before this one has no amounts."""
    return model.Reservation(**{**row, 'amounts': row['amounts'] or {}})


def insert(session: orm.Session, reservations: Sequence[model.Reservation]) -> None:
    """Write new reservations.

    :raises oslo_db.exception.DBDuplicateEntry: a resource is reserved already
    """
    if reservations:
        session.connection().execute(sa.insert(_RESERVATION), [columns(r) for r in reservations])


def columns(reservation: model.Reservation) -> dict[str, Any]:
    """Return what the table keeps of a reservation."""
    values = {f.name: getattr(reservation, f.name) for f in dataclasses.fields(reservation)}
    return values | {'hold': 1 if reservation.live else None}


def update(
    session: orm.Session, changes: Sequence[tuple[model.Reservation, model.Reservation]]
) -> None:
    """Change reservations: one statement for all that change in the same way.

    :param changes: what each was and what it shall be
    """
    groups: dict[str, tuple[dict[str, Any], list[str]]] = defaultdict(lambda: ({}, []))
    for before, after in changes:
        old, new = columns(before), columns(after)
        values = {k: v for k, v in new.items() if v != old[k]}
        group = groups[repr(sorted(values.items()))]
        group[0].update(values)
        group[1].append(before.id)
    for values, ids in groups.values():
        session.connection().execute(
            sa.update(_RESERVATION).where(_RESERVATION.c.id.in_(ids)).values(**values)
        )
