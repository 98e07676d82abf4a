# SPDX-License-Identifier: Apache-2.0
"""Break off an attachment of a volume that nova or cinder lost, and request it again.

Nova answers before nova-compute attaches a volume. If that message is lost, or nova-compute can
reach neither its database nor cinder when it wants to undo what failed, cinder shows the volume
``reserved`` or ``attaching`` for ever, nova lists it among those of the server, and refuses to
attach it again. What an operator does is to let the attachment count as complete, which is what
cinder wants of a volume that is to be detached (cinder/volume/api.py begin_detaching), and to
detach it.
"""

import time
from typing import Any, Final

from heat.common import exception
from oslo_config import cfg

from heat_ext.service import attachments, conf

#: What cinder shows before an attachment is complete.
_INCOMPLETE: Final = frozenset(('reserved', 'attaching'))


class LostAttachment:
    """A mixin for heat's OS::Cinder::VolumeAttachment, which waits without a limit."""

    #: When this action of heat first saw the volume in the status that it waits with.
    _waits_since: float | None = None
    #: Whether the attachment was broken off, and its volume is not detached yet.
    _broken_off = False

    def check_create_complete(self, volume_id: str) -> bool:
        """Return whether the volume is attached.

        :raises heat.common.exception.ResourceInError: a lost attachment could not be broken off
        """
        if self._broken_off:
            return self._attach_again(volume_id)
        if super().check_create_complete(volume_id):
            return True
        if self._is_lost():
            self._break_off(volume_id)
        return False

    def _is_lost(self) -> bool:
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        return time.monotonic() - self._waits_since >= cfg.CONF[conf.GROUP].lost_attach_seconds

    def _break_off(self, volume_id: str) -> None:
        status = self._volume_status(volume_id)
        if status not in _INCOMPLETE:
            # Nova has just ended it, or a user.
            return
        server_id = self.properties[self.INSTANCE_ID]
        attachments.complete(self, server_id, volume_id)
        self.client('nova').volumes.delete_server_volume(server_id, volume_id)
        self._broken_off, self._waits_since = True, None

    def _attach_again(self, volume_id: str) -> bool:
        """Attach a volume once it is detached; return False, as it is not attached before that."""
        status = self._volume_status(volume_id)
        if status == 'available':
            self._broken_off, self._waits_since = False, None
            super().handle_create()
        elif status != 'detaching' or self._is_lost():
            raise exception.ResourceInError(
                resource_status=status,
                status_reason='Nova lost the attachment of the volume and could not detach it; an '
                f'administrator must detach it from server {self.properties[self.INSTANCE_ID]}',
            )
        return False

    def _volume_status(self, volume_id: str) -> Any:
        return self.client('cinder').volumes.get(volume_id).status
