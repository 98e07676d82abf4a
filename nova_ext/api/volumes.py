# SPDX-License-Identifier: Apache-2.0
"""Let nova-api create servers with volumes that are reserved in a lease.

Nova attaches every volume of a new server at once, and cinder refuses that while the volume has
nothing on its backend. A reserved server of the same lease takes it without an attachment:
wake_up makes it when the volume is there (:mod:`nova_ext.volumes`).
"""

import contextlib
import contextvars
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any, NoReturn

import nova.context
from nova import exception, objects

from climateclient import models
from climateclient.extension import hints
from nova_ext import volumes

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation that a request asks for.

    :param wanted: its hints
    :param volumes: ids of the volumes in the lease that it names
    """

    wanted: hints.ReservationHints
    volumes: frozenset[str]


_asked: contextvars.ContextVar[Reservation | None] = contextvars.ContextVar('asked', default=None)


@contextlib.contextmanager
def of(wanted: hints.ReservationHints | None, lease: models.Lease | None) -> Iterator[None]:
    """Note what the request in this thread asks for, while nova works on it.

    :param wanted: its hints; None if it asks for no reservation
    :param lease: the lease that the hints name, if there is one
    """
    found = frozenset(
        each.resource_id
        for each in (lease.reservations if lease else ())
        if each.resource_type == volumes.RESOURCE_TYPE
        and each.resource_id
        and each.status not in ('deleting', 'deleted')
    )
    token = _asked.set(Reservation(wanted, found) if wanted else None)
    try:
        yield
    finally:
        _asked.reset(token)


class VolumeAPI:
    """Delegate to nova's API of cinder, except for volumes that wait for their lease.

    An ordinary request makes no additional call.

    :param api: nova.volume.cinder.API
    """

    def __init__(self, api: Any) -> None:
        self._api = api

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def attachment_create(
        self, context: Any, volume_id: str, instance_id: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Attach a volume, or take it without an attachment if it waits in the server's lease.

        :returns: nova's attachment; one with the id None is none
        :raises nova.exception.InvalidVolume: it waits in another lease, or for another server
        :raises: what nova.volume.cinder raises
        """
        asked = _asked.get()
        if asked and volume_id in asked.volumes:
            volume = self._api.get(context, volume_id)
            if volume['status'] in volumes.COMING:
                _check_free(context, volume)
                return {'id': None}
        try:
            return self._api.attachment_create(context, volume_id, instance_id, *args, **kwargs)
        except exception.InvalidInput as error:
            if self._api.get(context, volume_id)['status'] == volumes.RESERVED:
                _refuse(volume_id, asked, error)
            raise

    def detach(
        self,
        context: Any,
        volume_id: str,
        instance_uuid: str | None = None,
        attachment_id: str | None = None,
    ) -> None:
        """Detach a volume that has no attachment in nova, if it is this server's.

        Without an attachment id cinder would detach any attachment
        (cinder/volume/manager.py, detach_volume).

        :raises: what nova.volume.cinder raises
        """
        if attachment_id is None and instance_uuid is not None:
            attachments = self._api.get(context, volume_id).get('attachments') or {}
            if instance_uuid not in attachments:
                LOG.info('Volume %s is not attached to server %s', volume_id, instance_uuid)
                return
        self._api.detach(context, volume_id, instance_uuid, attachment_id)


def _refuse(volume_id: str, asked: Reservation | None, error: Exception) -> NoReturn:
    if asked is None:
        advice = f'Create the server with the hint {hints.LEASE_ID}=..., the lease of the volume'
    elif not asked.wanted.join:
        advice = (
            f'These hints make a new lease: give the hint {hints.LEASE_ID}=..., the lease of the '
            f'volume, instead'
        )
    else:
        advice = (
            f'It is not in lease {asked.wanted.lease_id}: give the hint {hints.LEASE_ID}=..., the '
            f'lease of the volume'
        )
    raise exception.InvalidVolume(
        reason=f'volume {volume_id} is reserved in a lease (its status is {volumes.RESERVED}), '
        f'and is there from the start of that lease. {advice}.'
    ) from error


def _check_free(context: Any, volume: Any) -> None:
    """Refuse a volume that another server waits for.

    Without an attachment cinder cannot know. Of two requests at the same moment both may get
    through; then wake_up of the second says that the volume is in use.
    """
    if volume['multiattach']:
        return
    server = next(_waiting(context, volume['id']), None)
    if server:
        raise exception.InvalidVolume(
            reason=f'volume {volume["id"]} already belongs to server {server}'
        )


def _waiting(context: Any, volume_id: str) -> Iterator[str]:
    """Find the servers with a volume: those that no cell has yet, then those of all cells."""
    for request in objects.BuildRequestList.get_all(context):
        if any(bdm.volume_id == volume_id for bdm in request.block_device_mappings):
            yield request.instance_uuid
    found = nova.context.scatter_gather_skip_cell0(context, _in_cell, volume_id)
    for servers in found.values():
        # A cell that does not answer says nothing, and wake_up still looks.
        if isinstance(servers, list):
            yield from servers


def _in_cell(context: Any, volume_id: str) -> list[str]:
    try:
        bdms = objects.BlockDeviceMappingList.get_by_volume(context, volume_id)
    except exception.VolumeBDMNotFound:
        return []
    return [bdm.instance_uuid for bdm in bdms]
