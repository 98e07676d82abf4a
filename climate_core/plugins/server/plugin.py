# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance``: a server that Nova built in the state RESERVED.

Nova has picked the host and holds the capacity already; here the server is woken at the start of
the lease and its end action is done at the end.
"""

import contextlib
import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_config import cfg

from climate_common import amounts
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import parent_stacks, reported_amounts, rights, wakeable
from climate_core.plugins.base import Claimed, Wait
from climate_core.plugins.progress import START, Progress
from climate_core.plugins.server import end_steps, lost_tasks
from climate_core.plugins.step_context import EndContext, StepContext

if TYPE_CHECKING:
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

_RESERVED = 'RESERVED'
#: The task of a wake_up that no nova-compute has begun, see nova_ext/api/wake_up.py.
_SENT = 'scheduling'
_GONE = frozenset({'DELETED', 'SOFT_DELETED'})
#: UNKNOWN is a server in a cell that does not answer.
_UNSETTLED = frozenset({'BUILD', 'UNKNOWN'})
_DELETING = frozenset({'deleting', 'soft-deleting'})
#: Hints that ask for a reservation, see nova_ext.
_HINTS = frozenset({'reserved', 'lease_params', 'lease_id'})
_FALSE = frozenset({'false', '0', 'no', 'off', 'f', 'n', ''})


class ServerPlugin(wakeable.WakeablePlugin):
    """Reserve servers."""

    resource_type = 'virtual:instance'
    title = 'Server'
    description = 'A server that waits in the state RESERVED and starts with its lease.'
    options = (
        cfg.StrOpt(
            'on_end',
            default='delete',
            choices=end_steps.CHOICES,
            help='What happens to a server at the end of its lease, unless the reservation says '
            'it. A server that never started is always deleted.',
        ),
        cfg.StrOpt(
            'image_prefix',
            default='reserved_',
            help='The image that create_image makes is called this plus the name of the server.',
        ),
        *lost_tasks.OPTIONS,
    )
    schema = {
        'resource_id': {'type': 'string', 'format': 'uuid'},
        'on_end': {'type': 'string', 'enum': [name for name, _ in end_steps.CHOICES]},
        **parent_stacks.SCHEMA,
        **reported_amounts.schema(*amounts.SERVER_UNITS),
    }
    rank = 20
    calls: ClassVar[wakeable.Calls] = servers
    gone = 'The server was deleted'
    prefix = 'image_prefix'

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        reported = reported_amounts.amounts(context, values)
        if reported is not None:
            return self._claimed(reported_amounts.resource_id(values), values, reported)
        server = self._look(context, values['resource_id'])
        return self._claimed(server['id'], values, _amounts(server))

    def _look(self, context: 'RequestContext', wanted: str) -> dict[str, Any]:
        """Return a server of the project that waits, or is being built to."""
        with errors.for_user('resource_id'):
            server = servers.get(self.cloud.user(context), wanted, hints=True)
        if server['tenant_id'] != context.project_id or server['status'] in _GONE:
            raise exceptions.ResourceNotFound(
                f'There is no server {wanted} in this project.', field='resource_id'
            )
        if not _is_reservation(server):
            raise exceptions.BadRequest(
                f'The server {wanted} is {server["status"]}. Only a server that was created with '
                'the hint reserved=True and was not started yet can be reserved.',
                field='resource_id',
            )
        return server

    def find_uses(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        now = self.now()
        kept = Progress.load(reservation.progress, START, now)
        if kept.uses is not None:
            return None
        try:
            server = servers.get(rights.owner(self.cloud, lease), reservation.resource_id)
        except errors.Gone:
            return None
        uses = [each['id'] for each in server.get(servers.VOLUMES, ())]
        return Wait(0.0, None, dataclasses.replace(kept, uses=uses).dump())

    def _wake(self, context: StepContext, server: Mapping[str, Any]) -> Wait | None:
        status, task = server['status'], server.get('OS-EXT-STS:task_state')
        context = context.seeing(status, task, server.get('updated'))
        if status in _GONE:
            raise errors.Gone(self.gone)
        if status == _RESERVED and task == _SENT:
            return lost_tasks.repeat_wake_up(context)
        if task in _DELETING or status in _UNSETTLED or (status == _RESERVED and task):
            state = f'{status}, {task}' if task else status
            return context.wait(f'The server has been {state}')
        if status == _RESERVED:
            return self._ask_to_wake(context, server)
        if status == 'ERROR':
            raise exceptions.Permanent(f'The server is in ERROR: {_fault(server)}')
        return None

    def _ask_to_wake(self, context: StepContext, server: Mapping[str, Any]) -> Wait:
        try:
            # If it was asked before, Nova could not start it and made it RESERVED again.
            return context.once(
                'wake_up',
                lambda: f'The server could not be started: {_fault(server)}',
                lambda: servers.act(context.conn, context.resource_id, 'wake_up', {}),
            )
        except errors.Busy:
            # It was woken by others, or Nova found no host and put it back.
            found = servers.get(context.conn, context.resource_id)
            if found['status'] == _RESERVED and not found.get('OS-EXT-STS:task_state'):
                raise
            return context.wait()

    def _end(self, context: EndContext) -> Wait | None:
        return end_steps.end(context)

    def _is_there(self, server: Mapping[str, Any]) -> bool:
        # One that is soft-deleted can be restored, and would then run without an end.
        return bool(server['status'] != 'DELETED')

    def list_unleased(self) -> Iterable[str]:
        return servers.every_id(self.cloud.service(), status=_RESERVED)

    def unleased_since(self, resource_id: str) -> datetime.datetime | None:
        try:
            server = servers.get(self.cloud.service(), resource_id)
        except errors.Gone:
            return None
        deleting = server.get('OS-EXT-STS:task_state') in _DELETING
        if server['status'] != _RESERVED or deleting:
            return None
        return datetime.datetime.fromisoformat(server.get('updated') or server['created'])

    def discard(self, resource_id: str) -> None:
        with contextlib.suppress(errors.Gone):
            servers.delete(self.cloud.service(), resource_id)


def _amounts(server: Mapping[str, Any]) -> dict[str, int]:
    flavor = server['flavor']
    sizes = (flavor['vcpus'], flavor['ram'], flavor['disk'], flavor['ephemeral'])
    return amounts.of_server(*sizes, boots_from_volume=not server.get('image'))


def _fault(server: Mapping[str, Any]) -> str:
    fault = server.get('fault') or {}
    return str(fault.get('message') or 'Nova does not say why')


def _is_reservation(server: Mapping[str, Any]) -> bool:
    """Tell whether a server is RESERVED, or is being built to become so."""
    if server['status'] == _RESERVED:
        return True
    return server['status'] == 'BUILD' and _asks_for_reservation(
        server.get('scheduler_hints') or {}
    )


def _asks_for_reservation(hints: Mapping[str, Any]) -> bool:
    if 'reserved' in hints:
        value = hints['reserved']
        value = value[0] if isinstance(value, list) and value else value
        return str(value).strip().lower() not in _FALSE
    return bool(_HINTS & set(hints))
