# SPDX-License-Identifier: Apache-2.0
"""``virtual:volume``: a volume that Cinder keeps in the status lease-reserved.

Cinder has chosen the backend and holds the capacity already; here the volume is created at the
start of the lease and its end action is done at the end.
"""

import contextlib
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from climate_core import exceptions
from climate_core.cloud import errors, volumes
from climate_core.plugins import base, lost, membership, rights, volume_end
from climate_core.plugins.base import Claimed, Wait
from climate_core.plugins.patience import Patience
from climate_core.plugins.volume_end import BROKEN, CREATING, RESERVED

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.cloud import Cloud
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

_DELETING = frozenset({'deleting', 'error_deleting'})


class VolumePlugin(base.ResourcePlugin):
    """Reserve volumes."""

    resource_type = 'virtual:volume'
    title = 'Volume'
    description = 'A volume that waits in the status lease-reserved and is made with its lease.'
    rank = 10
    options = (
        cfg.StrOpt(
            'on_end',
            default='delete',
            choices=volume_end.CHOICES,
            help='What happens to a volume at the end of its lease, unless the reservation says '
            'it. A volume whose lease never started is always deleted.',
        ),
        cfg.StrOpt(
            'backup_prefix',
            default='reserved_',
            help='The backup or the snapshot that is made at the end is called this plus the '
            'name of the volume.',
        ),
    )
    schema = {
        'resource_id': {'type': 'string', 'format': 'uuid'},
        'on_end': {'type': 'string', 'enum': [name for name, _ in volume_end.CHOICES]},
        **membership.SCHEMA,
    }
    required = ('resource_id',)
    changeable = ('on_end',)

    def __init__(self, conf: cfg.ConfigOpts, cloud: 'Cloud') -> None:
        super().__init__(conf, cloud)
        self._waking = Patience()
        self._ending = Patience()
        self._leaders = membership.Leaders(cloud)

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> Claimed:
        wanted = values['resource_id']
        with errors.for_user('resource_id'):
            volume = volumes.get(self.cloud.user(context), wanted)
        if volume.get(volumes.TENANT, context.project_id) != context.project_id:
            raise exceptions.ResourceNotFound(
                f'There is no volume {wanted} in this project.', field='resource_id'
            )
        if not _is_reservation(volume, context):
            raise exceptions.BadRequest(
                f'The volume {wanted} is {volume["status"]}. Only a volume that was created with '
                'the hint reserved=True and was not started yet can be reserved.',
                field='resource_id',
            )
        on_end = values.get('on_end') or self.conf[self.resource_type].on_end
        return Claimed(
            resource_id=volume['id'],
            params={'on_end': on_end, **membership.params(values)},
            amounts={'volumes': 1, 'gigabytes': int(volume['size'])},
        )

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        if membership.woken_by_heat(lease, reservation):
            return None
        owner = rights.owner(self.cloud, lease)
        try:
            volume = volumes.get(owner, reservation.resource_id)
            return self._wake_up(owner, volume, reservation)
        except errors.Gone as exc:
            self._waking.done(reservation.id)
            raise exceptions.Permanent('The volume was deleted.') from exc

    def _wake_up(
        self, owner: 'connection.Connection', volume: Mapping[str, Any], reservation: 'Reservation'
    ) -> Wait | None:
        status = volume['status']
        if status in CREATING:
            return self._waking.wait(reservation.id, f'The volume has been {status}')
        if status in (RESERVED, *BROKEN):
            return self._ask_to_wake(owner, status, reservation)
        self._waking.done(reservation.id)
        if status in _DELETING:
            # Servers wait for this answer, so it is given before the volume is gone.
            raise exceptions.Permanent('The volume is being deleted.')
        return None

    def _ask_to_wake(
        self, owner: 'connection.Connection', status: str, reservation: 'Reservation'
    ) -> Wait:
        """Ask for the creation, of what is in error too: one that was begun may have failed."""
        volume_id = reservation.resource_id
        rest = self._waking.again(
            reservation.id, 'os-wake_up', lambda: _not_created(owner, volume_id, status)
        )
        if rest:
            return rest
        try:
            volumes.act(owner, volume_id, 'os-wake_up')
        except errors.Busy as exc:
            return self._after_a_conflict(owner, status, reservation, exc)
        return self._waking.asked(reservation.id, 'os-wake_up')

    def _after_a_conflict(
        self,
        owner: 'connection.Connection',
        before: str,
        reservation: 'Reservation',
        conflict: errors.Busy,
    ) -> Wait:
        """Somebody was faster, or Cinder does not want to create this one at all."""
        status = volumes.get(owner, reservation.resource_id)['status']
        if status != before:
            return self._waking.wait(reservation.id)
        if status in BROKEN:
            self._waking.done(reservation.id)
            raise exceptions.Permanent(
                _not_created(owner, reservation.resource_id, status)
            ) from conflict
        raise conflict

    def end(self, lease: 'Lease', reservation: 'Reservation') -> Wait | None:
        self._waking.done(reservation.id)
        try:
            wait = self._end(self._ending_of(lease, reservation), lease)
        except exceptions.Permanent as exc:
            raise exceptions.Transient(str(exc)) from exc
        if wait is None:
            self._ending.done(reservation.id)
        return wait

    def _ending_of(self, lease: 'Lease', reservation: 'Reservation') -> volume_end.Ending:
        conn = rights.at_end(self.cloud, lease)
        return volume_end.Ending(
            conn=conn,
            service=self.cloud.service(),
            reservation=self._leaders.at_end(conn, lease, reservation),
            patience=self._ending,
            prefix=self.conf[self.resource_type].backup_prefix,
        )

    @staticmethod
    def _end(ending: volume_end.Ending, lease: 'Lease') -> Wait | None:
        try:
            volume = volumes.get(ending.conn, ending.volume_id)
        except errors.Gone:
            return None
        if volume.get(volumes.TENANT, lease.project_id) != lease.project_id:
            # Its owner gave it away; it is on the quota of another project.
            return None
        return volume_end.end(ending, volume)

    def missing(self, reservations: Sequence['Reservation']) -> Mapping[str, str]:
        if not reservations:
            return {}
        conn = self.cloud.service()
        # Without the right to see every project each volume would look gone.
        volumes.check_all_visible(conn)
        found = lost.find(
            reservations, lambda: volumes.every_id(conn), lambda each: _exists(conn, each)
        )
        return {each.id: 'The volume was deleted outside of the lease.' for each in found}

    def waiting(self) -> Iterable[str]:
        conn = self.cloud.service()
        # This plugin is enabled by default, also where there is no Cinder.
        if not volumes.offered(conn):
            return ()
        return volumes.every_id(conn, status=RESERVED)

    def waiting_since(self, resource_id: str) -> datetime.datetime | None:
        try:
            volume = volumes.get(self.cloud.service(), resource_id)
        except errors.Gone:
            return None
        if volume['status'] != RESERVED:
            return None
        # Cinder writes UTC without saying so.
        changed = datetime.datetime.fromisoformat(volume['updated_at'] or volume['created_at'])
        return changed.replace(tzinfo=datetime.UTC)

    def discard(self, resource_id: str) -> None:
        with contextlib.suppress(errors.Gone):
            volumes.delete(self.cloud.service(), resource_id)


def _exists(conn: 'connection.Connection', volume_id: str) -> bool:
    try:
        volumes.get(conn, volume_id)
    except errors.Gone:
        return False
    return True


def _is_reservation(volume: Mapping[str, Any], context: 'RequestContext') -> bool:
    """Tell whether a volume waits, or Cinder is about to let it wait.

    Cinder asks with the user's token and its own before it sends a volume to a backend. A user
    alone may not name a volume that is being created: it could be one that is not reserved.
    """
    if volume['status'] == RESERVED:
        return True
    return volume['status'] == 'creating' and rights.by_service(context)


def _not_created(conn: 'connection.Connection', volume_id: str, status: str) -> str:
    if status == 'error_restoring':
        reason = 'its backup could not be restored. The messages of the backup say why.'
    else:
        reason = volumes.reason(conn, volume_id)
    return f'The volume could not be created: {reason}'
