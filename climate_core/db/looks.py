# SPDX-License-Identifier: Apache-2.0
"""Find the look of a lease at its resources that may come at once, when one of them is done.

Nothing is written: a manager that dies before that look leaves it to the next one.
"""

import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.concurrency import Batches
from climate_core.db import events, rows, sql, tables
from climate_core.db.engine import Database
from climate_core.lease import states

_EVENT, _LEASE, _RESERVATION = tables.EVENTS, tables.LEASES, tables.RESERVATIONS

#: Seconds between two looks at a lease, at least; one of more resources is looked at less often,
#: after a second for so many of them, since each look asks for each of them.
APART: Final = 0.5
_RESOURCES_A_SECOND: Final = 20
#: The most resources of one statement.
_MOST: Final = 100

#: Finds the event of the lease that waits for a type and an id of a resource.
Known = Callable[[str, str], events.Due | None]


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    resource_type: str
    resource_id: str
    answer: futures.Future[events.Due | None] = dataclasses.field(default_factory=futures.Future)


class EarlyLooks:
    """Find events that may be looked at early; for those who ask at once in one statement.

    :param services: which services are called for an event
    :param known: finds the event of a type and an id of a resource without the database, if it can
    """

    def __init__(
        self,
        database: Database,
        services: events.Services = events.NO_SERVICES,
        known: Known = lambda _type, _id: None,
    ) -> None:
        self._database = database
        self._services = services
        self._known = known
        self.batches: Batches[_Question] = Batches(
            self._answer, lambda asked: (asked.resource_type, asked.resource_id), _MOST
        )

    def find(self, resource_type: str, resource_id: str) -> events.Due | None:
        """Find the event of the lease that waits for a resource, if one does.

        If a manager works on it, that look may have come too early: the next one comes after it,
        with the generation that it leaves. Whether it is over by then the claim tells: if another
        manager works on it for longer, the next look is the one that comes without being told.

        :returns: the event, to be taken at its ``next_at``, which the database does not have; None
            if it is looked at as soon without that
        """
        found = self._known(resource_type, resource_id) or self._ask(resource_type, resource_id)
        services = self._services.of_type(resource_type)
        return None if found is None else dataclasses.replace(found, services=services)

    def _ask(self, resource_type: str, resource_id: str) -> events.Due | None:
        asked = _Question(resource_type, resource_id)
        self.batches.do(asked)
        return asked.answer.result()

    def _answer(self, asked: Sequence[_Question]) -> None:
        by_type: dict[str, list[_Question]] = defaultdict(list)
        for each in asked:
            by_type[each.resource_type].append(each)
        for resource_type, some in by_type.items():
            try:
                found = self._database.read(
                    _find, resource_type, [each.resource_id for each in some]
                )
            except BaseException as exc:  # noqa: BLE001 - those who asked raise it
                for each in some:
                    each.answer.set_exception(exc)
                continue
            for each in some:
                each.answer.set_result(found.get(each.resource_id))


def _find(
    session: orm.Session, resource_type: str, resource_ids: Sequence[str]
) -> dict[str, events.Due | None]:
    query = sql.cached_statement(session, _query)
    found: dict[str, events.Due | None] = {}
    for row in session.execute(query, {'of_type': resource_type, 'ids': list(resource_ids)}):
        resource_id, *values, status, updated_at, resources, read_at = row
        looked_at = read_at if status == states.EventStatus.IN_PROGRESS else updated_at
        if resource_id not in found:
            found[resource_id] = brought_forward(
                events.Due(*values), looked_at, resources, read_at
            )
    return found


def brought_forward(
    due: events.Due,
    looked_at: datetime.datetime | None,
    resources: int,
    read_at: datetime.datetime,
) -> events.Due | None:
    """Return an event with the time at which it may be looked at before its next look.

    :param looked_at: when that was done last, or read_at if that goes on
    :param resources: how many are looked at
    :returns: None if the next look comes as soon
    """
    apart = datetime.timedelta(seconds=max(APART, resources / _RESOURCES_A_SECOND))
    at = max(read_at, looked_at + apart) if looked_at else read_at
    return dataclasses.replace(due, next_at=at, is_early=True) if at < due.next_at else None


def _query(clock: sql.TestClock | None) -> sa.Select[Any]:
    of_lease = _RESERVATION.alias()
    resources = sa.select(sa.func.count()).where(
        of_lease.c.lease_id == _EVENT.c.lease_id, of_lease.c.hold == 1
    )
    now = sql.now_by_clock(clock)
    return (
        sa.select(
            _RESERVATION.c.resource_id,
            *rows.columns(_EVENT, events.Due),
            _EVENT.c.status,
            _EVENT.c.updated_at,
            resources.scalar_subquery().label('resources'),
            now.label('now'),
        )
        .join_from(_RESERVATION, _EVENT, _EVENT.c.lease_id == _RESERVATION.c.lease_id)
        .where(
            _RESERVATION.c.resource_type == sa.bindparam('of_type'),
            _RESERVATION.c.resource_id.in_(sa.bindparam('ids', expanding=True)),
            _RESERVATION.c.hold == 1,
            _EVENT.c.status.in_(sorted(states.OPEN)),
            _EVENT.c.time <= now,
            _EVENT.c.next_at > now,
        )
        # One that waits comes before one on which a manager works.
        .order_by(_EVENT.c.status != states.EventStatus.UNDONE, _EVENT.c.next_at)
    )
