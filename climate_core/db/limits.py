# SPDX-License-Identifier: Apache-2.0
"""Count what a project holds, for its limits.

A transaction that adds to it calls :func:`lock` first of all, and :func:`check` before it writes:
two of them come one after the other, and the second counts what the first has written. First of
all, because a transaction of MariaDB sees what was there when it read for the first time.
"""

import datetime
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_core.db import rows, tables
from climate_core.db.engine import Stale
from climate_core.lease import limits, states

_LEASE, _RESERVATION, _PROJECT = tables.LEASES, tables.RESERVATIONS, tables.PROJECTS

_LIVE = sorted(set(states.LeaseStatus) - {states.LeaseStatus.TERMINATED})


def _count() -> sa.CompoundSelect[Any]:
    # Each create asks this twice, so the statuses are part of the statement.
    statuses: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{each}'") for each in _LIVE]
    project_id = sa.bindparam('project_id', type_=_LEASE.c.project_id.type)
    live = sa.and_(_LEASE.c.project_id == project_id, _LEASE.c.status.in_(statuses))
    leases = sa.select(sa.null(), sa.func.count()).select_from(_LEASE).where(live)
    amounts = (
        sa.select(_RESERVATION.c.amounts, sa.func.count())
        .join_from(_LEASE, _RESERVATION, _RESERVATION.c.lease_id == _LEASE.c.id)
        .where(live, _RESERVATION.c.hold == 1, _RESERVATION.c.amounts.is_not(None))
        .group_by(_RESERVATION.c.amounts)
    )
    return amounts.union_all(leases)


#: Made once: that takes longer than to execute it.
_COUNT: Final = _count()
_LOCK: Final = (
    sa.update(_PROJECT)
    .where(_PROJECT.c.id == sa.bindparam('project_id'))
    .values(generation=_PROJECT.c.generation + 1)
)


def lock(session: orm.Session, project_id: str, most: limits.Amounts | None) -> None:
    """Keep other transactions from adding to what a project with limits holds.

    :raises climate_core.db.engine.Stale: another transaction was the first ever to do this; the
        next attempt comes after it
    """
    if most is None:
        return
    if rows.change(session, _LOCK, {'project_id': project_id}):
        return
    try:
        rows.insert(session, _PROJECT, [{'id': project_id, 'generation': 1}])
    except db_exc.DBDuplicateEntry as exc:
        raise Stale(f'project {project_id}') from exc


def used(session: orm.Session, project_id: str) -> dict[str, int]:
    """Count what the live leases of a project hold, by the names of the limits.

    One statement, whose answer grows with the kinds of amounts and not with the leases.
    """
    counted = session.execute(_COUNT, {'project_id': project_id}).all()
    units = [limits.multiply_amounts(each, count) for each, count in counted if each is not None]
    return limits.sum_units(units, sum(count for each, count in counted if each is None))


def check(
    session: orm.Session,
    project_id: str,
    adding: limits.Amounts,
    most: limits.Amounts | None,
) -> limits.Amounts | None:
    """Check a project's limits, if it has any; LimitExceeded if they would be exceeded.

    With :func:`lock` the answer is true until the end of the transaction.

    :returns: what the project then holds; None: it has no limits
    """
    if most is None:
        return None
    return limits.add_usage(most, used(session, project_id), adding)


def held(session: orm.Session, project_id: str) -> list[limits.HeldAmounts]:
    """Read what each live lease of a project holds, and when it ends. One statement."""
    query = (
        sa.select(_LEASE.c.id, _LEASE.c.end_date, _RESERVATION.c.amounts)
        .join_from(
            _LEASE,
            _RESERVATION,
            sa.and_(_RESERVATION.c.lease_id == _LEASE.c.id, _RESERVATION.c.hold == 1),
            isouter=True,
        )
        .where(_LEASE.c.project_id == project_id, _LEASE.c.status.in_(_LIVE))
    )
    units: dict[tuple[str, datetime.datetime], list[Mapping[str, int]]] = defaultdict(list)
    for lease_id, end, held_amounts in session.execute(query):
        units[lease_id, end].append(held_amounts or {})
    return [limits.HeldAmounts(end, limits.sum_units(each, 1)) for (_, end), each in units.items()]
