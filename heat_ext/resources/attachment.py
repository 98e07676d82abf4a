# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::VolumeAttachment``: ``OS::Cinder::VolumeAttachment`` of a server that sleeps."""

from heat.engine.resources.openstack.cinder import volume

from heat_ext import deferred


class VolumeAttachment(deferred.Deferred, volume.CinderVolumeAttachment):
    """An attachment that is made when its server runs and its volume is there."""

    def needed(self) -> tuple[str | None, ...]:
        return self.properties[self.INSTANCE_ID], self.properties[self.VOLUME_ID]

    def needs_replace_failed(self) -> bool:
        """One that was refused at the start is asked for again, not made a second time."""
        if self.is_deferred() and self.resource_id is None:
            return False
        return super().needs_replace_failed()


TYPES = {'OS::Climate::VolumeAttachment': VolumeAttachment}
