# SPDX-License-Identifier: Apache-2.0
"""Do what operators ask of hosts: enrol them in pools, change them, and take them out.

A host of a pool takes no ordinary servers: its root provider in Placement is in the aggregate of
the pools. Servers of reservations enter by its lanes, see :mod:`climate_common.lanes`. All of it
is done with the service's own rights. Each step may be done again, so a request that was cut off
is finished by the same one again.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.model import Access
from climate_core.cloud import errors, hypervisors
from climate_core.context import RequestContext
from climate_core.db import extra_properties
from climate_core.db.engine import Database
from climate_core.operations.operator_registration import require_services
from climate_core.operations.services import ServiceConnector
from climate_hosts.db import host_reservations
from climate_hosts.db import hosts as db
from climate_hosts.domain import hosts
from climate_hosts.operations import enrolment, host_removal
from climate_hosts.watch.refresh import learn_one

LOG = log.getLogger(__name__)

_LEFT: Final = 'A lease that runs gave it up. It is looked at for servers that are left.'


@dataclasses.dataclass
class HostOperations:
    """Do what operators ask of hosts.

    All operations raise :class:`climate_core.exceptions.ServiceUnavailable` if Nova or Placement
    does not answer or does not let the service user do it, and
    :class:`climate_core.exceptions.HostNotFound` when there is no host with an id.

    :param pause: waits so many seconds
    """

    conf: cfg.ConfigOpts
    database: Database
    cloud: ServiceConnector
    pause: Callable[[float], None] = time.sleep

    def create_host(self, context: RequestContext, values: Mapping[str, Any]) -> int:  # noqa: ARG002
        """Enrol a host in a pool.

        :param values: ``name`` of a node, or of the nova-compute of a single one; perhaps
            ``pool``, ``extra`` (properties by name), ``available`` (default true),
            ``disabled_reason``, ``shared`` (default false): whether ordinary servers may run
            there until a lease needs it, and ``empty`` (default false): whether its servers are
            moved to other hosts first, which goes on afterwards; for one that is being emptied
            already nothing is done
        :returns: the id of the host
        :raises climate_core.exceptions.UnknownHost: Nova has none of this name, or several
        :raises climate_core.exceptions.HostExists: it is in a pool already
        :raises climate_core.exceptions.HostChanging: it is being emptied, and another request
            than that is made
        :raises climate_core.exceptions.HostInUse: it has servers, or one came meanwhile, or they
            cannot be moved; the host takes ordinary servers as before
        """
        hosts.check_extra(values.get('extra', {}))
        hosts.check_disabled_reason(values.get('disabled_reason'), values.get('available', True))
        enrolment.check_empty_request(values)
        with require_services():
            conn = self.cloud.service()
            return enrolment.enrol(self.conf, self.database, conn, values, self.pause)

    def update_host(
        self,
        context: RequestContext,  # noqa: ARG002
        host_id: int,
        values: Mapping[str, Any],
    ) -> int:
        """Change what the operator says of a host, and read again what Nova and Placement say.

        :param values: any of ``pool``, ``available``, ``disabled_reason``, ``kept_on`` (whether it
            never sleeps), ``extra`` (properties by name; None takes one away)
        :returns: the id of the host
        :raises climate_core.exceptions.HostChanging: it is being enrolled, or taken out
        """
        extra = values.get('extra', {})
        for name in ('shared', 'empty'):
            if name in extra:
                raise exceptions.BadRequest(
                    f'{name}: is said when a host is put into a pool. Delete the host, and create '
                    'it again.',
                    field=name,
                )
        hosts.check_extra(extra)
        host = self.database.write(_change, host_id, values)
        try:
            conn = self.cloud.service()
            nodes = hypervisors.find(conn, host.hypervisor_hostname)
            known = learn_one(conn, nodes, host.provider_id)
        except errors.EXPECTED as exc:
            # A host is also put out of use because something is broken.
            LOG.warning('Host %s was not read anew: %s', host.hypervisor_hostname, exc)
            return host_id
        if known is not None:
            self.database.write(db.refresh, host_id, known)
        return host_id

    def delete_host(self, context: RequestContext, host_id: int) -> None:  # noqa: ARG002
        """Take a host out of its pool, and give it back to ordinary servers.

        :raises climate_core.exceptions.HostInUse: it has servers, or is promised to reservations;
            it stays as it is
        :raises climate_core.exceptions.HostChanging: it is being emptied for a lease
        """
        host = self.database.read(db.get, host_id)
        with require_services():
            host_removal.take_out(self.database, self.cloud.service(), host)

    def set_host_property(self, context: RequestContext, name: str, private: bool) -> None:  # noqa: ARG002
        """Set whether users may see an extra property of hosts.

        :raises climate_core.exceptions.NotFound: no host has such a property
        """
        self.database.write(extra_properties.HOSTS.set_private, name, private)

    def set_host_pool(
        self,
        context: RequestContext,  # noqa: ARG002
        name: str,
        values: Mapping[str, Any],
    ) -> None:
        """Set which projects may use a pool, which may have no hosts yet.

        :param values: ``project_ids`` and ``domain_ids``; none of both: everybody; perhaps
            ``generation``: that the pool must have
        :raises climate_core.exceptions.HostPoolChanged: it has another one by now
        """
        access = Access(
            frozenset(values.get('project_ids', ())), frozenset(values.get('domain_ids', ()))
        )
        self.database.write(db.set_pool_access, name, access.dump(), values.get('generation'))

    def delete_host_pool(self, context: RequestContext, name: str) -> None:  # noqa: ARG002
        """Delete a pool, and its list of projects.

        :raises climate_core.exceptions.HostPoolNotFound: there is none
        :raises climate_core.exceptions.HostPoolInUse: it has hosts
        """
        self.database.write(db.delete_pool, name)


def _change(session: orm.Session, host_id: int, values: Mapping[str, Any]) -> hosts.Host:
    host = db.get(session, host_id, lock=True)
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
        'available': available and not host.takes_ordinary,
        'properties': host.properties(extra),
    }
    if unit['pool'] != host.pool:
        unit['access'] = db.lock_pool_access(session, unit['pool'])
    if host.takes_ordinary:
        reason = reason or hosts.DISABLED
    told = {'extra': extra, 'disabled_reason': None if available else reason}
    told['kept_on'] = values.get('kept_on', host.kept_on)
    if available and not (host.available or host.takes_ordinary) and _may_have_left(session, host):
        # What looks after hosts that failed puts it into use when it is up and empty.
        unit['available'] = False
        left = host.disabled_reason if host.failed else _LEFT
        told |= {'state': hosts.State.FAILED, 'disabled_reason': left}
    elif host.failed and values.keys() & {'available', 'disabled_reason'}:
        # The host is disabled by its operator from now on, and not because it failed.
        told['state'] = hosts.State.ENROLLED
    db.update(session, host_id, unit, told)
    return host


def _may_have_left(session: orm.Session, host: hosts.Host) -> bool:
    """Tell whether servers may be there of leases that gave a host up, because it had failed."""
    return host.failed or any(
        each.released for each in host_reservations.list_reserved(session, [host.id])
    )


def _check_settled(host: hosts.Host) -> None:
    """Refuse to change a host that is being put into a pool, or taken out of it."""
    name = host.hypervisor_hostname
    if host.is_leaving:
        raise exceptions.HostChanging(
            f'Host {name} is being taken out of its pool. Delete it again to finish that; to have '
            'it in a pool, enrol it afterwards.'
        )
    hosts.check_not_evacuating(host)
    if host.is_returning:
        raise exceptions.HostChanging(
            f'Host {name} is being given back to ordinary servers. Try again.'
        )
    if host.is_emptied:
        raise hosts.draining_error(host)
    if host.is_new:
        raise exceptions.HostChanging(
            f'Host {name} is not enrolled yet. Wait for the request that does so, or repeat it; '
            'delete the host to give it up.'
        )
