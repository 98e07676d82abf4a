# SPDX-License-Identifier: Apache-2.0
"""Define the steps of the work on an event, and write those of many events in one transaction.

The work is a generator, so that it reads from its claim to its finish, while each of its steps is
done together with the same step of other events, and in another thread than the one before. It
yields a :class:`Write`, and gets its result; and it yields :data:`CALL_SERVICES` before it calls
other services.

The leases of a group of writes are read, changed and notified of together, see
:mod:`climate_core.db.sql`. The fence of each event stays its own.
"""

import datetime
import enum
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import orm

from climate_core.concurrency import Outcome
from climate_core.db import leases, sql
from climate_core.db.engine import GroupWriter
from climate_core.lease.model import Lease


class Superseded(Exception):
    """Another manager continues the event; raised before anything is written."""


class Write(NamedTuple):
    """Describe a write of an event: ``function(session, lease)``, called again if repeated.

    :param lease_id: of the lease that is read and locked for it; a missing lease is None
    :param function: may raise :class:`Superseded` before it has written anything: the other events
        of the group continue
    """

    lease_id: str
    function: Callable[[orm.Session, Lease | None], Any]


class EventWriter(GroupWriter[Write, Any]):
    """Write for events of different leases; at most one write for each lease of a group.

    The next one reads what the first has written.
    """

    def write_one(self, session: orm.Session, item: Write) -> Any:
        return item.function(session, leases.find(session, item.lease_id, lock=True))

    def write_all(self, session: orm.Session, items: Sequence[Write]) -> list[Outcome[Any]]:
        """Return the results of the functions of a group, or that they were superseded."""
        locked = leases.lock_all(session, {write.lease_id for write in items})
        with sql.deferred_writes(session):
            return [_call_fenced(session, write, locked.get(write.lease_id)) for write in items]


def _call_fenced(session: orm.Session, write: Write, lease: Lease | None) -> Outcome[Any]:
    try:
        return write.function(session, lease), None
    except Superseded as exc:
        return None, exc


class _Signal(enum.Enum):
    CALLS = 'calls'


#: The step before calls to other services, which may take as long as these do.
CALL_SERVICES: Final = _Signal.CALLS

Step = Write | Literal[_Signal.CALLS]
#: When the first new event is due after the work; True: not known; False: there is no new event.
WorkResult = datetime.datetime | bool
Work = Generator[Step, Any, WorkResult]

#: The outcome that starts the work, and that continues it after :data:`CALL_SERVICES`.
NO_OUTCOME: Final[Outcome[Any]] = (None, None)


def advance(work: Work, outcome: Outcome[Any]) -> Step:
    """Continue the work on an event until its next step.

    :param outcome: of its last step: the result, or the error that is raised there
    :raises StopIteration: the work has ended; the value is its result
    """
    result, error = outcome
    return work.send(result) if error is None else work.throw(error)
