# SPDX-License-Identifier: Apache-2.0
"""Ask Nova for a server that is made for its lease, and watch its build.

Nova lists a server with its tags as soon as it has answered, before there is a host for it
(nova/objects/build_request.py ``_pass_exact_filters``).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import resource_spec
from climate_core.plugins.base import PollAgain
from climate_core.plugins.server import lost_tasks, room, specification
from climate_core.plugins.step_context import StepContext

if TYPE_CHECKING:
    from climate_core.lease.model import Reservation

LOG = log.getLogger(__name__)

#: What Nova says if there is no host (nova/exception.py NoValidHost).
_NO_HOST: Final = 'No valid host'
_COMING: Final = frozenset({'BUILD', 'UNKNOWN'})


def check(context: StepContext, server: Mapping[str, Any]) -> str | None:
    """Return what is waited for until a server that was made is RESERVED; None when it is.

    One that a host builds is waited for until the end of the lease, since the host may go on with
    it: Nova itself gives up a build, after [DEFAULT] instance_build_timeout. So is one in a cell
    that does not answer (UNKNOWN). The user is told after
    :data:`climate_core.plugins.step_context.LONG_WAIT_SECONDS`.

    :raises climate_core.exceptions.Permanent: Nova could not make it
    """
    status = server['status']
    if status == 'ERROR':
        told = str((server.get('fault') or {}).get('message') or 'Nova does not say why')
        kind = exceptions.NoCapacity if _NO_HOST in told else exceptions.Permanent
        raise kind(failed(context.reservation, told.strip() + _lacking(context, told)))
    return f'The server has been {status}' if status in _COMING else None


def is_unbegun(server: Mapping[str, Any]) -> bool:
    """Tell whether no host has begun to build a server."""
    return server['status'] == 'BUILD' and not server.get('hostId')


def delete_lost(context: StepContext, server: Mapping[str, Any]) -> PollAgain:
    """Delete a server that no host has begun to build, or wait until it is gone."""
    context = context.seeing(server['status'], server.get('OS-EXT-STS:task_state'))
    if lost_tasks.is_deleting(server):
        return lost_tasks.wait(context, server)
    servers.delete(context.conn, server['id'])
    return context.wait()


def _lacking(context: StepContext, told: str) -> str:
    """Return what the hosts have too little of, if Nova found none, which does not tell that."""
    if _NO_HOST not in told:
        return ''
    wanted = resource_spec.merge_spec(context.lease, context.reservation, specification.KEY)
    try:
        found = room.lacking(context.service, wanted)
    except errors.EXPECTED as exc:
        LOG.info('What there is too little of for %s is not known: %s', wanted['name'], exc)
        return ''
    return f' {found}' if found else ''


def failed(reservation: 'Reservation', reason: str) -> str:
    """Say which server could not be made, and why."""
    name = reservation.params[specification.KEY]['name']
    held = reservation.amounts
    size = f'{held.get("vcpus", 0)} VCPUs, {held.get("memory_mb", 0)} MB of memory'
    if held.get('disk_gb'):
        size += f', {held["disk_gb"]} GB of disk'
    return f'The server {name} ({size}) could not be made: {reason}'
