# SPDX-License-Identifier: Apache-2.0
"""For ``osapi_volume_extension``: POST /volumes/{id}/action {"os-wake_up": {}}, the second half
of a reserved creation, and what an administrator may not write over a reservation.

A 202 says that a message was sent to cinder-volume, not that it arrives. The lease service, which
does not see the marker (:mod:`cinder_ext.reservation_marker`), asks again and relies on:

================= ================================================================================
status            answer to an os-wake_up
================= ================================================================================
lease-reserved    202: nothing creates it (never asked, or failed with a user message)
creating          no cinder-volume has begun, no sign of life: 409 until ``[climate]
                  wake_up_timeout`` seconds have passed since the last change (``updated_at``),
                  then 202. Once a cinder-volume has begun: 409
downloading and   a cinder-volume or cinder-backup has begun: 409
other steps
error,            202: the creation broke off; what it left is removed from the backend first.
error_restoring   409 for an ordinary volume in error
available         409: it is created
================= ================================================================================

Repeating an os-wake_up is always safe. Messages may arrive late, twice and in any order: the
first that finds the volume ``creating`` creates it under cinder's lock of the volume and writes
the marker ``waking`` before it asks the driver; all others find another status and are ignored. A
cinder-volume that stops in between sets the volume to ``error`` when it starts again. For one
whose step never ends (a message lost between cinder-volume and cinder-backup) an administrator
may write ``error`` with os-reset_status once no process works on it; then os-wake_up creates it
anew.

A message that is lost at the reservation leaves the volume ``creating`` too. With a host an
os-wake_up creates it all the same; without one (cinder-scheduler never had it: 409) it can only
be deleted, after os-reset_status to ``error``.
"""

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import oslo_messaging
from cinder import backup, objects, volume
from cinder.api import extensions, validation
from cinder.api.openstack import wsgi
from cinder.policies import volume_actions
from webob import exc

from cinder_ext import messages, policies, reservation_marker
from cinder_ext.api import backups, groups, volumes
from climateclient.extension import wake_up

LOG = logging.getLogger(__name__)

SCHEMA = wake_up.schema('os-wake_up')

_RESET = 'os-reset_status'
#: What os-reset_status may write into the row of a reserved volume.
_HARMLESS = {'status': 'error', 'attach_status': 'detached', 'migration_status': 'none'}


class WakeUpController(wsgi.Controller):
    """Actions of cinder's volumes."""

    def __init__(self) -> None:
        super().__init__()
        self.volume_api = volume.API()

    @wsgi.response(HTTPStatus.ACCEPTED)
    @wsgi.action('os-wake_up')
    @validation.schema(SCHEMA)
    def _wake_up(self, req: Any, id: str, body: Any) -> None:  # noqa: ARG002
        """Create a reserved volume on the backend that holds its capacity."""
        context = req.environ['cinder.context']
        found = self.volume_api.get(context, id)
        policies.POLICY.authorize(context, found)
        try:
            self.volume_api.wake_up(context, found)
        except oslo_messaging.MessagingException as error:
            LOG.exception('Could not start reserved volume %s', id)
            raise exc.HTTPServiceUnavailable(
                explanation='The volume cannot be created now: a service does not answer. '
                'Try again later.'
            ) from error

    @wsgi.extends(action=_RESET)
    def _reset_status(self, req: Any, id: str, body: Any) -> Iterator[None]:
        """Check the new status before cinder writes it: Nova attaches what is available."""
        context = req.environ['cinder.context']
        found = objects.Volume.get_by_id(context, id)
        if not _harmless(body.get(_RESET)) and reservation_marker.get_pending_state(
            context, found
        ):
            context.authorize(volume_actions.RESET_STATUS, target_obj=found)
            raise exc.HTTPBadRequest(
                explanation=f'Volume {id} is reserved: nothing of it exists yet. Its status can '
                'be reset to error only; then it can be started or deleted.'
            )
        yield


class Reservations(extensions.ExtensionDescriptor):
    """Volumes that are reserved now and created when their lease starts."""

    name = 'Reservations'
    alias = 'climate-reservations'
    updated = '2026-11-21T00:00:00+00:00'

    def __init__(self, ext_mgr: Any) -> None:
        missing = _missing()
        if missing:
            # Cinder logs every Exception of an extension and goes on without it.
            LOG.critical(missing)
            raise SystemExit(missing)
        messages.install()
        super().__init__(ext_mgr)

    def get_controller_extensions(self) -> list[extensions.ControllerExtension]:
        """Add the actions to those of volumes, and checks before groups are deleted."""
        added = {'volumes': WakeUpController, **groups.CONTROLLERS}
        return [
            extensions.ControllerExtension(self, collection, controller())
            for collection, controller in added.items()
        ]


def _harmless(written: Any) -> bool:
    """Return whether these values leave a volume reserved; cinder refuses what is no object."""
    if not isinstance(written, dict):
        return True
    return all(
        written.get(name) is None or str(written[name]).lower() == value
        for name, value in _HARMLESS.items()
    )


def _missing() -> str | None:
    """Return a text that names missing lines of cinder.conf; None if there are all."""
    lines = [
        f'{option} = {wanted.__module__}.API'
        for option, made, wanted in (
            ('volume_api_class', volume.API(), volumes.API),
            ('backup_api_class', backup.API(), backups.API),
        )
        if not isinstance(made, wanted)
    ]
    return f'Climate needs these lines in cinder.conf: {", ".join(lines)}' if lines else None
