# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::VolumeAttachment``: ``OS::Cinder::VolumeAttachment`` of a reserved server."""

from collections.abc import Mapping
from typing import Any

from heat.engine.resources.openstack.cinder import volume

from heat_ext.members import deferred_create, lost_attachment
from heat_ext.stacks import tree


class VolumeAttachment(
    deferred_create.DeferredCreate,
    lost_attachment.LostAttachment,
    volume.CinderVolumeAttachment,
):
    """An attachment that is created when its server runs and its volume exists."""

    def required_ids(self) -> tuple[str | None, ...]:
        return self._required_ids(self.properties)

    def _required_ids(self, properties: Mapping[str, Any]) -> tuple[str | None, ...]:
        return properties[self.INSTANCE_ID], properties[self.VOLUME_ID]

    def needs_replace_with_prop_diff(
        self, changed_properties_set: set[str], after_props: Any, before_props: Any
    ) -> bool:
        """Return whether the attachment moves to a reserved server or volume.

        The replacement is deferred, and this one is detached.
        """
        required = filter(None, self._required_ids(after_props))
        if not self.is_deferred() and tree.list_unstarted(self.context, required):
            return True
        return super().needs_replace_with_prop_diff(
            changed_properties_set, after_props, before_props
        )

    def needs_replace_failed(self) -> bool:
        """Return False for a deferred attachment that failed: the next update goes on with it."""
        return not self.is_deferred() and super().needs_replace_failed()

    def _create_deferred(self) -> Any:
        return self.resume_create(*self.required_ids())


TYPES = {'OS::Climate::VolumeAttachment': VolumeAttachment}
