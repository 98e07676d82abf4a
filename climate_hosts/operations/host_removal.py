# SPDX-License-Identifier: Apache-2.0
"""Take a host out of its pool, and give it back to ordinary servers.

Each step may be done again, so a request that was cut off is finished by the same one again, see
:mod:`climate_hosts.operations.enrolment`.
"""

import contextlib
from typing import TYPE_CHECKING, Any

from sqlalchemy import orm

from climate_common import dates, words
from climate_core import exceptions
from climate_core.cloud import errors, placement
from climate_core.db import allocations
from climate_core.db.engine import Database
from climate_hosts.cloud import host_claims, lane_providers
from climate_hosts.db import hosts as db
from climate_hosts.domain import hosts
from climate_hosts.operations.enrolment import check_empty
from climate_hosts.watch import pool_aggregate

if TYPE_CHECKING:
    from climate_core.cloud import connections


def take_out(database: Database, conn: 'connections.Connection', host: hosts.Host) -> None:
    """Take a host out of its pool; ``HostOperations.delete_host`` says what is raised."""
    hosts.check_awake(host)
    if hosts.has_failed_to_wake(host):
        with contextlib.suppress(errors.Gone):
            host_claims.release(conn, host.provider_id)
    # Ordinary servers may have come to one that was given back, or that never was in a pool.
    must_be_empty = not host.is_new and (host.is_kept or _is_marked(conn, host))
    if must_be_empty and host.is_leaving:
        # An earlier request was cut off.
        _check_may_leave(database, conn, host)
    elif must_be_empty:
        check_empty(conn, host.provider_id)
    before = database.write(_retire, host.id)

    def is_ours(_aggregates: object = None) -> bool:
        # Another request may have ended this, and the host may have been enrolled again.
        return database.read(_is_leaving, host.id)

    for lane_id in host.lane_ids:
        with contextlib.suppress(errors.Gone):
            lane_providers.clear_lane_if(conn, lane_id, is_ours)
    if must_be_empty and is_ours():
        _check_may_leave(database, conn, before)
    pool_aggregate.update(database, conn, host.provider_id)
    database.write(_remove, host.id)


def _check_may_leave(
    database: Database, conn: 'connections.Connection', before: hosts.Host
) -> None:
    """Refuse to take out a host that has servers, and restore its row."""
    try:
        check_empty(conn, before.provider_id)
    except exceptions.HostInUse:
        if database.write(_stay, before):
            pool_aggregate.update(database, conn, before.provider_id)
        raise


def _is_marked(conn: 'connections.Connection', host: hosts.Host) -> bool:
    try:
        return placement.is_in_pool(conn, host.provider_id)
    except errors.Gone:
        return False


def _retire(session: orm.Session, host_id: int) -> hosts.Host:
    """Mark a host as leaving, so that it takes no promises; refuse if it has any.

    :returns: the host as it was
    """
    host = db.get(session, host_id, lock=True)
    hosts.check_not_evacuating(host)
    hosts.check_awake(host)
    promised = allocations.find_last_allocation(session, host_id)
    if promised is not None:
        count, end = promised
        raise exceptions.HostInUse(
            f'Host {host.hypervisor_hostname} is promised to '
            f'{words.counted(count, "reservation")}, the last until '
            f'{dates.sentence(end)}. Disable it to have no new ones, or end their leases.'
        )
    db.update(session, host_id, {'available': False}, {'state': hosts.State.LEAVING})
    return host


def _is_leaving(session: orm.Session, host_id: int) -> bool:
    with contextlib.suppress(exceptions.HostNotFound):
        return db.get(session, host_id).is_leaving
    return False


def _stay(session: orm.Session, before: hosts.Host) -> bool:
    """Restore the row of a host that could not be taken out.

    One that had been left in the middle of being taken out is disabled.

    :returns: whether it was being taken out
    """
    with contextlib.suppress(exceptions.HostNotFound):
        if db.get(session, before.id, lock=True).is_leaving:
            host: dict[str, Any] = {'state': before.state}
            if before.is_leaving:
                host = {'state': hosts.State.ENROLLED, 'disabled_reason': hosts.STAYING}
            db.update(session, before.id, {'available': before.available}, host)
            return True
    return False


def _remove(session: orm.Session, host_id: int) -> None:
    """Delete a host that is taken out; one that is gone is fine.

    :raises climate_core.exceptions.HostChanging: another request had it stay meanwhile
    """
    with contextlib.suppress(exceptions.HostNotFound):
        host = db.get(session, host_id, lock=True)
        if not host.is_leaving:
            raise exceptions.HostChanging(
                f'Host {host.hypervisor_hostname} was refused to another request to take it out '
                'meanwhile, and is in its pool. Try again.'
            )
        db.delete(session, host_id)
