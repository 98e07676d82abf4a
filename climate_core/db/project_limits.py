# SPDX-License-Identifier: Apache-2.0
"""Count the usage of a project, and enforce its limits.

The names of the limits are those that are registered in Keystone. An amount that a reservation
does not name counts as 0.

A transaction that increases the usage of a project calls :func:`lock_project` first, and
:func:`check_limits` before it writes: two such transactions are serialized, and the second counts
what the first has written. It calls it first, because a transaction of MariaDB sees the state at
its first read.
"""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common.resource_types import LIMITED_UNITS
from climate_core import exceptions
from climate_core.db import sql
from climate_core.db.engine import Stale
from climate_core.db.tables import LEASES, PROJECTS, RESERVATIONS
from climate_core.lease import model, states

LEASE_COUNT: Final = 'leases'
_PREFIX = 'reserved_'
#: The names of the limits, in the order in which they are shown.
NAMES: Final = (LEASE_COUNT, *(f'{_PREFIX}{unit}' for unit in LIMITED_UNITS))
#: The value of Keystone for "no limit".
UNLIMITED: Final = -1

Amounts = Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class HeldAmounts:
    """The amounts that one lease claims, by the names of the limits, until its end."""

    end: datetime.datetime
    amounts: Amounts


def sum_amounts(reservations: Iterable[model.Reservation], leases: int = 0) -> dict[str, int]:
    """Add up what reservations, and leases, claim, by the names of the limits."""
    return sum_units([each.amounts for each in reservations], leases)


def sum_units(units: Iterable[Amounts], leases: int = 0) -> dict[str, int]:
    """Add up amounts by unit (``vcpus``), giving amounts by limit (``reserved_vcpus``)."""
    added = dict.fromkeys(NAMES, 0) | {LEASE_COUNT: leases}
    for each in units:
        for unit, number in each.items():
            if _PREFIX + unit in added:
                added[_PREFIX + unit] += int(number)
    return added


def multiply_amounts(units: Amounts, count: int) -> dict[str, int]:
    """Multiply amounts."""
    return {unit: int(number) * count for unit, number in units.items()}


def enforce_limits(limits: Amounts, used: Amounts, adding: Amounts) -> None:
    """Reject what would exceed a limit, by LimitExceeded; an addition of 0 is always accepted."""
    if over := _exceeded(limits, used, adding):
        exceeded = '; '.join(
            f'{name}: {adding[name]} more would exceed the limit of {limits[name]}, '
            f'{used.get(name, 0)} in use'
            for name in over
        )
        message = f'The project would exceed its limits. {exceeded}.'
        raise exceptions.LimitExceeded(message, field=over[0])


def fits_limits(limits: Amounts, used: Amounts, adding: Amounts) -> bool:
    """Return whether limits accept an addition."""
    return not _exceeded(limits, used, adding)


def add_usage(most: Amounts | None, used: Amounts, adding: Amounts) -> Amounts:
    """Return the usage after an addition; LimitExceeded if there are limits and it exceeds one."""
    if most is not None:
        enforce_limits(most, used, adding)
    return {name: used.get(name, 0) + number for name, number in adding.items()}


def available_from(
    limits: Amounts, adding: Amounts, held: Iterable[HeldAmounts], now: datetime.datetime
) -> datetime.datetime | None:
    """Return when an addition fits into the limits, because leases have ended.

    :returns: the end of one of them, or ``now`` if it is past or it fits already; None: never
    """
    going = sorted(held, key=lambda each: each.end)
    used = {name: sum(each.amounts.get(name, 0) for each in going) for name in adding}
    time = now
    for each in going:
        if fits_limits(limits, used, adding):
            return time
        used = {name: used[name] - each.amounts.get(name, 0) for name in used}
        time = max(now, each.end)
    return time if fits_limits(limits, used, adding) else None


def _exceeded(limits: Amounts, used: Amounts, adding: Amounts) -> list[str]:
    return [
        name
        for name in adding
        if adding[name] > 0
        and limits.get(name, UNLIMITED) != UNLIMITED
        and used.get(name, 0) + adding[name] > limits[name]
    ]


_LIVE = sorted(set(states.LeaseStatus) - {states.LeaseStatus.TERMINATED})


def _count_statement() -> sa.CompoundSelect[Any]:
    # Each create executes this twice, so the statuses are part of the statement.
    statuses: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{each}'") for each in _LIVE]
    project_id = sa.bindparam('project_id', type_=LEASES.c.project_id.type)
    live = sa.and_(LEASES.c.project_id == project_id, LEASES.c.status.in_(statuses))
    leases = sa.select(sa.null(), sa.func.count()).select_from(LEASES).where(live)
    amounts = (
        sa.select(RESERVATIONS.c.amounts, sa.func.count())
        .join_from(LEASES, RESERVATIONS, RESERVATIONS.c.lease_id == LEASES.c.id)
        .where(live, RESERVATIONS.c.hold == 1, RESERVATIONS.c.amounts.is_not(None))
        .group_by(RESERVATIONS.c.amounts)
    )
    return amounts.union_all(leases)


#: Built once: that takes longer than to execute it.
_COUNT: Final = _count_statement()
_LOCK_PROJECT: Final = (
    sa.update(PROJECTS)
    .where(PROJECTS.c.id == sa.bindparam('project_id'))
    .values(generation=PROJECTS.c.generation + 1)
)


def lock_project(session: orm.Session, project_id: str, most: Amounts | None) -> None:
    """Keep other transactions from increasing the usage of a project with limits.

    :raises climate_core.db.engine.Stale: another transaction has just added the project; the
        next attempt comes after it
    """
    if most is None:
        return
    if sql.change(session, _LOCK_PROJECT, {'project_id': project_id}):
        return
    try:
        sql.insert(session, PROJECTS, [{'id': project_id, 'generation': 1}])
    except db_exc.DBDuplicateEntry as exc:
        raise Stale(f'project {project_id}') from exc


def count_used(session: orm.Session, project_id: str) -> dict[str, int]:
    """Count the amounts of the live leases of a project, by the names of the limits.

    One statement, whose result grows with the kinds of amounts and not with the leases.
    """
    counted = session.execute(_COUNT, {'project_id': project_id}).all()
    units = [multiply_amounts(each, count) for each, count in counted if each is not None]
    return sum_units(units, sum(count for each, count in counted if each is None))


def check_limits(
    session: orm.Session,
    project_id: str,
    adding: Amounts,
    most: Amounts | None,
) -> Amounts | None:
    """Check a project's limits, if it has any; LimitExceeded if they would be exceeded.

    After :func:`lock_project` the result is valid until the end of the transaction.

    :returns: what the project then holds; None: it has no limits
    """
    if most is None:
        return None
    return add_usage(most, count_used(session, project_id), adding)


def read_held(session: orm.Session, project_id: str) -> list[HeldAmounts]:
    """Read the amounts of the live leases of a project, and when they end. One statement."""
    query = (
        sa.select(LEASES.c.id, LEASES.c.end_date, RESERVATIONS.c.amounts)
        .join_from(
            LEASES,
            RESERVATIONS,
            sa.and_(RESERVATIONS.c.lease_id == LEASES.c.id, RESERVATIONS.c.hold == 1),
            isouter=True,
        )
        .where(LEASES.c.project_id == project_id, LEASES.c.status.in_(_LIVE))
    )
    units: dict[tuple[str, datetime.datetime], list[Mapping[str, int]]] = defaultdict(list)
    for lease_id, end, held_amounts in session.execute(query):
        units[lease_id, end].append(held_amounts or {})
    return [HeldAmounts(end, sum_units(each, 1)) for (_, end), each in units.items()]
