# SPDX-License-Identifier: Apache-2.0
"""Write which shared hosts are emptied for a lease, with their rows locked."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import leases
from climate_core.lease import states
from climate_hosts.db import hosts as db
from climate_hosts.domain import hosts
from climate_hosts.watch import shared_hosts

_TAKEN: Final = 'Another lease has just got a host that was to be emptied. Try again.'
_LOST: Final = 'A host that was emptied for the lease is not kept for it any more.'


def take(session: orm.Session, host_id: int, lease_id: str) -> None:
    """Mark a shared host as being emptied for a lease.

    :raises climate_core.exceptions.NotEnough: another lease has it by now
    """
    try:
        host = db.get(session, host_id, lock=True)
    except exceptions.HostNotFound as exc:
        raise exceptions.NotEnough(_TAKEN) from exc
    if not (host.takes_ordinary and host.is_enabled):
        raise exceptions.NotEnough(_TAKEN)
    emptying = {'takes_ordinary': False, 'state': hosts.State.EMPTYING, 'emptied_for': lease_id}
    db.update(session, host_id, {}, emptying)


def take_all(session: orm.Session, host_ids: Iterable[int], lease_id: str) -> None:
    """Mark shared hosts as being emptied for a lease, if that still waits for them."""
    lease = leases.find(session, lease_id, lock=True, parts=())
    if lease is not None and lease.status == states.LeaseStatus.IN_PROGRESS:
        for each in host_ids:
            take(session, each, lease_id)


def release(session: orm.Session, host_id: int, lease_id: str) -> None:
    """Mark a host as being given back, if it is emptied for this lease."""
    host = db.get(session, host_id, lock=True)
    if host.emptied_for == lease_id:
        shared_hosts.release(session, host)


def open_all(session: orm.Session, *, emptied: Iterable[int], lease_id: str) -> None:
    """Let hosts that were emptied for a lease take promises.

    :raises climate_core.exceptions.Transient: one is not emptied for it any more
    """
    for host_id in emptied:
        if db.get(session, host_id, lock=True).emptied_for != lease_id:
            raise exceptions.Transient(_LOST)
        enrolled = {'state': hosts.State.ENROLLED, 'emptied_for': None}
        db.update(session, host_id, {'available': True}, enrolled)
