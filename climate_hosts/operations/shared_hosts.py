# SPDX-License-Identifier: Apache-2.0
"""Take shared hosts from ordinary servers for a lease, and return them.

A host is taken from ordinary servers in the transaction that writes for which lease. Only
:class:`SharedHostReturner` returns it: it checks in the database whether a lease still needs
the host, however that lease ended and whether or not the manager that evacuated the host
still runs. The return takes three steps: the row gets the state RETURNING, the host leaves
the aggregate of the pools in Placement, the row states that ordinary servers may run there.
When a manager dies in between, or Placement does not answer, the next pass continues with
the next step.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.db import calendar, leases
from climate_core.db.engine import Database
from climate_core.lease import states
from climate_core.threads import Worker
from climate_hosts import hosts
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.hosts import State
from climate_hosts.watch import PASS_ERRORS, isolation

if TYPE_CHECKING:
    from climate_core.cloud import Cloud

LOG = log.getLogger(__name__)

_TAKEN: Final = (
    'A host that was to be drained has just been allocated to another lease. Try again.'
)
_LOST: Final = 'A host that was drained for the lease is not reserved for it any more.'
#: Seconds until the next pass after Placement did not answer, or if a host stays isolated a little
#: longer.
_POLL_SECONDS = 5.0


def take_for_lease(session: orm.Session, host_id: int, lease_id: str) -> None:
    """Mark a shared host as being evacuated for a lease.

    :raises climate_core.exceptions.NotEnough: another lease has it by now
    """
    host = db.lock(session, host_id)
    if host is None or not (host.open_to_unreserved and host.is_enabled):
        raise exceptions.NotEnough(_TAKEN)
    draining = {
        'open_to_unreserved': False,
        'state': State.EMPTYING,
        'emptied_for': lease_id,
    }
    db.HOSTS.update(session, host_id, {}, draining)


def take_all_for_lease(session: orm.Session, host_ids: Iterable[int], lease_id: str) -> None:
    """Mark shared hosts as being evacuated for a lease, if the lease still waits for them."""
    lease = leases.find(session, lease_id, lock=True, parts=())
    if lease is not None and lease.status == states.LeaseStatus.IN_PROGRESS:
        for host_id in host_ids:
            take_for_lease(session, host_id, lease_id)


def release_from_lease(session: orm.Session, host_id: int, lease_id: str) -> None:
    """Mark a host as being returned, if it is evacuated for this lease."""
    host = db.HOSTS.get(session, host_id, lock=True)
    if host.emptied_for == lease_id:
        mark_returning(session, host)


def complete_evacuation(session: orm.Session, *, host_ids: Iterable[int], lease_id: str) -> None:
    """Let hosts that were evacuated for a lease take allocations.

    :raises climate_core.exceptions.Transient: a host is no longer evacuated for the lease
    """
    for host_id in host_ids:
        if db.HOSTS.get(session, host_id, lock=True).emptied_for != lease_id:
            raise exceptions.Transient(_LOST)
        enrolled = {'state': State.ENROLLED, 'emptied_for': None}
        db.HOSTS.update(session, host_id, {'available': True}, enrolled)


class SharedHostReturner(Worker):
    """Return shared hosts to ordinary servers, when something is released and periodically.

    :param cloud: gives the connection with the rights of the service
    """

    name = 'shared-hosts'
    expected_errors = PASS_ERRORS
    failure_message = 'Hosts could not be returned to ordinary servers; the next poll retries'
    _IDLE_SECONDS = 300.0

    def __init__(self, database: Database, cloud: 'Cloud') -> None:
        super().__init__(self._IDLE_SECONDS)
        self._database = database
        self._cloud = cloud
        database.listen(calendar.FREED, self.nudge)

    def poll(self) -> float | None:
        """Return the hosts that no lease needs; two statements if there are none.

        :returns: the seconds until there may be more
        """
        seconds = []
        for host in self._database.read(host_reservations.list_unneeded):
            if host.seconds:
                seconds.append(max(host.seconds, _POLL_SECONDS))
                continue
            try:
                self._return(host)
            except errors.EXPECTED as exc:
                LOG.warning('Host %s is not returned yet: %s', host.name, exc)
                seconds.append(_POLL_SECONDS)
        return min(seconds, default=None)

    def _return(self, host: host_reservations.UnneededHost) -> None:
        provider_id = self._database.write(begin_return, host.id)
        if provider_id is not None:
            isolation.update_isolation(self._database, self._cloud.service(), provider_id)
            if self._database.write(
                db.change_state,
                host.id,
                (State.RETURNING,),
                State.ENROLLED,
                open_to_unreserved=True,
            ):
                LOG.info('Host %s accepts ordinary servers again', host.name)


def begin_return(session: orm.Session, host_id: int) -> str | None:
    """Set the state of a shared host to RETURNING, if no lease needs it.

    :returns: its root provider in Placement; None: it is needed by now, or gone
    """
    host = db.lock(session, host_id)
    found = host_reservations.list_unneeded(session, host_id) if host else []
    if host is None or not found or found[0].seconds:
        return None
    mark_returning(session, host)
    return host.provider_id


def mark_returning(session: orm.Session, host: hosts.Host) -> None:
    """Set the state of a shared host, whose row is locked, to RETURNING."""
    if host.is_returning:
        return
    enabled = host.available or host.emptied_for is not None
    reason = None if enabled else host.disabled_reason or hosts.DISABLED
    returning = {'state': State.RETURNING, 'disabled_reason': reason, 'emptied_for': None}
    db.HOSTS.update(session, host.id, {'available': False}, returning)
