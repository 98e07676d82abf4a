# SPDX-License-Identifier: Apache-2.0
"""Do the first half of a reserved creation in cinder-api: marker, lease, then scheduler.

Cinder's flow (cinder/volume/flows/api/create_volume.py) calls us when the row of the volume is
there and its quota counted, and no message was sent. If this raises, the flow gives the quota
back; the row is removed here.
"""

import contextlib
import datetime
import logging
from collections.abc import Iterator
from typing import Any

from cinder import exception
from cinder.db import api as db
from cinder.scheduler import rpcapi
from cinder.volume import volume_utils
from oslo_config import cfg

from cinder_ext import conf, leases, reservation_marker
from climate_common import resource_types
from climateclient.extension import hints
from climateclient.extension.errors import LeaseRefused, LeaseUnavailable

LOG = logging.getLogger(__name__)


class NotReserved(exception.InvalidInput):
    """The lease service refuses, or does not answer.

    Cinder's flow logs what is a fault of the user without a page of the way to it. An exception
    with a long chain of causes keeps taskflow busy for minutes: it writes each of them, and all
    that caused it, over and over (taskflow/types/failure.py, to_dict). So this one has none.

    :param answer: what the lease service did
    """

    def __init__(self, answer: LeaseRefused | LeaseUnavailable) -> None:
        super().__init__(reason=str(answer))
        self.answer = answer


class ReservingSchedulerAPI(rpcapi.SchedulerAPI):
    """Put a volume into its lease before cinder sends it to the scheduler.

    :param key_manager: has the keys of encrypted volumes
    """

    def __init__(self, key_manager: Any) -> None:
        super().__init__()
        self._key_manager = key_manager

    def create_volume(
        self,
        ctxt: Any,
        volume: Any,
        snapshot_id: str | None = None,
        image_id: str | None = None,
        request_spec: Any = None,
        filter_properties: dict[str, Any] | None = None,
        backup_id: str | None = None,
    ) -> None:
        """Send a volume to the scheduler, a reserved one when it is in its lease.

        :raises NotReserved: the lease service says no, or does not answer; no volume is left. A
            lease that was made nevertheless holds a volume that is not there: the lease service
            finds that out by itself
        """
        with contextlib.ExitStack() as stack:
            wanted = _wanted(filter_properties)
            if wanted is not None:
                stack.enter_context(self._undone(ctxt, volume))
                sources = {'image_id': image_id, 'backup_id': backup_id}
                spec = {key: value for key, value in sources.items() if value}
                reservation_marker.create(
                    ctxt, volume, reservation_marker.HELD, wanted.lease_id, spec
                )
                _enter(ctxt, wanted, volume)
                LOG.info('Volume %s is in lease %s', volume.id, wanted.lease_id)
            super().create_volume(
                ctxt, volume, snapshot_id, image_id, request_spec, filter_properties, backup_id
            )

    @contextlib.contextmanager
    def _undone(self, context: Any, volume: Any) -> Iterator[None]:
        """Remove all of a volume whose creation fails in this request."""
        try:
            yield
        except Exception:
            LOG.info('Volume %s is not reserved; its row is removed', volume.id)
            self._delete_key(context, volume)
            # The marker is deleted with it.
            volume.destroy()
            db.worker_destroy(context.elevated(), resource_type='Volume', resource_id=volume.id)
            raise

    def _delete_key(self, context: Any, volume: Any) -> None:
        if not volume.encryption_key_id:
            return
        try:
            volume_utils.delete_encryption_key(
                context, self._key_manager, volume.encryption_key_id
            )
        except Exception:
            LOG.exception('Key %s is left over', volume.encryption_key_id)


def _enter(context: Any, wanted: hints.ReservationHints, volume: Any) -> None:
    answer = None
    try:
        leases.service(context).reserve(
            wanted, volume.id, resource_types.volume_amounts(volume.size)
        )
    except (LeaseRefused, LeaseUnavailable) as error:
        answer = error
    if answer:
        raise NotReserved(answer)


def _wanted(filter_properties: dict[str, Any] | None) -> hints.ReservationHints | None:
    """Read the hints that were checked when the request came in."""
    given = (filter_properties or {}).get('scheduler_hints')
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return hints.parse(given, now, conf.rules(cfg.CONF), fresh=False)
