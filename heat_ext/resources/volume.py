# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::Volume``: ``OS::Cinder::Volume`` that can be reserved."""

from typing import Any, ClassVar

from heat.engine.resources.openstack.cinder import volume

from heat_ext.members import reservable
from heat_ext.service import wake_up

_RESERVED = 'lease-reserved'
#: Cinder shows it from a wake-up on until the volume is there, or something is copied to it.
_CREATING = 'creating'
#: After a failed wake-up, which cinder lets be requested again.
_FAILED = frozenset(('error', 'error_restoring'))
#: Someone else has woken up the volume, and uses it.
_IN_USE = frozenset(('in-use', 'attaching', 'reserved'))


class Volume(reservable.Reservable, volume.CinderVolume):
    """A volume whose hints, or whose stack, may name a lease."""

    RESERVED_STATUSES: ClassVar[frozenset[str]] = frozenset((_RESERVED,))
    WAKEABLE_STATUSES: ClassVar[frozenset[str]] = RESERVED_STATUSES | _FAILED
    UPDATABLE: ClassVar[frozenset[str]] = frozenset(
        (
            volume.CinderVolume.NAME,
            volume.CinderVolume.DESCRIPTION,
            volume.CinderVolume.METADATA,
            volume.CinderVolume.READ_ONLY,
        )
    )
    APPLIED_AFTER_START: ClassVar[frozenset[str]] = frozenset((volume.CinderVolume.READ_ONLY,))

    def _reserve(self) -> Any:
        """Create the volume with its hints; heat would restore a backup without them, at once."""
        backup_id = self.properties[self.BACKUP_ID]
        if backup_id is None:
            return super()._reserve()
        arguments = {**self._create_arguments(), **self._fetch_name_and_description()}
        arguments['size'] = arguments['size'] or self.client().backups.get(backup_id).size
        created = self.client().volumes.create(backup_id=backup_id, **arguments)
        self.resource_id_set(created.id)
        return created.id

    def _poll(self) -> Any:
        return self.client().volumes.get(self.resource_id)

    def _status(self, found: Any) -> str:
        return found.status

    def _is_transitional(self, found: Any) -> bool:
        return found.status in self._volume_creating_status

    def _is_unanswered(self, found: Any) -> bool:
        return found.status == _CREATING

    def _sources_ready(self) -> bool:
        return True

    def _failure_reason(self, found: Any) -> str:  # noqa: ARG002
        return 'The volume could not be created; its messages have the reason.'

    def _wake_up(self) -> None:
        wake_up.volume(self, self.resource_id)

    def _on_reserved(self) -> None:
        self._store_config_default_properties()

    def _has_started(self, found: Any) -> bool:
        return found.status in _IN_USE or super()._has_started(found)

    def needs_replace_failed(self) -> bool:
        if self.action == self.UPDATE and self.lease_id():
            found = self._find_live()
            if found is not None and found.status in _FAILED:
                return not self._is_due()
        return super().needs_replace_failed()

    def check_delete_complete(self, prg: Any) -> bool:
        """Wait for the end of a wake-up: cinder refuses to delete a volume that it creates."""
        if not prg.delete['called'] and self.lease_id():
            found = self._find_live()
            if found is not None and found.status in self._volume_creating_status:
                return False
        return super().check_delete_complete(prg)

    def handle_restore(self, defn: Any, restore_data: Any) -> Any:
        if not restore_data['resource_data'].get('backup_id'):
            return defn
        return super().handle_restore(defn, restore_data)


TYPES = {'OS::Climate::Volume': Volume}
