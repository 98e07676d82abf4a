# SPDX-License-Identifier: Apache-2.0
"""Change hosts of the pools, and remove them; :mod:`.enrolment` adds them.

A host of a pool takes no ordinary servers: its root provider in Placement is in the aggregate of
the pools. Servers of reservations enter by its lanes, see :mod:`climate_common.lanes`. Nova and
Placement are called with the rights of the service. Each step may be repeated, so an interrupted
request is finished by the same request again.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_common import dates, words
from climate_core import exceptions
from climate_core.calendar.model import Access
from climate_core.cloud import Cloud, errors
from climate_core.cloud.connections import Connection
from climate_core.context import RequestContext
from climate_core.db import registered_units
from climate_core.db.engine import Database
from climate_core.operations.remote import remote
from climate_hosts import hosts, lane_providers, nova, placement, policies
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.operations import enrolment
from climate_hosts.watch import isolation
from climate_hosts.watch.refresh import read_node, write_node

LOG = log.getLogger(__name__)

_RELEASED: Final = 'An active lease released it. Climate checks it for servers that are left.'


@dataclasses.dataclass
class HostOperations:
    """Manage the hosts of the pools for operators.

    All operations raise :class:`climate_core.exceptions.ServiceUnavailable` if Nova or Placement
    does not answer or does not let the service user do it, and
    :class:`climate_core.exceptions.HostNotFound` when there is no host with an id.

    :param pause: waits a number of seconds
    """

    conf: cfg.ConfigOpts
    database: Database
    cloud: Cloud
    pause: Callable[[float], None] = time.sleep

    @remote(policies.CREATE, for_operators=True, writes=True)
    def create_host(self, context: RequestContext, values: Mapping[str, Any]) -> int:  # noqa: ARG002
        """Enrol a host in a pool.

        :param values: ``name`` of a node, or of the nova-compute of a single one; perhaps
            ``pool``, ``extra`` (properties by name), ``available`` (default true),
            ``disabled_reason``, ``shared`` (default false): whether ordinary servers may run
            there until a lease needs it, and ``empty`` (default false): whether its servers are
            moved to other hosts first, which continues afterwards; for a host that is being
            drained already nothing is done
        :returns: the id of the host
        :raises climate_core.exceptions.UnknownHost: Nova has none of this name, or several
        :raises climate_core.exceptions.HostExists: it is in a pool already
        :raises climate_core.exceptions.HostChanging: it is being drained, and this request
            differs from that one
        :raises climate_core.exceptions.HostInUse: it has servers, or a server came
            concurrently, or they cannot be moved; the host takes ordinary servers as before
        """
        hosts.check_extra(values.get('extra', {}))
        hosts.check_disabled_reason(values.get('disabled_reason'), values.get('available', True))
        enrolment.check_empty_request(values)
        with errors.require_services():
            conn = self.cloud.service()
            return enrolment.enrol(self.conf, self.database, conn, values, self.pause)

    @remote(policies.UPDATE, for_operators=True, writes=True)
    def update_host(
        self,
        context: RequestContext,  # noqa: ARG002
        host_id: int,
        values: Mapping[str, Any],
    ) -> int:
        """Change a host, and read its description from Nova and Placement again.

        :param values: any of ``pool``, ``available``, ``disabled_reason``, ``kept_on`` (whether it
            is never powered off), ``extra`` (properties by name; None removes one)
        :returns: the id of the host
        :raises climate_core.exceptions.HostChanging: it is being enrolled, or removed
        """
        extra = values.get('extra', {})
        for name in ('shared', 'empty'):
            if name in extra:
                raise exceptions.BadRequest(
                    f'{name}: can be set only when a host is added to a pool. Delete the host, '
                    'and create it again.',
                    field=name,
                )
        hosts.check_extra(extra)
        host = self.database.write(_update, host_id, values)
        try:
            conn = self.cloud.service()
            nodes = nova.find_hypervisors(conn, host.hypervisor_hostname)
            node = read_node(conn, nodes, host.provider_id)
        except errors.EXPECTED as exc:
            # A host is also disabled because something is broken.
            LOG.warning('Host %s could not be refreshed: %s', host.hypervisor_hostname, exc)
            return host_id
        if node is not None:
            self.database.write(write_node, host_id, node)
        return host_id

    @remote(policies.DELETE, for_operators=True)
    def delete_host(self, context: RequestContext, host_id: int) -> None:  # noqa: ARG002
        """Remove a host from its pool, and return it to ordinary servers.

        :raises climate_core.exceptions.HostInUse: it has servers, or is allocated to
            reservations; it stays as it is
        :raises climate_core.exceptions.HostChanging: it is being drained for a lease
        """
        host = self.database.read(db.HOSTS.get, host_id)
        with errors.require_services():
            remove_host(self.database, self.cloud.service(), host)

    @remote(policies.UPDATE_PROPERTIES, for_operators=True)
    def set_host_property(self, context: RequestContext, name: str, private: bool) -> None:  # noqa: ARG002
        """Set whether users may see an extra property of hosts.

        :raises climate_core.exceptions.NotFound: no host has such a property
        """
        self.database.write(db.HOSTS.set_private, name, private)

    @remote(policies.UPDATE_POOLS, for_operators=True)
    def set_host_pool(
        self,
        context: RequestContext,  # noqa: ARG002
        name: str,
        values: Mapping[str, Any],
    ) -> None:
        """Set which projects may use a pool, which may have no hosts yet.

        :param values: ``project_ids`` and ``domain_ids``; none of both: all projects; perhaps
            ``generation``: that the pool must have
        :raises climate_core.exceptions.HostPoolChanged: it has another one by now
        """
        access = Access(
            frozenset(values.get('project_ids', ())), frozenset(values.get('domain_ids', ()))
        )
        self.database.write(db.set_pool_access, name, access.dump(), values.get('generation'))

    @remote(policies.DELETE_POOLS, for_operators=True)
    def delete_host_pool(self, context: RequestContext, name: str) -> None:  # noqa: ARG002
        """Delete a pool, and its list of projects.

        :raises climate_core.exceptions.HostPoolNotFound: there is none
        :raises climate_core.exceptions.HostPoolInUse: it has hosts
        """
        self.database.write(db.delete_pool, name)


def _update(session: orm.Session, host_id: int, values: Mapping[str, Any]) -> hosts.Host:
    host = db.HOSTS.get(session, host_id, lock=True)
    _check_settled(host)
    available = values.get('available', host.is_enabled)
    # A host that its operator disables stays disabled when its nova-compute is up again.
    kept = None if host.failed and 'available' in values else host.disabled_reason
    reason = values.get('disabled_reason', kept)
    hosts.check_disabled_reason(values.get('disabled_reason'), available)
    extra = {**host.extra, **values.get('extra', {})}
    extra = {name: value for name, value in extra.items() if value is not None}
    unit = {
        'pool': values.get('pool', host.pool),
        'available': available and not host.open_to_unreserved,
        'properties': host.properties(extra),
    }
    if unit['pool'] != host.pool:
        unit['access'] = db.lock_pool_access(session, unit['pool'])
    if host.open_to_unreserved:
        reason = reason or hosts.DISABLED
    columns = {'extra': extra, 'disabled_reason': None if available else reason}
    columns['kept_on'] = values.get('kept_on', host.kept_on)
    if (
        available
        and not (host.available or host.open_to_unreserved)
        and _may_have_left(session, host)
    ):
        # The watch of failures puts it into use when it is up and empty.
        unit['available'] = False
        left = host.disabled_reason if host.failed else _RELEASED
        columns |= {'state': hosts.State.FAILED, 'disabled_reason': left}
    elif host.failed and values.keys() & {'available', 'disabled_reason'}:
        # The host is disabled by its operator from now on, and not because it failed.
        columns['state'] = hosts.State.ENROLLED
    db.HOSTS.update(session, host_id, unit, columns)
    return host


def _may_have_left(session: orm.Session, host: hosts.Host) -> bool:
    """Return whether servers of leases that released the host when it failed may be left."""
    return host.failed or any(
        row.released for row in host_reservations.list_reserved(session, [host.id])
    )


def _check_settled(host: hosts.Host) -> None:
    """Reject a change of a host that is being added to a pool, or removed from it."""
    name = host.hypervisor_hostname
    if host.is_leaving:
        raise exceptions.HostChanging(
            f'Host {name} is being removed from its pool. Delete it again to finish that; to have '
            'it in a pool, enrol it afterwards.'
        )
    hosts.check_not_evacuating(host)
    if host.is_returning:
        raise exceptions.HostChanging(
            f'Host {name} is being returned to ordinary servers. Try again.'
        )
    if host.is_draining:
        raise hosts.draining_error(host)
    if host.is_new:
        raise exceptions.HostChanging(
            f'Host {name} is not enrolled yet. Wait for the request that does so, or repeat it; '
            'delete the host to cancel.'
        )


def remove_host(database: Database, conn: Connection, host: hosts.Host) -> None:
    """Remove a host from its pool; raises the errors of ``HostOperations.delete_host``."""
    hosts.check_awake(host)
    if hosts.has_failed_to_wake(host):
        with contextlib.suppress(errors.Gone):
            lane_providers.release_host(conn, host.provider_id)
    # Ordinary servers may be on a host that was returned, or that never was in a pool.
    must_be_empty = not host.is_new and (host.is_isolated or _is_isolated(conn, host))
    if must_be_empty and host.is_leaving:
        # An earlier request was cut off.
        _check_may_leave(database, conn, host)
    elif must_be_empty:
        enrolment.check_empty(conn, host.provider_id)
    before = database.write(_mark_leaving, host.id)

    for lane_id in host.lane_ids:
        with contextlib.suppress(errors.Gone):
            _clear_lane(database, conn, host.id, lane_id)
    if must_be_empty and database.read(_is_leaving, host.id):
        _check_may_leave(database, conn, before)
    isolation.update_isolation(database, conn, host.provider_id)
    database.write(_delete, host.id)


def _clear_lane(database: Database, conn: Connection, host_id: int, lane_id: str) -> None:
    """Close a lane of a host that is being removed.

    Another request may have ended that, and the host may have been enrolled again.

    :raises climate_core.cloud.errors.Busy: other processes always changed it first
    """
    for _ in range(placement.TRIES):
        found = lane_providers.read_access(conn, lane_id)
        if not database.read(_is_leaving, host_id):
            return
        if lane_providers.clear_unchanged(conn, lane_id, found):
            return
    raise errors.Busy(f'Concurrent changes of lane {lane_id} exhausted the retries.')


def _check_may_leave(database: Database, conn: Connection, before: hosts.Host) -> None:
    """Reject the removal of a host that has servers, and restore its row."""
    try:
        enrolment.check_empty(conn, before.provider_id)
    except exceptions.HostInUse:
        if database.write(_restore, before):
            isolation.update_isolation(database, conn, before.provider_id)
        raise


def _is_isolated(conn: Connection, host: hosts.Host) -> bool:
    try:
        return placement.is_in_pool(conn, host.provider_id)
    except errors.Gone:
        return False


def _mark_leaving(session: orm.Session, host_id: int) -> hosts.Host:
    """Mark a host as leaving, so that it takes no allocations; reject if it has any.

    :returns: the host as it was
    """
    host = db.HOSTS.get(session, host_id, lock=True)
    hosts.check_not_evacuating(host)
    hosts.check_awake(host)
    last = registered_units.find_last_allocation(session, host_id)
    if last is not None:
        count, end = last
        raise exceptions.HostInUse(
            f"Can't delete host {host_id}. The host is reserved. "
            f'{host.hypervisor_hostname} is allocated to '
            f'{words.counted(count, "reservation")}, the last until '
            f'{dates.sentence(end)}. Disable it to stop new allocations, or end their leases.'
        )
    db.HOSTS.update(session, host_id, {'available': False}, {'state': hosts.State.LEAVING})
    return host


def _is_leaving(session: orm.Session, host_id: int) -> bool:
    found = db.HOSTS.find(session, db.HOSTS.table.c.unit_id == host_id)
    return any(host.is_leaving for host in found)


def _restore(session: orm.Session, before: hosts.Host) -> bool:
    """Restore the row of a host that could not be removed.

    A host whose removal was interrupted before is disabled.

    :returns: whether it was being removed
    """
    reason = {'disabled_reason': hosts.STAYING} if before.is_leaving else {}
    state = hosts.State.ENROLLED if before.is_leaving else before.state
    return db.change_state(
        session, before.id, (hosts.State.LEAVING,), state, before.available, **reason
    )


def _delete(session: orm.Session, host_id: int) -> None:
    """Delete a host that is being removed; it may be gone already.

    :raises climate_core.exceptions.HostChanging: a concurrent removal was rejected
    """
    host = db.lock(session, host_id)
    if host is not None and not host.is_leaving:
        raise exceptions.HostChanging(
            f'Host {host.hypervisor_hostname} could not be removed by a concurrent request, and '
            'is in its pool. Try again.'
        )
    db.HOSTS.delete(session, host_id)
