# SPDX-License-Identifier: Apache-2.0
"""Mark volumes whose creation waits for a lease, or has begun and not succeeded.

The marker lies in ``volume_admin_metadata``: it is deleted with the volume, needs no further
table, and no API shows it to a user. The marker decides, not the status, which an administrator
may write:

``held``
    nothing is on the backend, and nothing was asked of its driver
``waking``
    a creation was begun and has not succeeded: something may be there
no marker
    an ordinary volume

Every function takes the context and the volume (or anything with its ``id``) of the caller and
works with the rights of an administrator.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from cinder.db import api as db
from cinder.db import models
from oslo_utils import timeutils

HELD = 'held'
WAKING = 'waking'

#: Every key begins so.
PREFIX = 'climate_'
#: Key of the state: what :mod:`cinder_ext.capacity` looks for.
STATE = 'climate_reserved'
LEASE = 'climate_lease'
SPEC = 'climate_spec_'
#: Less than the length of ``volume_admin_metadata.value``, 255.
_CHUNK = 250


@dataclasses.dataclass(frozen=True, slots=True)
class Marker:
    """The marker of a volume.

    :param state: :data:`HELD` or :data:`WAKING`
    :param lease_id: the lease that wakes the volume
    :param spec: what its creation needs and the row of the volume does not keep: ``image_id``,
        ``backup_id``, as far as there is one
    """

    state: str
    lease_id: str | None
    spec: Mapping[str, Any]


def create(context: Any, volume: Any, state: str, lease_id: str, spec: Mapping[str, Any]) -> None:
    """Write the marker of a volume.

    :raises cinder.exception.VolumeNotFound: it is gone
    """
    text = json.dumps(dict(spec), sort_keys=True)
    chunks = {
        f'{SPEC}{number:04d}': text[begin : begin + _CHUNK]
        for number, begin in enumerate(range(0, len(text), _CHUNK))
    }
    _write(context, volume, {STATE: state, LEASE: lease_id, **chunks})


def get(context: Any, volume: Any) -> Marker | None:
    """Return the marker: one SELECT. None is an ordinary volume, or one that is deleted."""
    values = _read(context, volume)
    if STATE not in values:
        return None
    text = ''.join(values[key] for key in sorted(values) if key.startswith(SPEC))
    return Marker(values[STATE], values.get(LEASE), json.loads(text) if text else {})


def get_state(context: Any, volume: Any) -> str | None:
    """Return :data:`HELD`, :data:`WAKING`, or None for an ordinary volume."""
    marker = get(context, volume)
    return marker.state if marker else None


def get_pending_state(context: Any, volume: Any) -> str | None:
    """Return the state of a volume that is not complete; a complete one costs no statement.

    Cinder writes ``launched_at`` when a creation ends well. The marker of such a volume is left
    over from a process that died just then, and means nothing.
    """
    return None if volume.launched_at is not None else get_state(context, volume)


def get_lease_id(context: Any, volume: Any) -> str | None:
    """Return the id of the lease that the volume waits for."""
    marker = get(context, volume)
    return marker.lease_id if marker else None


def get_creation_args(context: Any, volume: Any) -> dict[str, Any]:
    """Return what the creation needs and the row does not keep; empty without a marker."""
    marker = get(context, volume)
    return dict(marker.spec) if marker else {}


def set_waking(context: Any, volume: Any) -> None:
    """Note that something may be on the backend from now on: before the driver is asked."""
    _write(context, volume, {STATE: WAKING}, add=False)


def set_held(context: Any, volume: Any) -> None:
    """Note that nothing is on the backend again: after the driver has deleted it."""
    _write(context, volume, {STATE: HELD}, add=False)


def clear(context: Any, volume: Any) -> None:
    """Make it an ordinary volume: one UPDATE. One that is ordinary or deleted is no error."""
    elevated = context.elevated()
    with db.main_context_manager.writer.using(elevated):
        rows = _rows(elevated, volume)
        # As cinder deletes an entry (cinder/db/api.py, volume_admin_metadata_delete).
        rows.update({'deleted': True, 'deleted_at': timeutils.utcnow()}, False)
    _tell(volume, {})


def _read(context: Any, volume: Any) -> dict[str, str]:
    """Read with one statement; cinder's own function first looks whether the volume exists."""
    elevated = context.elevated()
    with db.main_context_manager.reader.using(elevated):
        return {row.key: row.value for row in _rows(elevated, volume)}


def _rows(context: Any, volume: Any) -> Any:
    column = models.VolumeAdminMetadata.key
    return (
        context.session.query(models.VolumeAdminMetadata)
        .filter_by(volume_id=volume.id, deleted=False)
        .filter(column.startswith(PREFIX, autoescape=True))
    )


def _write(context: Any, volume: Any, values: dict[str, str], add: bool = True) -> None:
    found = db.volume_admin_metadata_update(
        context.elevated(), volume.id, values, delete=False, add=add
    )
    _tell(volume, {key: value for key, value in found.items() if key.startswith(PREFIX)})


def _tell(volume: Any, ours: Mapping[str, str]) -> None:
    """Update an object that carries the entries: a later save would write old ones again."""
    known = getattr(volume, 'obj_attr_is_set', None)
    if known and known('admin_metadata'):
        others = {k: v for k, v in volume.admin_metadata.items() if not k.startswith(PREFIX)}
        volume.admin_metadata = others | ours
        volume.obj_reset_changes(['admin_metadata'])
