# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::VolumeAttachment``: ``OS::Cinder::VolumeAttachment`` of a server that sleeps."""

from typing import Any

from heat.engine.resources.openstack.cinder import volume

from heat_ext.members import deferred


class VolumeAttachment(deferred.Deferred, volume.CinderVolumeAttachment):
    """An attachment that is made when its server runs and its volume is there."""

    def needed(self) -> tuple[str | None, ...]:
        return self.properties[self.INSTANCE_ID], self.properties[self.VOLUME_ID]

    def needs_replace_failed(self) -> bool:
        """One that was not done at the start is gone on with, not made a second time."""
        return not self.is_deferred() and super().needs_replace_failed()

    def _create(self) -> Any:
        """Attach the volume, unless that was asked for before heat stopped to look."""
        server_id, volume_id = self.needed()
        if self.resource_id is not None:
            attached = self.client('nova').volumes.get_server_volumes(server_id)
            if any(each.volumeId == volume_id for each in attached):
                return volume_id
        return super()._create()


TYPES = {'OS::Climate::VolumeAttachment': VolumeAttachment}
