# SPDX-License-Identifier: Apache-2.0
"""``OS::Climate::Volume``: ``OS::Cinder::Volume`` that can be reserved."""

from typing import Any, ClassVar

from heat.engine.resources.openstack.cinder import volume

from heat_ext.members import reservable
from heat_ext.service import wake_up

_RESERVED = 'lease-reserved'
#: A wake_up that failed, which cinder lets be asked for again.
_BROKEN = frozenset(('error', 'error_restoring'))
#: Somebody else has woken it, and something has it.
_TAKEN = frozenset(('in-use', 'attaching', 'reserved'))


class Volume(reservable.Reservable, volume.CinderVolume):
    """A volume whose hints, or whose stack, may name a lease."""

    ASLEEP: ClassVar[frozenset[str]] = frozenset((_RESERVED,))
    WAKEABLE: ClassVar[frozenset[str]] = ASLEEP | _BROKEN
    IN_SLEEP: ClassVar[frozenset[str]] = frozenset(
        (
            volume.CinderVolume.NAME,
            volume.CinderVolume.DESCRIPTION,
            volume.CinderVolume.METADATA,
            volume.CinderVolume.READ_ONLY,
        )
    )
    WHEN_AWAKE: ClassVar[frozenset[str]] = frozenset((volume.CinderVolume.READ_ONLY,))

    def _reserve(self) -> Any:
        """Create it, one of a backup as well: heat would let cinder restore the backup at once."""
        backup_id = self.properties[self.BACKUP_ID]
        if backup_id is None:
            return super()._reserve()
        arguments = {**self._create_arguments(), **self._fetch_name_and_description()}
        arguments['size'] = arguments['size'] or self.client().backups.get(backup_id).size
        made = self.client().volumes.create(backup_id=backup_id, **arguments)
        self.resource_id_set(made.id)
        return made.id

    def _fetch(self) -> Any:
        return self.client().volumes.get(self.resource_id)

    def _status(self, found: Any) -> str:
        return found.status

    def _is_in_between(self, found: Any) -> bool:
        return found.status in self._volume_creating_status

    def _sources_are_there(self) -> bool:
        return True

    def _reason(self, found: Any) -> str:  # noqa: ARG002
        return 'The volume could not be created; its messages say why.'

    def _wake_up(self) -> None:
        wake_up.volume(self, self.resource_id)

    def _fall_asleep(self) -> None:
        self._store_config_default_properties()

    def _is_awake(self, found: Any) -> bool:
        return found.status in _TAKEN or super()._is_awake(found)

    def needs_replace_failed(self) -> bool:
        if self.action == self.UPDATE and self.lease_id():
            found = self._look()
            if found is not None and found.status in _BROKEN:
                return not self._due()
        return super().needs_replace_failed()

    def check_delete_complete(self, prg: Any) -> bool:
        """Wait for the end of a wake_up: cinder does not delete what it is making."""
        if not prg.delete['called'] and self.lease_id():
            found = self._look()
            if found is not None and found.status in self._volume_creating_status:
                return False
        return super().check_delete_complete(prg)

    def handle_restore(self, defn: Any, restore_data: Any) -> Any:
        if not restore_data['resource_data'].get('backup_id'):
            return defn
        return super().handle_restore(defn, restore_data)


TYPES = {'OS::Climate::Volume': Volume}
