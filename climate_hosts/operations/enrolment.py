# SPDX-License-Identifier: Apache-2.0
"""Enrol a host in a pool.

The row of a host states what is being done with it, before it is done: a host that is being
enrolled or removed (:mod:`climate_hosts.operations.hosts`) takes no allocations. Its aggregate in
Placement follows the row, see :mod:`climate_hosts.watch.isolation`. So two concurrent requests, or
a request after an interrupted request, end with a host that is in a pool as a whole or not at all.
Lanes stay when a host leaves: nova-compute remembers them, and rejects every server of its host
for minutes when a lane is gone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import create_names
from climate_core.db.engine import DATABASE_ERRORS, Database, signal
from climate_core.plugins import server_placement
from climate_core.plugins.server_placement import CannotDrainHosts
from climate_hosts import hosts, lane_providers, nodes, nova, placement
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.db.host_reservations import SharedHost
from climate_hosts.operations import draining
from climate_hosts.watch import isolation
from climate_hosts.watch.refresh import read_node

LOG = log.getLogger(__name__)

#: The hypervisor_type of the nodes of Ironic, which take one server.
_IRONIC = 'ironic'


def enrol(
    conf: cfg.ConfigOpts,
    database: Database,
    conn: Connection,
    values: Mapping[str, Any],
    pause: Callable[[float], None],
) -> int:
    """Enrol a host in a pool.

    :param values: of ``HostOperations.create_host``, which raises the same errors
    :param pause: waits a number of seconds
    :returns: the id of the host
    """
    node = _choose(nova.find_hypervisors(conn, values['name']), values['name'])
    name, provider_id = node['hypervisor_hostname'], node['id']
    before = database.read(db.find, name)
    if before is not None:
        if _is_repeated(before, values):
            return before.id
        _check_half_enrolled(before)
    shared, empty = bool(values.get('shared')), bool(values.get('empty'))
    try:
        _check_ready(conn, name, provider_id, may_have_servers=shared or empty)
        if empty:
            _check_movable(conf, database, conn, node)
    except (exceptions.UnknownHost, exceptions.HostInUse):
        if before is not None:
            # Else the rest of an interrupted enrolment would keep ordinary servers off.
            _abandon(database, conn, before.id, name, before.provider_id)
        raise
    lane_ids = _create_lanes(conf, conn, node)
    known = read_node(conn, [node], provider_id)
    if known is None:
        raise errors.Gone(f'Placement does not have host {name} any more.')
    try:
        host_id = database.write(_begin, provider_id, lane_ids, known, values)
    except db_exc.DBDuplicateEntry as exc:
        raise _taken_over(name) from exc
    try:
        if isolation.update_isolation(database, conn, provider_id):
            # A server that was scheduled before claims the host a moment later.
            pause(conf.hosts.enrol_seconds)
            if not empty:
                check_empty(conn, provider_id)
        elif not shared:
            raise _taken_over(name)
        database.write(_complete, host_id, name, values)
    except Exception as exc:
        completed = _abandon(database, conn, host_id, name, provider_id)
        if not (completed and isinstance(exc, DATABASE_ERRORS)):
            raise
        # The transaction was committed; only the answer to its COMMIT was lost.
    return host_id


def _choose(providers: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the only node with a name.

    :raises climate_core.exceptions.UnknownHost: there is none, or there are several
    """
    if not providers:
        raise exceptions.UnknownHost(f'name: Nova has no hypervisor {name}.', field='name')
    if len(providers) > 1:
        listed = ', '.join(sorted(node['hypervisor_hostname'] for node in providers))
        raise exceptions.UnknownHost(
            f'name: {name} has several nodes, and each is a host: {listed}.', field='name'
        )
    return providers[0]


def _is_repeated(host: hosts.Host, values: Mapping[str, Any]) -> bool:
    """Return whether the same request is draining the host now."""
    requested = values.get('pool', hosts.DEFAULT_POOL), _extra(values)
    return host.is_draining and bool(values.get('empty')) and requested == (host.pool, host.extra)


def _check_half_enrolled(host: hosts.Host) -> None:
    """Reject a new enrolment unless the previous one was interrupted, or is in progress.

    :raises climate_core.exceptions.HostExists: it is in a pool
    :raises climate_core.exceptions.HostChanging: it is being drained
    """
    if host.is_half_enrolled:
        return
    if host.is_draining:
        raise hosts.draining_error(host)
    doing = 'is being removed from' if host.is_leaving else 'is in'
    raise exceptions.HostExists(
        f'{host.hypervisor_hostname} is host {host.id}, which {doing} the pool {host.pool} '
        'already.',
        field='name',
    )


def _taken_over(name: str) -> exceptions.HostExists:
    return exceptions.HostExists(
        f'{name} is being added to a pool, or removed from it, by another request. Check it when '
        'that has ended.',
        field='name',
    )


def check_empty_request(values: Mapping[str, Any]) -> None:
    """Reject a request to drain a host that is shared or disabled.

    :raises climate_core.exceptions.BadRequest: naming the field
    """
    if values.get('empty') and (values.get('shared') or not values.get('available', True)):
        raise exceptions.BadRequest(
            'empty: is accepted only for a host that is neither shared nor disabled.',
            field='empty',
        )


def _check_movable(
    conf: cfg.ConfigOpts,
    database: Database,
    conn: Connection,
    node: Mapping[str, Any],
) -> None:
    """Reject a host whose servers cannot be moved, or do not fit on other hosts."""
    host = SharedHost(0, node['hypervisor_hostname'], node['service']['host'], node['id'])
    moving = [
        host
        for host in database.read(host_reservations.list_evacuating)
        if host.provider_id != node['id']
    ]
    try:
        server_placement.choose_hosts(
            [draining.read_candidate(conn, host)],
            1,
            draining.Hypervisors(conn).targets(),
            spares=conf.queue.spare_servers,
            moving=list(draining.read_candidates(conn, moving)),
        )
    except CannotDrainHosts as exc:
        raise exceptions.HostInUse(
            f'Host {host.name} cannot be drained. {exc.why} Move or delete them first.'
        ) from exc


def _check_ready(conn: Connection, name: str, provider_id: str, may_have_servers: bool) -> None:
    """Reject a host that Placement lacks yet, or that has servers and may have none."""
    if not placement.has_provider(conn, provider_id):
        raise exceptions.UnknownHost(
            f'name: Placement does not have {name} yet. Try again when its nova-compute has '
            'reported it.',
            field='name',
        )
    if not may_have_servers:
        check_empty(conn, provider_id)


def check_empty(conn: Connection, provider_id: str) -> None:
    """Reject a host that has servers; a host that is gone has none."""
    try:
        found = placement.list_consumers(conn, provider_id)
    except errors.Gone:
        return
    if found:
        raise exceptions.HostInUse(
            f'The host has servers, or servers that move to or from it: {len(found)}. Move or '
            f'delete them first. The first of them: {", ".join(found[:3])}.'
        )


def _create_lanes(
    conf: cfg.ConfigOpts, conn: Connection, node: Mapping[str, Any]
) -> tuple[str, ...]:
    create_names(conn)
    count = 1 if node['hypervisor_type'] == _IRONIC else conf.hosts.lanes_per_host
    root = placement.Provider(node['id'], node['hypervisor_hostname'], node['id'])
    return tuple(lane_providers.create_lane(conn, root, number) for number in range(count))


def _begin(
    session: orm.Session,
    provider_id: str,
    lane_ids: tuple[str, ...],
    node: nodes.Node,
    values: Mapping[str, Any],
) -> int:
    """Write a host that is being enrolled; return its id.

    It has another id than a host whose enrolment was interrupted, so that the request that
    started that enrolment, if it continues, finds that the host is not its own any more.

    :raises climate_core.exceptions.HostExists: it is in a pool by now
    :raises climate_core.exceptions.HostChanging: it is being drained by now
    :raises oslo_db.exception.DBDuplicateEntry: another request has just started
    """
    before = db.find(session, node.hypervisor_hostname)
    # It may have been enrolled since it was found; only with the lock that is known.
    before = before and db.lock(session, before.id)
    if before is not None:
        _check_half_enrolled(before)
        db.HOSTS.delete(session, before.id)
    return db.insert(
        session,
        values.get('pool', hosts.DEFAULT_POOL),
        provider_id,
        lane_ids,
        node,
        _extra(values),
        hosts.State.ENROLLING,
        False,
        True if values.get('shared') else None,
    )


def _extra(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.get('extra', {}).items() if value is not None}


def _complete(session: orm.Session, host_id: int, name: str, values: Mapping[str, Any]) -> None:
    """Mark a host as enrolled, to take allocations, unless another request has it by now."""
    if db.lock(session, host_id, hosts.State.ENROLLING) is None:
        raise _taken_over(name)
    available, reason = values.get('available', True), values.get('disabled_reason')
    if values.get('shared'):
        # Nothing is allocated of it while ordinary servers may run there.
        available, reason = False, None if available else reason or hosts.DISABLED
    state = hosts.State.ENROLLED
    if values.get('empty'):
        # It takes allocations when it is empty.
        available, state = False, hosts.State.EMPTYING
        signal(session, host_reservations.DRAINING)
    unit = {'available': available}
    # No operator has changed it yet.
    host = {'state': state, 'disabled_reason': reason, 'updated_at': None}
    db.HOSTS.update(session, host_id, unit, host)


def _abandon(
    database: Database, conn: Connection, host_id: int, name: str, provider_id: str
) -> bool:
    """Let ordinary servers onto a host again, unless it is enrolled or another request has it.

    :returns: whether it is enrolled
    """
    try:
        # Not if it is enrolled, or another request has it.
        if database.write(db.change_state, host_id, hosts.HALF_ENROLLED, hosts.State.NOT_ENROLLED):
            isolation.update_isolation(database, conn, provider_id)
            database.write(_forget, host_id)
            return False
        isolation.update_isolation(database, conn, provider_id)
        found = database.read(db.find, name)
        return found is not None and found.id == host_id and not found.is_leaving
    except (*errors.EXPECTED, *DATABASE_ERRORS):
        LOG.exception(
            '%s was not enrolled, and may be kept from ordinary servers. Enrol it again, or '
            'delete it',
            name,
        )
        return False


def _forget(session: orm.Session, host_id: int) -> None:
    """Delete a host that could not be enrolled, unless it is being removed by now."""
    if db.lock(session, host_id, *hosts.HALF_ENROLLED) is not None:
        db.HOSTS.delete(session, host_id)
