# SPDX-License-Identifier: Apache-2.0
"""Write what events make of their leases: of many events in one transaction.

Their leases are read, changed and told of together, see :mod:`climate_core.db.rows`. The fence
of each event stays its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import orm

from climate_core.db import leases, rows
from climate_core.db.engine import Database
from climate_core.db.rows import Outcome
from climate_core.lease.model import Lease


class Superseded(Exception):
    """An event has gone on without the caller; raised before anything is written."""


class Write(NamedTuple):
    """Describe what an event writes: ``function(session, lease)``, called again if repeated.

    :param lease_id: of the lease that is read for it, and locked; it is given None if there is
        none
    :param function: may raise :class:`Superseded` before it has written anything: others go on
    """

    lease_id: str
    function: Callable[[orm.Session, Lease | None], Any]


def write_all(database: Database, writes: Sequence[Write]) -> list[Outcome[Any]]:
    """Write for events of different leases; return an outcome for each.

    :param writes: one for each lease: the next one is to read what it wrote
    """
    return rows.write_group(database, _call, _call_all, writes)


def _call_all(session: orm.Session, writes: Sequence[Write]) -> list[Outcome[Any]]:
    """Return the results of the functions of a group, and the errors of those that gave way."""
    found = leases.lock_all(session, {each.lease_id for each in writes})
    with rows.deferred_writes(session):
        return [_try(session, each, found.get(each.lease_id)) for each in writes]


def _try(session: orm.Session, write: Write, lease: Lease | None) -> Outcome[Any]:
    try:
        return write.function(session, lease), None
    except Superseded as exc:
        return None, exc


def _call(session: orm.Session, write: Write) -> Any:
    return write.function(session, leases.find(session, write.lease_id, lock=True))
