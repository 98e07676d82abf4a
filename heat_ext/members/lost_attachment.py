# SPDX-License-Identifier: Apache-2.0
"""Break off an attachment of a volume that nova or cinder lost, and request it again.

Nova records the volume of a server, has cinder reserve it, and sends nova-compute a message. If a
process dies in between, or nova-compute can reach neither its database nor cinder when it wants
to undo what failed, the record stays, and nova refuses each further request: the volume is already
attached. Cinder shows it ``available``, ``reserved`` or ``attaching`` then. What an operator does
is to let the attachment count as complete, which is what cinder wants of a volume that is to be
detached (cinder/volume/api.py begin_detaching), and to detach it.
"""

import time
from typing import Any, Final

from heat.common import exception
from oslo_config import cfg

from heat_ext.service import attachments, conf

#: What cinder shows before an attachment is complete.
_INCOMPLETE: Final = frozenset(('available', 'reserved', 'attaching'))
#: Keys in the resource data, which another engine or a later update reads: the time of the last
#: request in seconds since 1970, and whether the attachment is being broken off.
_SINCE: Final = 'climate_attaching_since'
_BROKEN_OFF: Final = 'climate_broken_off'
#: Since 2.89 nova hides the volumes for which it has saved no attachment of cinder.
_LISTS_ALL: Final = '2.1'


class LostAttachment:
    """A mixin for heat's OS::Cinder::VolumeAttachment, which waits without a limit."""

    def handle_create(self) -> Any:
        self._start_waiting()
        return super().handle_create()

    def resume_create(self, server_id: str, volume_id: str) -> str:
        """Attach a volume, unless an earlier request of heat goes on; return the volume's id."""
        if _BROKEN_OFF in self.data():
            self._start_waiting()
            self._break_off(volume_id)
        else:
            self._attach_unrecorded(server_id, volume_id)
        return volume_id

    def check_create_complete(self, volume_id: str) -> bool:
        """Return whether the volume is attached.

        :raises heat.common.exception.ResourceInError: a lost attachment could not be broken off
        """
        if _BROKEN_OFF in self.data():
            self._attach_again(volume_id)
        elif super().check_create_complete(volume_id):
            self.data_delete(_SINCE)
            if self.resource_id is None:
                # The answer of nova was lost. Nova's id of an attachment is that of the volume.
                self.resource_id_set(volume_id)
            return True
        elif self._is_lost():
            self._break_off(volume_id)
        return False

    def _start_waiting(self) -> None:
        self.data_set(_SINCE, str(time.time()))

    def _is_lost(self) -> bool:
        if _SINCE not in self.data():
            self._start_waiting()
        age = time.time() - float(self.data()[_SINCE])
        return age >= cfg.CONF[conf.GROUP].lost_attach_seconds

    def _attach_unrecorded(self, server_id: str, volume_id: str) -> bool:
        """Attach a volume if nova has no record of it; return whether it has none.

        Nova writes its record before cinder's attachment, and deletes it after that. So an
        attachment that was there before nova was found without a record is left over. Cinder
        would let a second one be made beside it, and reserve the volume for ever.
        """
        left_over = attachments.list_ids(self, server_id, volume_id)
        nova = self.client_plugin('nova').client(_LISTS_ALL)
        listed = nova.volumes.get_server_volumes(server_id)
        if any(each.volumeId == volume_id for each in listed):
            return False
        for each in left_over:
            attachments.delete(self, each)
        self.data_delete(_BROKEN_OFF)
        self._start_waiting()
        super().handle_create()
        return True

    def _break_off(self, volume_id: str) -> None:
        status, server_id = self._volume_status(volume_id), self.properties[self.INSTANCE_ID]
        # In use it is if nova could not detach it the last time.
        if status not in _INCOMPLETE and not (status == 'in-use' and _BROKEN_OFF in self.data()):
            # Nova has just ended it, or a user.
            return
        if self._attach_unrecorded(server_id, volume_id):
            return
        self.data_set(_BROKEN_OFF, 'True')
        attachments.complete(self, server_id, volume_id)
        self.client('nova').volumes.delete_server_volume(server_id, volume_id)
        self._start_waiting()

    def _attach_again(self, volume_id: str) -> None:
        """Attach a volume again once it is detached.

        Cinder shows a volume available a moment before nova deletes its record.
        """
        status, server_id = self._volume_status(volume_id), self.properties[self.INSTANCE_ID]
        if status == 'available' and self._attach_unrecorded(server_id, volume_id):
            return
        if status not in ('available', 'detaching') or self._is_lost():
            raise exception.ResourceInError(
                resource_status=status,
                status_reason='Nova lost the attachment of the volume and could not detach it; an '
                f'administrator must detach it from server {server_id}',
            )

    def _volume_status(self, volume_id: str) -> Any:
        return self.client('cinder').volumes.get(volume_id).status
