# SPDX-License-Identifier: Apache-2.0
"""``virtual:instance``: a server that Nova built in the state RESERVED.

Nova has picked the host and holds the capacity already; here the server is woken at the start of
the lease and its end action is done at the end.
"""

import contextlib
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import base, lost, membership, rights, server_end
from climate_core.plugins.base import Claimed, Wait
from climate_core.plugins.patience import Patience

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.cloud import Cloud
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

_RESERVED = 'RESERVED'
_GONE = frozenset({'DELETED', 'SOFT_DELETED'})
#: UNKNOWN is a server in a cell that does not answer.
_UNSETTLED = frozenset({'BUILD', 'UNKNOWN'})
_DELETING = frozenset({'deleting', 'soft-deleting'})
#: Hints that ask for a reservation, see nova_ext.
_HINTS = frozenset({'reserved', 'lease_params', 'lease_id'})
_FALSE = frozenset({'false', '0', 'no', 'off', 'f', 'n', ''})


class InstancePlugin(base.ResourcePlugin):
    """Reserve servers."""

    resource_type = 'virtual:instance'
    title = 'Server'
    description = 'A server that waits in the state RESERVED and starts with its lease.'
    options = (
        cfg.StrOpt(
            'on_end',
            default='delete',
            choices=server_end.CHOICES,
            help='What happens to a server at the end of its lease, unless the reservation says '
            'it. A server that never started is always deleted.',
        ),
        cfg.StrOpt(
            'image_prefix',
            default='reserved_',
            help='The image that create_image makes is called this plus the name of the server.',
        ),
    )
    schema = {
        'resource_id': {'type': 'string', 'format': 'uuid'},
        'on_end': {'type': 'string', 'enum': [name for name, _ in server_end.CHOICES]},
        **membership.SCHEMA,
    }
    required = ('resource_id',)
    changeable = ('on_end',)
    rank = 20

    def __init__(self, conf: cfg.ConfigOpts, cloud: 'Cloud') -> None:
        super().__init__(conf, cloud)
        self._waking = Patience()
        self._ending = Patience()
        self._leaders = membership.Leaders(cloud)

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        wanted = values['resource_id']
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
        on_end = values.get('on_end') or self.conf[self.resource_type].on_end
        return Claimed(
            resource_id=server['id'],
            params={'on_end': on_end, **membership.params(values)},
            amounts=_amounts(server),
        )

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        if membership.woken_by_heat(lease, reservation):
            return None
        owner = rights.owner(self.cloud, lease)
        try:
            server = servers.get(owner, reservation.resource_id)
            return self._wake_up(owner, server, reservation)
        except errors.Gone as exc:
            self._waking.done(reservation.id)
            raise exceptions.Permanent('The server was deleted.') from exc

    def _wake_up(
        self, owner: 'connection.Connection', server: dict[str, Any], reservation: 'Reservation'
    ) -> Wait | None:
        status, task = server['status'], server.get('OS-EXT-STS:task_state')
        if status in _GONE:
            raise errors.Gone('The server was deleted.')
        if task in _DELETING or status in _UNSETTLED or (status == _RESERVED and task):
            state = f'{status}, {task}' if task else status
            return self._waking.wait(reservation.id, f'The server has been {state}')
        if status == _RESERVED:
            return self._ask_to_wake(owner, server, reservation)
        self._waking.done(reservation.id)
        if status == 'ERROR':
            raise exceptions.Permanent(f'The server is in ERROR: {_fault(server)}')
        return None

    def _ask_to_wake(
        self,
        owner: 'connection.Connection',
        server: Mapping[str, Any],
        reservation: 'Reservation',
    ) -> Wait | None:
        server_id = reservation.resource_id
        # If it was asked before, Nova could not start it and made it RESERVED again.
        rest = self._waking.again(
            reservation.id, 'wake_up', lambda: f'The server could not be started: {_fault(server)}'
        )
        if rest:
            return rest
        try:
            servers.act(owner, server_id, 'wake_up', {})
        except errors.Busy:
            # Somebody was faster, or Nova found no host and put it back.
            server = servers.get(owner, server_id)
            if server['status'] == _RESERVED and not server.get('OS-EXT-STS:task_state'):
                raise
            return self._waking.wait(reservation.id)
        return self._waking.asked(reservation.id, 'wake_up')

    def end(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        self._waking.done(reservation.id)
        try:
            wait = server_end.end(self._ending_of(lease, reservation))
        except errors.Gone:
            wait = None
        except exceptions.Permanent as exc:
            raise exceptions.Transient(str(exc)) from exc
        if wait is None:
            self._ending.done(reservation.id)
        return wait

    def _ending_of(self, lease: 'Lease', reservation: 'Reservation') -> server_end.Ending:
        conn = rights.at_end(self.cloud, lease)
        return server_end.Ending(
            conn=conn,
            service=self.cloud.service(),
            reservation=self._leaders.at_end(conn, lease, reservation),
            patience=self._ending,
            image_prefix=self.conf[self.resource_type].image_prefix,
        )

    def missing(self, reservations: Sequence['Reservation']) -> Mapping[str, str]:
        if not reservations:
            return {}
        conn = self.cloud.service()
        # Without the right to see every project each server would look gone.
        servers.check_all_visible(conn)
        found = lost.find(
            reservations, lambda: servers.every_id(conn), lambda each: _exists(conn, each)
        )
        return {each.id: 'The server was deleted outside of the lease.' for each in found}

    def waiting(self) -> Iterable[str]:
        return servers.every_id(self.cloud.service(), status=_RESERVED)

    def waiting_since(self, resource_id: str) -> datetime.datetime | None:
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
    """What the server holds: its flavor; without the root disk if it boots from a volume."""
    flavor = server['flavor']
    root = flavor['disk'] if server.get('image') else 0
    return {
        'servers': 1,
        'vcpus': flavor['vcpus'],
        'memory_mb': flavor['ram'],
        'disk_gb': root + flavor['ephemeral'],
    }


def _exists(conn: 'connection.Connection', server_id: str) -> bool:
    try:
        # One that is soft-deleted can be restored, and would then run without an end.
        return bool(servers.get(conn, server_id)['status'] != 'DELETED')
    except errors.Gone:
        return False


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
