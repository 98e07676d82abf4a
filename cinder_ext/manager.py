# SPDX-License-Identifier: Apache-2.0
"""Hold reserved volumes in cinder-volume, and create them later; for ``volume_manager``.

=========  =======================================================================================
hold       a creation that the hints make a reservation: no call of the driver
wake       the same creation again, with :data:`cinder_ext.states.WAKE_UP`: cinder's own
delete     of what was never created: no call of the driver
report     the capacity that is held
=========  =======================================================================================

The marker says what may be on the backend, and is written before the driver is asked. A process
that dies in between leaves ``waking``: the next attempt first removes what the last one may have
created.
"""

import logging
from typing import Any

from cinder import context as cinder_context
from cinder import coordination, exception, objects, quota, utils
from cinder.volume import manager, volume_utils
from cinder.volume.flows import common

from cinder_ext import (
    capacity,
    database_outage,
    image_metadata,
    messages,
    reservation_marker,
    seams,
    states,
)
from climateclient.extension import hints

LOG = logging.getLogger(__name__)

#: The lock that cinder takes to delete a volume: one at a time, deleting included.
_ONE_AT_A_TIME = coordination.synchronized('{volume.id}-delete_volume')


class VolumeManager(manager.VolumeManager):
    """Cinder's manager, with reserved volumes.

    :raises climateclient.extension.errors.Incompatible: this cinder is not as expected
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        seams.check(seams.VOLUME)
        messages.install()
        super().__init__(*args, **kwargs)

    def create_volume(
        self,
        context: Any,
        volume: Any,
        request_spec: Any = None,
        filter_properties: dict[str, Any] | None = None,
        allow_reschedule: bool = True,
    ) -> Any:
        """Create a volume, hold one, or wake one that is held. RPC method of cinder."""
        properties = filter_properties or {}
        if properties.get(states.WAKE_UP):
            # Another look at the volume shows how far the first one came.
            return database_outage.outlast(self._wake, context, volume, request_spec)
        if hints.wants_reservation(properties.get('scheduler_hints')):
            return self._hold(context, volume)
        return super().create_volume(
            context, volume, request_spec, filter_properties, allow_reschedule
        )

    def delete_volume(
        self, context: Any, volume: Any, unmanage_only: bool = False, cascade: bool = False
    ) -> bool | None:
        """Delete a volume, or only the row of one that is held. RPC method of cinder.

        A volume that was ever completed costs no further statement.
        """
        if reservation_marker.get_pending_state(
            context, volume
        ) == reservation_marker.HELD and self._release(context, volume):
            utils.clean_volume_file_locks(volume.id, self.driver)
            return None
        return super().delete_volume(context, volume, unmanage_only, cascade)

    def update_service_capabilities(self, capabilities: Any) -> None:
        """Subtract what is held from the report to the schedulers."""
        context = cinder_context.get_admin_context()
        volumes = capacity.reserved(context, self.host, self.cluster)
        for volume in volumes:
            if volume.made:
                # cinder-backup completes a volume for itself, or cinder-volume died just then.
                LOG.info('Reserved volume %s is complete', volume.id)
                reservation_marker.clear(context, volume)
        super().update_service_capabilities(capacity.report(capabilities, volumes))

    @_ONE_AT_A_TIME
    @objects.Volume.set_workers
    def _hold(self, context: Any, volume: Any) -> Any:
        self._set_resource_host(volume)
        # First, as in cinder: a deletion meanwhile subtracts it again.
        self._update_allocated_capacity(volume)
        if not _is_expected(volume):
            return volume.id
        marker = reservation_marker.get(context, volume)
        if marker is None:
            LOG.error('Volume %s was created with a reservation, but no lease has it', volume.id)
            messages.create(self.message_api, context, volume, None, messages.NO_RESERVATION)
            common.error_out(volume)
            return volume.id
        try:
            image_metadata.write(self, context, volume, marker.spec.get('image_id'))
        except Exception:
            # The wake_up reads the image metadata again. Until then Nova does not boot from the
            # volume.
            LOG.exception('It is not known whether reserved volume %s will boot', volume.id)
        volume.conditional_update({'status': states.RESERVED}, {'status': 'creating'})
        LOG.info('Volume %s is reserved on %s', volume.id, volume.host)
        return volume.id

    @_ONE_AT_A_TIME
    @objects.Volume.set_workers
    def _wake(self, context: Any, volume: Any, request_spec: Any) -> Any:
        marker = reservation_marker.get(context, volume) if _is_expected(volume) else None
        if marker is None:
            LOG.warning('Volume %s does not wait: an old wake_up is ignored', volume.id)
            return volume.id
        if volume.launched_at is not None:
            # It is complete, and its marker was left over: nothing of it may be removed.
            reservation_marker.clear(context, volume)
            volume.conditional_update({'status': 'available'}, {'status': 'creating'})
            return volume.id
        shown = image_metadata.remove(context, volume)
        state = marker.state
        try:
            volume_utils.require_driver_initialized(self.driver)
            if state == reservation_marker.WAKING:
                self._remove_remains(context, volume)
            reservation_marker.set_waking(context, volume)
            state = reservation_marker.WAKING
            self._name_service(volume)
            # Cinder counts it in a moment; it has been counted since it was reserved.
            self._update_allocated_capacity(volume, decrement=True)
            super().create_volume(context, volume, request_spec, {}, allow_reschedule=False)
        except Exception as error:
            LOG.exception('Reserved volume %s cannot be created', volume.id)
            self._go_back(context, volume, state, shown, error)
        else:
            database_outage.outlast(self._finish, context, volume, shown)
        return volume.id

    def _name_service(self, volume: Any) -> None:
        """Write what Nova needs to attach a volume before it is available.

        Cinder does it afterwards (create_volume of cinder.volume.manager): a process that died in
        between, or a database that was away, left a volume that os_brick.initiator.utils
        guard_connection does not attach.
        """
        volume.service_uuid = self.service_uuid
        volume.shared_targets = self._driver_shares_targets()
        volume.save()

    def _finish(self, context: Any, volume: Any, shown: image_metadata.ImageMetadata) -> None:
        """Make it an ordinary volume, unless cinder-backup is still at work on it."""
        image_metadata.restore(context, volume, shown)
        if volume.launched_at is not None:
            reservation_marker.clear(context, volume)

    def _go_back(
        self,
        context: Any,
        volume: Any,
        state: str,
        shown: image_metadata.ImageMetadata,
        error: Exception,
    ) -> None:
        """Hold the volume again, or leave it in error if its remains cannot be removed."""
        volume.refresh()
        if volume.launched_at is not None:
            self._finish(context, volume, shown)
            return
        messages.create(self.message_api, context, volume, error)
        image_metadata.restore(context, volume, shown)
        if state == reservation_marker.WAKING:
            try:
                self._remove_remains(context, volume)
            except Exception:
                LOG.exception('What is left of volume %s cannot be removed', volume.id)
                messages.create(self.message_api, context, volume, None, messages.LEFT_OVER)
                common.error_out(volume)
                return
            reservation_marker.set_held(context, volume)
        volume.conditional_update({'status': states.RESERVED}, {'status': volume.status})

    def _remove_remains(self, context: Any, volume: Any) -> None:
        """Remove what an attempt to create the volume may have left, as cinder deletes one."""
        volume_utils.require_driver_initialized(self.driver)
        self.driver.remove_export(context.elevated(), volume)
        self.driver_delete_volume(volume)

    @_ONE_AT_A_TIME
    @objects.Volume.set_workers
    def _release(self, context: Any, volume: Any) -> bool:
        """Delete a volume of which nothing exists.

        As :meth:`cinder.volume.manager.VolumeManager.delete_volume` without its driver.

        :returns: False if its creation has started concurrently
        """
        context = context.elevated()
        try:
            volume.refresh()
        except exception.VolumeNotFound:
            return True
        if reservation_marker.get_state(context, volume) != reservation_marker.HELD:
            return False
        self._check_is_our_resource(volume)
        self._notify_about_volume_usage(context, volume, 'delete.start')
        reservations = self._quota_to_give_back(context, volume)
        volume.destroy()
        self._notify_about_volume_usage(context, volume, 'delete.end')
        if reservations:
            quota.QUOTAS.commit(context, reservations, project_id=volume.project_id)
        self._update_allocated_capacity(volume, decrement=True)
        self.publish_service_capabilities(context)
        LOG.info('Reserved volume %s is deleted', volume.id)
        return True

    def _quota_to_give_back(self, context: Any, volume: Any) -> Any:
        amounts = {'volumes': -1, 'gigabytes': -volume.size}
        quota.QUOTAS.add_volume_type_opts(context, amounts, volume.volume_type_id)
        try:
            return quota.QUOTAS.reserve(context, project_id=volume.project_id, **amounts)
        except Exception:
            # Cinder deletes the volume nevertheless.
            LOG.exception('The quota of volume %s is not given back', volume.id)
            return None


def _is_expected(volume: Any) -> bool:
    """Return whether a volume, read again, is to be created: messages come late, or twice."""
    try:
        volume.refresh()
    except exception.VolumeNotFound:
        LOG.info('Volume %s was deleted before its creation began', volume.id)
        # Cinder leaves the row of a work whose volume keeps its status.
        volume.unset_worker()
        return False
    if volume.status != 'creating':
        LOG.warning('Volume %s is %s: it is not created now', volume.id, volume.status)
    return volume.status == 'creating'
