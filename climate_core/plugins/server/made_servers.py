# SPDX-License-Identifier: Apache-2.0
"""Make a server for its lease, with the rights of the owner, as the owner would.

It is RESERVED, so that all that reserved servers have holds for it. That it is about to be asked
for is written down first. It is looked up by its tag before it is asked for, so however often a
manager dies there is one server: Nova lists a server with its tags as soon as it has answered,
before there is a host for it (nova/objects/build_request.py ``_pass_exact_filters``).

A server whose build no host has begun for long is made again: its message was lost. First the
reservation has no server any more, so that nobody takes the deletion of this one for a loss.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_log import log
from oslo_utils import uuidutils

from climate_common import hints
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.lease import model
from climate_core.plugins import lost
from climate_core.plugins.base import Wait
from climate_core.plugins.progress import END, Progress
from climate_core.plugins.server import lost_tasks, room, specification
from climate_core.plugins.step_context import AT_ONCE, EndContext, StepContext

if TYPE_CHECKING:
    from climate_core.lease.model import Reservation

LOG = log.getLogger(__name__)

#: What Nova says if there is no host (nova/exception.py NoValidHost).
_NO_HOST: Final = 'No valid host'
#: What is written down before a server is asked for.
_ASK: Final = 'server'
#: What is written down before a server is deleted that is made again.
_REMAKE: Final = 'remake'
#: Seconds after which nothing comes any more of a request whose answer nobody has seen.
IN_FLIGHT: Final = 60.0
_COMING: Final = frozenset({'BUILD', 'UNKNOWN'})


def make(context: StepContext, keys: Sequence[str]) -> Wait:
    """Take the next step to a server that is not there yet.

    :param keys: those that open what is secret
    """
    if context.progress.asked == _REMAKE:
        return _delete_lost(context)
    if context.progress.asked != _ASK:
        return context.rest() or context.intend(_ASK)
    reservation, conn = context.reservation, context.conn
    found = servers.find(conn, specification.tag(reservation), every_project=False)
    if found is None:
        told = {
            **reservation.params[specification.KEY].get(specification.HINTS, {}),
            hints.RESERVED: 'True',
            hints.LEASE_ID: context.lease.id,
            hints.MADE_FOR: reservation.id,
        }
        wanted = specification.body(context.lease, reservation, keys)
        try:
            found = servers.create(conn, wanted, told)
        except errors.Gone as exc:
            raise exceptions.Permanent(_failed(reservation, str(exc))) from exc
        except exceptions.Permanent as exc:
            raise exceptions.Permanent(_failed(reservation, str(exc))) from exc
    progress = context.progress.with_request('build', context.now).dump()
    return Wait(AT_ONCE, None, progress, resource_id=found)


def watch(context: StepContext, server: Mapping[str, Any]) -> Wait | None:
    """Wait until a server that was made is RESERVED.

    One that a host builds is waited for without an end, since the host may go on with it: Nova
    itself gives up a build, after [DEFAULT] instance_build_timeout. So is one in a cell that does
    not answer (UNKNOWN). The user is told after
    :data:`climate_core.plugins.step_context.LONG`.

    :raises climate_core.exceptions.Permanent: Nova could not make it
    """
    status, task = server['status'], server.get('OS-EXT-STS:task_state')
    context = context.seeing(status, task)
    if status == 'ERROR':
        told = str((server.get('fault') or {}).get('message') or 'Nova does not say why')
        kind = exceptions.NoRoom if _NO_HOST in told else exceptions.Permanent
        raise kind(_failed(context.reservation, told + _lacking(context, told)))
    if status not in _COMING:
        return None
    doing = f'The server has been {status}'
    if status == 'BUILD' and not server.get('hostId'):
        return _remake_lost(context, doing)
    return context.wait(doing)


def _remake_lost(context: StepContext, doing: str) -> Wait:
    """Wait for a host to begin a build; let go of a server for which none does."""
    server_id = context.resource_id
    repair = lost.RepairStep(
        'make_again',
        'it is deleted and made again.',
        lambda: None,
        f'openstack server delete {server_id}',
        asked=_REMAKE,
    )
    waited = lost.wait(context, doing, 60 * context.options.lost_build_minutes, repair)
    if waited.repair is None:
        return waited
    unmade = f'{model.UNMADE}{uuidutils.generate_uuid()}'
    return dataclasses.replace(waited, seconds=AT_ONCE, resource_id=unmade)


def _delete_lost(context: StepContext) -> Wait:
    """Delete the server that a reservation has let go of; another is made when it is gone."""
    tag = specification.tag(context.reservation)
    found = servers.find(context.conn, tag, every_project=False)
    if found is None:
        return context.intend(_ASK)
    server = servers.get(context.conn, found)
    context = context.seeing(server['status'], server.get('OS-EXT-STS:task_state'))
    if lost_tasks.is_deleting(server):
        return lost_tasks.wait(context, server)
    servers.delete(context.conn, found)
    return context.wait()


def find_late(context: EndContext) -> Wait | None:
    """Find what became of a request for a server that is not wanted any more.

    :returns: None when no server can come of it
    """
    stored = context.reservation.progress or {}
    if stored.get('asked') not in (_ASK, _REMAKE):
        return None
    every_project = context.as_service
    tag = specification.tag(context.reservation)
    found = servers.find(context.conn, tag, every_project=every_project)
    if found is not None:
        return Wait(AT_ONCE, None, Progress(END, context.now).dump(), resource_id=found)
    # Before a server is made again no request for one is on its way.
    if stored['asked'] == _REMAKE or context.age >= IN_FLIGHT:
        return None
    return context.note(_ASK).wait()


def _lacking(context: StepContext, told: str) -> str:
    """Return what the hosts have too little of, if Nova found none, which does not tell that."""
    if _NO_HOST not in told:
        return ''
    wanted = context.reservation.params[specification.KEY]
    try:
        found = room.lacking(context.service, wanted)
    except errors.EXPECTED as exc:
        LOG.info('What there is too little of for %s is not known: %s', wanted['name'], exc)
        return ''
    return f' {found}' if found else ''


def _failed(reservation: 'Reservation', reason: str) -> str:
    name = reservation.params[specification.KEY]['name']
    held = reservation.amounts
    size = f'{held.get("vcpus", 0)} VCPUs, {held.get("memory_mb", 0)} MB of memory'
    if held.get('disk_gb'):
        size += f', {held["disk_gb"]} GB of disk'
    return f'The server {name} ({size}) could not be made: {reason}'
