# SPDX-License-Identifier: Apache-2.0
"""The operations on hosts: put them into a pool, look after them, and give them back.

A host of a pool takes no ordinary servers: its root provider in Placement is in the aggregate of
the pools. Servers of reservations enter by its lanes, see :mod:`climate_common.lanes`. All of it
is done with the service's own rights. Each step may be done again, so whoever repeats an operation
that was cut off finishes it. Lanes are kept when a host leaves: nova-compute remembers them, and
refuses every server of its host for minutes when one is gone.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log
from sqlalchemy import orm

from climate_common import dates
from climate_core import exceptions
from climate_core.calendar.model import Access
from climate_core.cloud import errors, hypervisors, placement
from climate_core.context import RequestContext
from climate_core.db import hosts as db
from climate_core.db.engine import TROUBLE, Database
from climate_core.lease import hosts
from climate_core.sync.host_refresh import learn

if TYPE_CHECKING:
    from openstack import connection

LOG = log.getLogger(__name__)

#: The hypervisor_type of the nodes of Ironic, which take one server.
_IRONIC = 'ironic'


class Cloud(Protocol):
    """Give the connection with the rights of the service, see ``climate_core.cloud``."""

    def service(self) -> 'connection.Connection': ...


@dataclasses.dataclass
class HostOperations:
    """Do what operators ask of hosts.

    All operations raise :class:`climate_core.exceptions.ServiceUnavailable` if Nova or Placement
    does not answer or does not let the service user do it, and
    :class:`climate_core.exceptions.HostNotFound` when there is no host with an id.
    """

    conf: cfg.ConfigOpts
    database: Database
    cloud: Cloud

    def create_host(self, context: RequestContext, values: Mapping[str, Any]) -> int:  # noqa: ARG002
        """Put a host into a pool.

        :param values: ``name`` of a node, or of the nova-compute of a single one; perhaps
            ``pool``, ``extra`` (properties by name), ``available`` (default true) and
            ``disabled_reason``
        :returns: the id of the host
        :raises climate_core.exceptions.UnknownHost: Nova has none of this name, or several
        :raises climate_core.exceptions.HostExists: it is in a pool already
        :raises climate_core.exceptions.HostInUse: it has servers
        """
        hosts.check_extra(values.get('extra', {}))
        _check_reason(values, values.get('available', True))
        with _answered():
            conn = self.cloud.service()
            node = _choose(hypervisors.find(conn, values['name']), values['name'])
            self._check_new(node['hypervisor_hostname'])
            _check_in_placement(conn, node)
            _check_empty(conn, node['id'])
            lane_ids = self._make_lanes(conn, node)
            return self._enrol(conn, node, lane_ids, values)

    def update_host(
        self,
        context: RequestContext,  # noqa: ARG002
        host_id: int,
        values: Mapping[str, Any],
    ) -> int:
        """Change what the operator says of a host, and read again what Nova and Placement say.

        :param values: any of ``pool``, ``available``, ``disabled_reason``, ``extra`` (properties
            by name; None takes one away)
        :returns: the id of the host
        """
        extra = values.get('extra', {})
        hosts.check_extra(extra)
        host = self.database.write(_change, host_id, values)
        try:
            conn = self.cloud.service()
            nodes = hypervisors.find(conn, host.hypervisor_hostname)
            rooms = placement.find_rooms(conn, host.provider_id)
            known = learn(conn, nodes, rooms).get(host.provider_id)
        except errors.EXPECTED as exc:
            # A host is also put out of use because something is broken.
            LOG.warning('Host %s was not read anew: %s', host.hypervisor_hostname, exc)
            return host_id
        if known is not None:
            self.database.write(db.refresh, host_id, known)
        return host_id

    def delete_host(self, context: RequestContext, host_id: int) -> None:  # noqa: ARG002
        """Take a host out of its pool, and give it back to ordinary servers.

        :raises climate_core.exceptions.HostInUse: it has servers, or is promised to reservations
        """
        host = self.database.read(db.get, host_id)
        with _answered():
            conn = self.cloud.service()
            _check_empty(conn, host.provider_id)
        self.database.write(_retire, host_id)
        with _answered():
            for lane_id in host.lane_ids:
                with contextlib.suppress(errors.Gone):
                    placement.close_lane(conn, lane_id)
            _check_empty(conn, host.provider_id)
            placement.remove_from_pool(conn, host.provider_id)
        self.database.write(db.delete, host_id)

    def set_host_property(self, context: RequestContext, name: str, private: bool) -> None:  # noqa: ARG002
        """Say whether users may see an extra property of hosts.

        :raises climate_core.exceptions.NotFound: no host has such a property
        """
        self.database.write(db.set_private, name, private)

    def set_host_pool(
        self,
        context: RequestContext,  # noqa: ARG002
        name: str,
        values: Mapping[str, Any],
    ) -> None:
        """Say who may use a pool, which may still have no hosts.

        :param values: ``project_ids`` and ``domain_ids``; none of both: everybody
        """
        access = Access(
            frozenset(values.get('project_ids', ())), frozenset(values.get('domain_ids', ()))
        )
        self.database.write(db.set_access, name, access.dump())

    def _check_new(self, hypervisor_hostname: str) -> None:
        found = self.database.read(db.find, hypervisor_hostname)
        if found is not None:
            raise exceptions.HostExists(
                f'{hypervisor_hostname} is host {found.id} of the pool {found.pool} already.',
                field='name',
            )

    def _make_lanes(
        self, conn: 'connection.Connection', node: Mapping[str, Any]
    ) -> tuple[str, ...]:
        placement.make_names(conn)
        count = 1 if node['hypervisor_type'] == _IRONIC else self.conf.hosts.lanes_per_host
        root = placement.Provider(node['id'], node['hypervisor_hostname'], node['id'])
        return tuple(placement.make_lane(conn, root, number) for number in range(count))

    def _enrol(
        self,
        conn: 'connection.Connection',
        node: Mapping[str, Any],
        lane_ids: tuple[str, ...],
        values: Mapping[str, Any],
    ) -> int:
        name, provider_id = node['hypervisor_hostname'], node['id']
        extra = values.get('extra', {})
        try:
            placement.add_to_pool(conn, provider_id)
            # One that was scheduled before may have come meanwhile.
            _check_empty(conn, provider_id)
            known = learn(conn, [node], placement.find_rooms(conn, provider_id))[provider_id]
            return self.database.write(
                db.insert,
                values.get('pool', hosts.DEFAULT_POOL),
                provider_id,
                lane_ids,
                known,
                {each: value for each, value in extra.items() if value is not None},
                values.get('disabled_reason'),
                values.get('available', True),
            )
        except BaseException as exc:
            host_id = self._undo(conn, name, provider_id)
            if host_id is None:
                raise
            if isinstance(exc, db_exc.DBDuplicateEntry):
                raise exceptions.HostExists(
                    f'{name} was put into a pool by another request, as host {host_id}.',
                    field='name',
                ) from exc
            if not isinstance(exc, TROUBLE):
                raise
            # The answer to the commit was lost.
            return host_id

    def _undo(self, conn: 'connection.Connection', name: str, provider_id: str) -> int | None:
        """Give a host back to ordinary servers, unless there is a row of it.

        :returns: the id in the row
        """
        try:
            found = self.database.read(db.find, name)
            if found is not None:
                return found.id
            placement.remove_from_pool(conn, provider_id)
        except (*errors.EXPECTED, *TROUBLE):
            LOG.exception(
                '%s is kept from ordinary servers, but was not enrolled. Enrol it again, or have '
                '"climate-manage repair" give it back',
                name,
            )
        return None


def _choose(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the one node that a name means.

    :raises climate_core.exceptions.UnknownHost: there is none, or there are several
    """
    if not found:
        raise exceptions.UnknownHost(f'name: Nova has no hypervisor {name}.', field='name')
    if len(found) > 1:
        nodes = ', '.join(sorted(each['hypervisor_hostname'] for each in found))
        raise exceptions.UnknownHost(
            f'name: {name} has several nodes, and each is a host: {nodes}.', field='name'
        )
    return found[0]


def _check_in_placement(conn: 'connection.Connection', node: Mapping[str, Any]) -> None:
    if not placement.has_provider(conn, node['id']):
        raise exceptions.UnknownHost(
            f'name: Placement does not know {node["hypervisor_hostname"]} yet. Try again when its '
            'nova-compute has reported it.',
            field='name',
        )


def _check_empty(conn: 'connection.Connection', provider_id: str) -> None:
    """Refuse a host that has servers; one that is gone has none."""
    try:
        found = placement.list_consumers(conn, provider_id)
    except errors.Gone:
        return
    if found:
        raise exceptions.HostInUse(
            f'The host has servers, or servers on their way to or from it: {len(found)}. Move or '
            f'delete them first. The first of them: {", ".join(found[:3])}.'
        )


def _check_reason(values: Mapping[str, Any], available: bool) -> None:
    if available and values.get('disabled_reason'):
        raise exceptions.BadRequest(
            'disabled_reason: goes with disabled: true, or with a host that is disabled.',
            field='disabled_reason',
        )


def _change(session: orm.Session, host_id: int, values: Mapping[str, Any]) -> hosts.Host:
    host = db.get(session, host_id, lock=True)
    available = values.get('available', host.available)
    # What its operator disables is not enabled when it is there again.
    kept = None if host.failed and 'available' in values else host.disabled_reason
    reason = values.get('disabled_reason', kept)
    _check_reason(values, available)
    extra = {**host.extra, **values.get('extra', {})}
    extra = {name: value for name, value in extra.items() if value is not None}
    unit = {
        'pool': values.get('pool', host.pool),
        'available': available,
        'properties': host.properties(extra),
    }
    if unit['pool'] != host.pool:
        unit['access'] = db.access(session, unit['pool'])
    told = {'extra': extra, 'disabled_reason': None if available else reason}
    db.update(session, host_id, unit, told)
    return host


def _retire(session: orm.Session, host_id: int) -> None:
    """Have a host take no more promises, or refuse if something is promised of it."""
    host = db.get(session, host_id, lock=True)
    promised = db.last_promise(session, host_id)
    if promised is not None:
        count, end = promised
        raise exceptions.HostInUse(
            f'Host {host.hypervisor_hostname} is promised to {count} reservations, the last until '
            f'{dates.serialize(end)}. Disable it to have no new ones, or end their leases.'
        )
    db.update(session, host_id, {'available': False}, {'disabled_reason': hosts.LEAVING})


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """Turn what Nova and Placement answer to the service itself into a 503 for its caller."""
    try:
        yield
    except exceptions.ClimateError:
        raise
    except errors.EXPECTED as exc:
        LOG.warning('An operation on a host failed: %s', exc)
        raise exceptions.ServiceUnavailable(str(exc)) from exc
