# SPDX-License-Identifier: Apache-2.0
"""Give shared hosts back to ordinary servers when no lease has them, or is to have them.

A host is taken from them in the transaction that writes for which lease. Whatever becomes of that
lease, of its end and of the manager that emptied the host for it: it is looked here whether the
host is still needed, and nothing else says so.
"""

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db import calendar, leases, utcnow
from climate_core.db import hosts as db
from climate_core.db.engine import TROUBLE, Database, Stale
from climate_core.lease import hosts, states
from climate_core.sync import pool_aggregate
from climate_core.threads import Worker

if TYPE_CHECKING:
    from openstack import connection

LOG = log.getLogger(__name__)

#: One that is being emptied is looked at again in so many seconds: its lease may be cancelled.
_EMPTYING_LOOK = 10.0
#: A host whose servers are still being deleted is looked at again in so many seconds.
_LOOK = 5.0


class SharedHosts(Worker):
    """Give them back, when something is freed and now and then.

    :param connect: returns the connection with the rights of the service
    """

    name = 'shared-hosts'
    trouble: ClassVar[tuple[type[Exception], ...]] = (*errors.EXPECTED, *TROUBLE, Stale)
    complaint = 'Hosts were not given back to ordinary servers; the next look tries again'
    _IDLE_SECONDS = 300.0

    def __init__(self, database: Database, connect: Callable[[], 'connection.Connection']) -> None:
        super().__init__(self._IDLE_SECONDS)
        self._database = database
        self._connect = connect
        database.listen(calendar.FREED, self.nudge)

    def look(self) -> float | None:
        """Give back what is not needed; one statement if no lease has a shared host.

        :returns: in how many seconds there may be more
        """
        seconds = []
        for host in self._database.read(db.shared, False):
            until = self._database.write(give_back, host.id)
            if until is None:
                LOG.info('Host %s serves ordinary servers again', host.hypervisor_hostname)
                pool_aggregate.update(self._database, self._connect(), host.provider_id)
            elif until > 0:
                seconds.append(until)
        return min(seconds, default=None)


def give_back(session: orm.Session, host_id: int) -> float | None:
    """Have a shared host serve ordinary servers again, unless a lease has it or is to have it.

    :returns: in how many seconds it is to be looked at again; 0: that is not known; None: it is
        given back
    """
    try:
        host = db.get(session, host_id, lock=True)
    except exceptions.HostNotFound:
        return 0.0
    if host.lent is not False or host.is_leaving or host.failed:
        return 0.0
    if host.emptied_for is not None:
        lease = leases.find(session, host.emptied_for, parts=())
        if lease is not None and lease.status == states.LeaseStatus.IN_PROGRESS:
            return _EMPTYING_LOOK
    elif db.last_promise(session, host_id) is not None:
        return 0.0
    until = db.kept_until(session, host_id)
    if until is not None:
        rest: datetime.timedelta = until - utcnow.read(session)
        return max(rest.total_seconds(), _LOOK)
    lend(session, host)
    return None


def lend(session: orm.Session, host: hosts.Host) -> None:
    """Write that ordinary servers may run on a host that is locked; its aggregate follows."""
    enabled = host.available or host.emptied_for is not None
    reason = None if enabled else host.disabled_reason or hosts.DISABLED
    db.update(session, host.id, {'available': False}, {'lent': True, 'disabled_reason': reason})
