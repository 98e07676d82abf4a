# SPDX-License-Identifier: Apache-2.0
"""``virtual:volume``: a volume that Cinder keeps in the status lease-reserved.

Cinder has chosen the backend and claimed the capacity already; here the volume is created at the
start of the lease and its end action is done at the end. Where a request specifies volumes, in the
words of POST /volumes, each is reserved as such a volume before that, see
:mod:`climate_core.plugins.provisioned_plugin`.

Facts: Block Storage API reference v3, ``POST /v3/{project_id}/volumes``.
"""

import datetime
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg
from oslo_log import log

from climate_common import hints, limits, resource_types
from climate_core import exceptions
from climate_core.cloud import errors, servers, volumes
from climate_core.conf import cloud as cloud_conf
from climate_core.plugins import (
    own_service_plugin,
    provisioned_plugin,
    volume_end,
    volume_recovery,
)
from climate_core.plugins.base import NotificationSource, PollAgain, ReservedResource
from climate_core.plugins.step_context import START, EndContext, Progress, StepContext
from climate_core.plugins.volume_end import BROKEN, CREATING, RESERVED

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

#: The property of a reservation that says what is to be made.
SPEC_KEY: Final = 'volume'
#: Cinder's own (cinder/db/constants.py MAX_INT).
_MAX_GIB: Final = 2**31 - 1

#: What a volume is made from: what checks it, and the GiB that it needs.
_VOLUME_SOURCES: Final[Mapping[str, provisioned_plugin.SourceCheck]] = {
    'imageRef': (servers.check_image, servers.image_disk_gb),
    'snapshot_id': (volumes.check_snapshot, operator.itemgetter('size')),
    'source_volid': (volumes.check, operator.itemgetter('size')),
}

SPEC_SCHEMA: Final[Mapping[str, Any]] = {
    SPEC_KEY: {
        'type': 'object',
        'description': 'Specification of volumes to create for the lease, in the format of POST '
        '/volumes of Cinder, in place of resource_id. Each volume becomes a reservation.',
        'properties': {
            'name': {**limits.NAME_SCHEMA, **provisioned_plugin.NAME_DESCRIPTION},
            'size': {
                'type': 'integer',
                'minimum': 1,
                'maximum': _MAX_GIB,
                'description': 'Size of each volume in GiB.',
            },
            'count': provisioned_plugin.COUNT_SCHEMA,
            'description': provisioned_plugin.STORED_TEXT_SCHEMA,
            'volume_type': {**limits.NAME_SCHEMA, 'description': 'Its name or its id.'},
            'imageRef': provisioned_plugin.UUID_SCHEMA,
            'snapshot_id': provisioned_plugin.UUID_SCHEMA,
            'source_volid': provisioned_plugin.UUID_SCHEMA,
            'availability_zone': limits.NAME_SCHEMA,
            # Cinder accepts 128, of which one is Climate's.
            'metadata': provisioned_plugin.metadata_schema(127, limits.VOLUME_KEY_PATTERN),
        },
        'required': ['name', 'size'],
        'additionalProperties': False,
    },
    **provisioned_plugin.made_for_schema('Cinder', SPEC_KEY),
}


def reserve_volumes(
    conn: 'connections.Connection',
    spec: Mapping[str, Any],
    params: Mapping[str, Any],
) -> ReservedResource:
    """Check the specification of volumes with the rights of the user; return their reservations.

    :param spec: the ``volume`` of the request
    :param params: what each reservation stores besides
    :raises climate_core.exceptions.ClimateError: something of it does not exist; naming the field
    """
    if 'volume_type' in spec:
        with errors.for_user(f'{SPEC_KEY}.volume_type'):
            volumes.check_type(conn, spec['volume_type'])
    if 'availability_zone' in spec:
        with errors.for_user(f'{SPEC_KEY}.availability_zone'):
            volumes.CINDER.check_zone(conn, spec['availability_zone'])
    sources = [name for name in _VOLUME_SOURCES if name in spec]
    if len(sources) > 1:
        raise exceptions.BadRequest(
            f'{SPEC_KEY}.{sources[1]}: must be left out: a volume is created from one of '
            f'{", ".join(_VOLUME_SOURCES)}.',
            field=f'{SPEC_KEY}.{sources[1]}',
        )
    for name in sources:
        check, size = _VOLUME_SOURCES[name]
        with errors.for_user(f'{SPEC_KEY}.{name}'):
            least = size(check(conn, spec[name]))
        if spec['size'] < least:
            raise exceptions.BadRequest(
                f'{SPEC_KEY}.size: must be at least {least} (GiB), which {name} needs.',
                field=f'{SPEC_KEY}.size',
            )
    return provisioned_plugin.reserve_group(
        SPEC_KEY, spec, params, resource_types.volume_amounts(spec['size'])
    )


def build_request(lease: 'Lease', reservation: 'Reservation') -> dict[str, Any]:
    """Return the specification from which Cinder creates a volume.

    :raises climate_core.exceptions.Transient: see :func:`.provisioned_plugin.read_unsealed_spec`
    """
    spec = provisioned_plugin.read_unsealed_spec(lease, reservation, SPEC_KEY)
    return {**spec, 'metadata': {**spec.get('metadata', {}), hints.MADE_FOR: reservation.id}}


_DELETING = frozenset({'deleting', 'error_deleting'})
#: The message of Cinder if no pool has capacity
#: (cinder/message/message_field.py NO_BACKEND_AVAILABLE).
_NO_BACKEND = 'Could not find any available weighted backend'


class VolumePlugin(provisioned_plugin.ProvisionedPlugin):
    """Reserve volumes."""

    resource_type = resource_types.VOLUME
    title = 'Volume'
    service = 'cinder'
    description = 'A volume that waits in the status lease-reserved and is created with its lease.'
    options = (
        own_service_plugin.on_end_option(
            resource_types.ON_END[resource_types.VOLUME],
            'volume',
            'A volume whose lease never started',
        ),
        own_service_plugin.first_poll_option('Cinder', 'cinder_notifications'),
        cfg.StrOpt(
            'backup_prefix',
            default='reserved_',
            help='Prefix of the name of the backup or snapshot that is created at the end; the '
            'name of the volume follows.',
        ),
        own_service_plugin.lead_option(
            'its volumes are reserved, so that they can be created in time.'
        ),
        *volume_recovery.RECOVERY_OPTIONS,
    )
    schema = {
        **SPEC_SCHEMA,
        **own_service_plugin.end_action_schema(resource_types.ON_END[resource_types.VOLUME]),
        **own_service_plugin.STACK_ID_SCHEMA,
        **provisioned_plugin.amounts_schema(*resource_types.VOLUME_UNITS),
    }
    key = SPEC_KEY
    waiting = RESERVED
    rank = 10
    calls = volumes
    # cinder-scheduler notifies with the priority ``error`` that no backend takes a volume
    # (cinder/scheduler/flows/create_volume.py), cinder-volume after it has stored a result
    # (cinder/volume/flows/manager/create_volume.py CreateVolumeOnFinishTask), also of backups and
    # snapshots (cinder/volume/volume_utils.py notify_about_volume_usage).
    notifications = NotificationSource(
        group=cloud_conf.CINDER_NOTIFICATIONS.GROUP,
        ids=('volume_id',),
        lost=('volume.delete.end', 'scheduler.create_volume'),
        done=(
            'backup.create.end',
            'snapshot.create.end',
            'volume.create.end',
            'volume.delete.end',
            'volume.detach.end',
        ),
    )
    gone_reason = 'The volume was deleted'
    prefix = 'backup_prefix'
    # Not a 400, with which Cinder answers if only the state does not allow it now.
    rejections = (errors.Forbidden,)

    def _claim(
        self,
        context: 'RequestContext',
        lease_id: str,  # noqa: ARG002
        spec: Mapping[str, Any],
        params: Mapping[str, Any],
    ) -> ReservedResource:
        return reserve_volumes(self.cloud.user(context), spec, params)

    def _find(
        self, conn: 'connections.Connection', reservation: 'Reservation', all_projects: bool
    ) -> Iterator[str]:
        return volumes.find_by_reservation(conn, reservation.id, all_projects)

    def _create(self, context: StepContext, asked_by: Mapping[str, str]) -> str:
        return volumes.create(
            context.conn, build_request(context.lease, context.reservation), asked_by
        )

    def _watch(self, context: StepContext, volume: Mapping[str, Any]) -> PollAgain | None:
        status, volume_id = volume['status'], context.resource_id
        context = context.observe(status, volume.get('updated_at'))
        if status in BROKEN:
            reason = volumes.read_failure_reason(context.conn, volume_id)
            kind = exceptions.NoCapacity if _NO_BACKEND in reason else exceptions.Permanent
            raise kind(self._failed(context.reservation, reason))
        if status in _DELETING:
            raise exceptions.Permanent(self._failed(context.reservation, 'it is being deleted.'))
        if status != 'creating':
            return None
        command = volume_recovery.delete_command(volume_id)
        minutes = context.options.lost_build_minutes
        return self._wait_for_build(context, 'The volume has been creating', minutes, command)

    def _delete_lost(self, context: StepContext, volume: Mapping[str, Any]) -> PollAgain:
        return volume_recovery.delete_unmade(
            context.observe(volume['status'], volume.get('updated_at')), volume
        )

    def _failed(self, reservation: 'Reservation', reason: str) -> str:
        spec = reservation.params[SPEC_KEY]
        failure = f'The volume {spec["name"]} ({spec["size"]} GiB) could not be created'
        return f'{failure}: {reason}'

    def _read_reservable(
        self, context: 'RequestContext', resource_id: str
    ) -> dict[str, Any] | None:
        volume = volumes.get(self.cloud.user(context), resource_id)
        own = volumes.read_project(volume) in (None, context.project_id)
        return volume if own else None

    def _is_reservation(self, volume: Mapping[str, Any], context: 'RequestContext') -> bool:
        """Return whether a volume is reserved, or Cinder is about to reserve it.

        Cinder sends the request with the user's token and its own before it sends a volume to a
        backend. A user alone may not name a volume that is being created: it may not be reserved.
        """
        if volume['status'] == RESERVED:
            return True
        return volume['status'] == 'creating' and context.by_service

    @staticmethod
    def _amounts(volume: Mapping[str, Any]) -> dict[str, int]:
        return resource_types.volume_amounts(int(volume['size']))

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:
        """Block only what uses the volume, as far as that is known."""
        uses = Progress.load(other.progress, START, self.now()).uses
        return uses is None or own.resource_id in uses

    def _wake(self, context: StepContext, volume: Mapping[str, Any]) -> PollAgain | None:
        status = volume['status']
        context = context.observe(status, volume.get('updated_at'))
        if status in CREATING:
            return volume_recovery.wait_for_creation(context, volume)
        if status in (RESERVED, *BROKEN):
            return self._ask_to_wake(context, status)
        if status in _DELETING:
            # Servers wait for this answer, so it is given before the volume is gone.
            raise exceptions.Permanent('The volume is being deleted.')
        return None

    def _ask_to_wake(self, context: StepContext, status: str) -> PollAgain:
        """Request the creation, also of a volume in error: an earlier creation may have failed."""
        owner, volume_id = context.conn, context.resource_id
        if context.progress.asked == 'os-wake_up':
            raise context.failure(_not_created(owner, volume_id, status))
        try:
            return context.rest() or context.send_request(
                'os-wake_up', lambda: volumes.act(owner, volume_id, 'os-wake_up')
            )
        except errors.Busy as exc:
            # Another user has started it, or Cinder does not create this volume at all.
            found = volumes.get(owner, volume_id)['status']
            if found != status:
                return context.wait()
            if found in BROKEN:
                raise exceptions.Permanent(_not_created(owner, volume_id, found)) from exc
            raise

    def _usual_end(self, context: EndContext) -> str:
        # A volume that was to be kept with a snapshot is kept without one.
        return 'detach' if context.on_end == 'snapshot' else super()._usual_end(context)

    def _end(self, context: EndContext, volume: Mapping[str, Any]) -> PollAgain | None:
        return volume_end.take_end_step(context, volume)

    def _lost_reason(self, reservation: 'Reservation', volume: Mapping[str, Any]) -> str | None:
        # A volume that is created for a lease is polled until it exists; capacity may come later.
        is_watched = SPEC_KEY in reservation.params
        if is_watched or volume['status'] != 'error' or volumes.has_backend(volume):
            return None
        return 'Cinder found no backend for the volume.'

    def list_unleased(self) -> Iterable[str]:
        conn = self.cloud.service()
        # This plugin is enabled by default, also where there is no Cinder.
        if not volumes.CINDER.is_offered(conn):
            return ()
        return volumes.list_ids(conn, status=RESERVED)

    def _reserved_since(self, volume: Mapping[str, Any]) -> datetime.datetime | None:
        if volume['status'] != RESERVED:
            return None
        # Cinder writes UTC without an offset.
        changed = datetime.datetime.fromisoformat(volume['updated_at'] or volume['created_at'])
        return changed.replace(tzinfo=datetime.UTC)


def _not_created(conn: 'connections.Connection', volume_id: str, status: str) -> str:
    if status == 'error_restoring':
        reason = 'its backup could not be restored. See the messages of the backup.'
    else:
        reason = volumes.read_failure_reason(conn, volume_id)
    return f'The volume could not be created: {reason}'
