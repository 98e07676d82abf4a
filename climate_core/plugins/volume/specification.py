# SPDX-License-Identifier: Apache-2.0
"""Read the specification of volumes that are made for a lease, in the words of POST /volumes.

Facts: Block Storage API reference v3, ``POST /v3/{project_id}/volumes``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import amounts, hints, limits
from climate_core.cloud import errors, images, volumes
from climate_core.plugins import specified
from climate_core.plugins.base import Claimed

if TYPE_CHECKING:
    from climate_core.cloud import connection
    from climate_core.lease.model import Lease, Reservation

#: The property of a reservation that says what is to be made.
KEY: Final = 'volume'
#: Cinder's own (cinder/db/constants.py MAX_INT).
_MOST: Final = 2**31 - 1

SCHEMA: Final[Mapping[str, Any]] = {
    KEY: {
        'type': 'object',
        'description': 'What volumes are made from for the lease, as POST /volumes of Cinder '
        'takes it, in place of resource_id. Each of them becomes a reservation.',
        'properties': {
            'name': {**limits.NAME_SCHEMA, **specified.NAME},
            'size': {
                'type': 'integer',
                'minimum': 1,
                'maximum': _MOST,
                'description': 'In GiB, of each of them.',
            },
            'count': specified.COUNT,
            'description': specified.STORED,
            'volume_type': {**limits.NAME_SCHEMA, 'description': 'Its name or its id.'},
            'imageRef': specified.UUID,
            'snapshot_id': specified.UUID,
            'source_volid': specified.UUID,
            'availability_zone': limits.NAME_SCHEMA,
            # Cinder takes 128, of which one is ours.
            'metadata': specified.metadata(127, limits.VOLUME_KEY_PATTERN),
        },
        'required': ['name', 'size'],
        'additionalProperties': False,
    },
    **specified.made_for('Cinder', KEY),
}


def claim(
    conn: 'connection.Connection',
    wanted: Mapping[str, Any],
    params: Mapping[str, Any],
) -> Claimed:
    """Check what is said of volumes with the rights of the user, and claim each of them.

    :param wanted: the ``volume`` of the request
    :param params: what each reservation keeps besides
    :raises climate_core.exceptions.ClimateError: something of it is not there; naming the field
    """
    checks = {
        'volume_type': volumes.check_type,
        'imageRef': images.check,
        'snapshot_id': volumes.check_snapshot,
        'source_volid': volumes.check,
    }
    for name, check in checks.items():
        if name in wanted:
            with errors.for_user(f'{KEY}.{name}'):
                check(conn, wanted[name])
    return specified.claim(KEY, wanted, params, amounts.of_volume(wanted['size']))


def body(lease: 'Lease', reservation: 'Reservation') -> dict[str, Any]:
    """Return what Cinder is to make a volume from.

    :raises climate_core.exceptions.Transient: see :func:`.specified.to_create`
    """
    kept = specified.to_create(lease, reservation, KEY)
    return {**kept, 'metadata': {**kept.get('metadata', {}), hints.MADE_FOR: reservation.id}}
