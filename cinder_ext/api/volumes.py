# SPDX-License-Identifier: Apache-2.0
"""Create, keep and refuse volumes that do not exist yet; for ``volume_api_class``."""

import logging
from collections.abc import Mapping
from typing import Any

from cinder import exception
from cinder.db import api as db
from cinder.volume import api
from oslo_config import cfg
from oslo_utils import timeutils
from webob import exc

from cinder_ext import conf, leases, reservation_marker, seams, sources, states
from cinder_ext.api import reserve, start
from climateclient.extension import hints
from climateclient.extension.errors import LeaseRefused, LeaseUnavailable
from climateclient.extension.leases import check_hints

LOG = logging.getLogger(__name__)

#: Parameters of :meth:`API.create` that put the volume into a group, or make it from one.
_GROUPED = (
    'group',
    'consistencygroup',
    'cgsnapshot',
    'source_cg',
    'group_snapshot',
    'source_group',
)
#: Their names in the body.
_GROUP_FIELDS = 'group_id or consistencygroup_id'


class API(api.API):
    """Volumes, for cinder-api; cinder-volume and cinder-backup make one too.

    Other volumes pay one comparison, and one SELECT when they are deleted.

    :raises climateclient.extension.errors.Incompatible: this cinder is not as expected
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        seams.check(seams.API)
        conf.register(cfg.CONF)
        super().__init__(*args, **kwargs)
        self.scheduler_rpcapi = reserve.ReservingSchedulerAPI(self.key_manager)

    def create(
        self,
        context: Any,
        size: Any,
        name: str | None,
        description: str | None,
        *args: Any,
        scheduler_hints: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Create a volume, or reserve one if the hints say so.

        :raises webob.exc.HTTPBadRequest: a hint is wrong, or the lease is refused
        :raises webob.exc.HTTPForbidden: a limit of leases is reached
        :raises webob.exc.HTTPServiceUnavailable: the lease service does not answer
        """
        if not isinstance(scheduler_hints, Mapping) or not hints.mentioned(scheduler_hints):
            return super().create(
                context, size, name, description, *args, scheduler_hints=scheduler_hints, **kwargs
            )
        try:
            checked, _, _ = check_hints(
                scheduler_hints,
                conf.rules(cfg.CONF),
                lambda: leases.service(context),
                lambda: _check_reservable(kwargs),
            )
            return super().create(
                context, size, name, description, *args, scheduler_hints=checked, **kwargs
            )
        except hints.BadHint as error:
            raise exc.HTTPBadRequest(explanation=f'Invalid scheduler hint {error}') from error
        except reserve.NotReserved as error:
            raise _answer(error.answer) from error
        except LeaseUnavailable as error:
            raise _answer(error) from error

    def unreserve_volume(self, context: Any, volume: Any) -> None:
        """Make a volume available that is about to be attached, or that has no attachment.

        Cinder writes ``reserved``, then the attachment (``API._attachment_reserve``). When its
        database stops in between, no server has the volume, and only an administrator could
        free it.
        """
        super().unreserve_volume(context, volume)
        timeout = cfg.CONF[conf.GROUP].wake_up_timeout
        if volume.status != 'reserved' or not timeutils.is_older_than(volume.updated_at, timeout):
            return
        if volume.conditional_update(
            {'status': 'available'},
            {'status': 'reserved'},
            filters=[~db.volume_has_attachments_filter()],
        ):
            LOG.warning(
                'Volume %s was reserved without an attachment, and is available', volume.id
            )

    def wake_up(self, context: Any, volume: Any) -> None:
        """Create a reserved volume on its backend; the caller checks the policy.

        :raises webob.exc.HTTPConflict: it is not reserved
        :raises webob.exc.HTTPServiceUnavailable: its backend is frozen
        """
        start.start(self.volume_rpcapi, context, volume)

    def delete(
        self,
        context: Any,
        volume: Any,
        force: bool = False,
        unmanage_only: bool = False,
        cascade: bool = False,
    ) -> None:
        """Delete any volume, but not what a reserved one will be made from.

        :raises cinder.exception.InvalidVolume: it is needed, or cinder has a reason
        """
        if volume.status != states.RESERVED:
            sources.check_volume(context, volume)
        if unmanage_only:
            _refuse(context, volume, 'There is nothing on the backend that could be left there')
        # What cinder deletes without force is an available volume, or one in error.
        shown = volume.status == states.RESERVED and not force
        if shown and not volume.conditional_update(
            {'status': 'error'}, {'status': states.RESERVED}
        ):
            raise exception.InvalidVolume(reason=f'volume {volume.id} is being changed')
        try:
            super().delete(context, volume, force, unmanage_only, cascade)
        except Exception:
            if shown:
                volume.conditional_update({'status': states.RESERVED}, {'status': 'error'})
            raise

    def delete_snapshot(
        self, context: Any, snapshot: Any, force: bool = False, unmanage_only: bool = False
    ) -> None:
        """Delete a snapshot that no reserved volume needs.

        :raises cinder.exception.InvalidSnapshot: one does, or cinder has a reason
        """
        sources.check_snapshot(context, snapshot)
        super().delete_snapshot(context, snapshot, force, unmanage_only)

    def extend(self, context: Any, volume: Any, new_size: int) -> None:
        """Extend a volume, but not beyond the reserved ones that will be made from it.

        :raises cinder.exception.InvalidVolume: they are named, or cinder has a reason
        """
        sources.check_size(context, volume, new_size)
        super().extend(context, volume, new_size)

    def extend_attached_volume(self, context: Any, volume: Any, new_size: int) -> None:
        """Extend an attached volume, as :meth:`extend`."""
        sources.check_size(context, volume, new_size)
        super().extend_attached_volume(context, volume, new_size)

    def migrate_volume(self, context: Any, volume: Any, *args: Any, **kwargs: Any) -> None:
        """Move a volume from which nothing on its backend will be made.

        :raises cinder.exception.InvalidVolume: something will, or cinder has a reason
        """
        sources.check_volume(context, volume)
        super().migrate_volume(context, volume, *args, **kwargs)

    def retype(
        self, context: Any, volume: Any, new_type: Any, migration_policy: str | None = None
    ) -> None:
        """Change the type of a volume; what reserved ones need is not moved for that.

        :raises cinder.exception.InvalidVolume: it may be moved, or cinder has a reason
        """
        if migration_policy not in (None, 'never'):
            sources.check_volume(context, volume)
        super().retype(context, volume, new_type, migration_policy)

    # Cinder calls the driver in these in any status.

    def attach(self, context: Any, volume: Any, *args: Any, **kwargs: Any) -> Any:
        """Attach a volume that exists."""
        _refuse(context, volume, 'It cannot be attached before its lease starts')
        return super().attach(context, volume, *args, **kwargs)

    def detach(self, context: Any, volume: Any, *args: Any, **kwargs: Any) -> Any:
        """Detach a volume that exists."""
        _refuse(context, volume, 'It is not attached')
        return super().detach(context, volume, *args, **kwargs)

    def initialize_connection(self, context: Any, volume: Any, *args: Any, **kwargs: Any) -> Any:
        """Connect a volume that exists."""
        _refuse(context, volume, 'It cannot be connected before its lease starts')
        return super().initialize_connection(context, volume, *args, **kwargs)

    def terminate_connection(self, context: Any, volume: Any, *args: Any, **kwargs: Any) -> Any:
        """Disconnect a volume that exists."""
        _refuse(context, volume, 'It is not connected')
        return super().terminate_connection(context, volume, *args, **kwargs)

    def reimage(self, context: Any, volume: Any, *args: Any, **kwargs: Any) -> Any:
        """Write an image onto a volume that exists."""
        _refuse(context, volume, 'It cannot be written before its lease starts')
        return super().reimage(context, volume, *args, **kwargs)


def _answer(error: LeaseRefused | LeaseUnavailable) -> exc.HTTPException:
    """Return an HTTP error with the text of the lease service."""
    if not isinstance(error, LeaseRefused):
        return exc.HTTPServiceUnavailable(explanation=str(error))
    kind = exc.HTTPForbidden if error.status == 403 else exc.HTTPBadRequest
    return kind(explanation=str(error))


def _refuse(context: Any, volume: Any, reason: str) -> None:
    """Refuse a call on a volume of which nothing exists.

    :raises cinder.exception.InvalidVolume: it is one
    """
    if volume.status == states.RESERVED or reservation_marker.get_pending_state(context, volume):
        raise exception.InvalidVolume(reason=f'volume {volume.id} is reserved. {reason}.')


def _check_reservable(others: Mapping[str, Any]) -> None:
    """Check that a volume with these other parameters of its creation can be reserved."""
    if any(others.get(name) for name in _GROUPED):
        # Cinder makes snapshots of a group, and deletes it, without looking at its volumes.
        raise hints.BadHint(
            hints.RESERVED,
            f'must be left out with {_GROUP_FIELDS}: only a volume in no group can be reserved',
        )
    conf.check_lines(cfg.CONF)
