# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::VolumeAttachment``: ``OS::Cinder::VolumeAttachment`` of a server that sleeps."""

from collections.abc import Mapping
from typing import Any

from heat.engine.resources.openstack.cinder import volume

from heat_ext.members import deferred
from heat_ext.stacks import tree


class VolumeAttachment(deferred.Deferred, volume.CinderVolumeAttachment):
    """An attachment that is made when its server runs and its volume is there."""

    def needed(self) -> tuple[str | None, ...]:
        return self._needed(self.properties)

    def _needed(self, properties: Mapping[str, Any]) -> tuple[str | None, ...]:
        return properties[self.INSTANCE_ID], properties[self.VOLUME_ID]

    def needs_replace_with_prop_diff(
        self, changed_properties_set: set[str], after_props: Any, before_props: Any
    ) -> bool:
        """Whether it moves to what sleeps: another one waits for that, this one is detached."""
        wanted = filter(None, self._needed(after_props))
        if not self.is_deferred() and tree.sleepers(self.context, wanted):
            return True
        return super().needs_replace_with_prop_diff(
            changed_properties_set, after_props, before_props
        )

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
