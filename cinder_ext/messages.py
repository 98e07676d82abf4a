# SPDX-License-Identifier: Apache-2.0
"""Tell the owner why a reserved volume could not be created: ``GET /v3/{project}/messages``.

Cinder's messages are numbers that stand for fixed sentences, so that no detail of a backend is
shown; this module adds a few rows to its table of sentences. cinder-volume writes the numbers,
cinder-api the sentences, so both call :func:`install`.
"""

from typing import Any

from cinder import context as cinder_context
from cinder import exception
from cinder.db import api as db
from cinder.message import message_field

DETAIL = message_field.Detail

NO_SOURCE = (
    'climate1',
    'The image, snapshot, volume or backup that the reserved volume is made from is gone or '
    'cannot be read.',
)
NO_RESERVATION = (
    'climate2',
    'A reservation is asked for, but the volume is in no lease: the API of the volume service '
    'has no reservations.',
)
LEFT_OVER = (
    'climate3',
    'What is left of an attempt to create the reserved volume cannot be removed.',
)

#: No other exceptions of cinder say that a source is the reason.
_SOURCES = (
    exception.ImageNotFound,
    exception.ImageCopyFailure,
    exception.ImageUnacceptable,
    exception.GlanceConnectionFailed,
    exception.SnapshotNotFound,
    exception.VolumeNotFound,
    exception.BackupNotFound,
)


def install() -> None:
    """Add the sentences to cinder's table; a second time does nothing."""
    if NO_SOURCE not in DETAIL.ALL:
        DETAIL.ALL = (*DETAIL.ALL, NO_SOURCE, NO_RESERVATION, LEFT_OVER)


def create(
    message_api: Any,
    context: Any,
    volume: Any,
    error: Exception | None,
    detail: tuple[str, str] | None = None,
) -> None:
    """Create a message for the owner, unless cinder has created one in this request.

    :param message_api: cinder.message.api.API
    :param error: why the volume was not created
    :param detail: one of the sentences of this module, even after another message
    """
    if detail is None:
        if _was_created(context, volume):
            return
        detail = NO_SOURCE if isinstance(error, _SOURCES) else DETAIL.DRIVER_FAILED_CREATE
    message_api.create(
        _owner_context(context, volume),
        message_field.Action.CREATE_VOLUME_FROM_BACKEND,
        resource_uuid=volume.id,
        exception=error,
        detail=detail,
    )


def _was_created(context: Any, volume: Any) -> bool:
    filters = {'resource_uuid': volume.id, 'request_id': context.request_id}
    return bool(db.message_get_all(_owner_context(context, volume), filters=filters))


def _owner_context(context: Any, volume: Any) -> Any:
    """Return a context in the project of the volume: an administrator may have woken it."""
    values = context.to_dict() | {'project_id': volume.project_id}
    return cinder_context.RequestContext.from_dict(values)
