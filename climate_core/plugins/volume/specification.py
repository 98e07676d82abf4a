# SPDX-License-Identifier: Apache-2.0
"""Read the specification of volumes that are made for a lease, in the words of POST /volumes.

Facts: Block Storage API reference v3, ``POST /v3/{project_id}/volumes``.
"""

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import amounts, hints, limits
from climate_core import exceptions
from climate_core.cloud import errors, servers, volumes
from climate_core.plugins import resource_spec
from climate_core.plugins.base import ReservedResource

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Lease, Reservation

#: The property of a reservation that says what is to be made.
KEY: Final = 'volume'
#: Cinder's own (cinder/db/constants.py MAX_INT).
_MOST: Final = 2**31 - 1

#: What a volume is made from: what checks it, and the GiB that it needs.
_SOURCES: Final[Mapping[str, resource_spec.SourceCheck]] = {
    'imageRef': (servers.check_image, servers.image_disk_gb),
    'snapshot_id': (volumes.check_snapshot, operator.itemgetter('size')),
    'source_volid': (volumes.check, operator.itemgetter('size')),
}

SCHEMA: Final[Mapping[str, Any]] = {
    KEY: {
        'type': 'object',
        'description': 'What volumes are made from for the lease, as POST /volumes of Cinder '
        'takes it, in place of resource_id. Each of them becomes a reservation.',
        'properties': {
            'name': {**limits.NAME_SCHEMA, **resource_spec.NAME_DESCRIPTION},
            'size': {
                'type': 'integer',
                'minimum': 1,
                'maximum': _MOST,
                'description': 'In GiB, of each of them.',
            },
            'count': resource_spec.COUNT_SCHEMA,
            'description': resource_spec.STORED_TEXT_SCHEMA,
            'volume_type': {**limits.NAME_SCHEMA, 'description': 'Its name or its id.'},
            'imageRef': resource_spec.UUID_SCHEMA,
            'snapshot_id': resource_spec.UUID_SCHEMA,
            'source_volid': resource_spec.UUID_SCHEMA,
            'availability_zone': limits.NAME_SCHEMA,
            # Cinder takes 128, of which one is ours.
            'metadata': resource_spec.metadata_schema(127, limits.VOLUME_KEY_PATTERN),
        },
        'required': ['name', 'size'],
        'additionalProperties': False,
    },
    **resource_spec.made_for_schema('Cinder', KEY),
}


def claim(
    conn: 'connections.Connection',
    wanted: Mapping[str, Any],
    params: Mapping[str, Any],
) -> ReservedResource:
    """Check what is said of volumes with the rights of the user, and claim each of them.

    :param wanted: the ``volume`` of the request
    :param params: what each reservation keeps besides
    :raises climate_core.exceptions.ClimateError: something of it is not there; naming the field
    """
    if 'volume_type' in wanted:
        with errors.for_user(f'{KEY}.volume_type'):
            volumes.check_type(conn, wanted['volume_type'])
    if 'availability_zone' in wanted:
        with errors.for_user(f'{KEY}.availability_zone'):
            volumes.CINDER.check_zone(conn, wanted['availability_zone'])
    sources = [name for name in _SOURCES if name in wanted]
    if len(sources) > 1:
        raise exceptions.BadRequest(
            f'{KEY}.{sources[1]}: must be left out: a volume is made from one of '
            f'{", ".join(_SOURCES)}.',
            field=f'{KEY}.{sources[1]}',
        )
    for name in sources:
        check, size = _SOURCES[name]
        with errors.for_user(f'{KEY}.{name}'):
            least = size(check(conn, wanted[name]))
        if wanted['size'] < least:
            raise exceptions.BadRequest(
                f'{KEY}.size: must be at least {least} (GiB), which {name} needs.',
                field=f'{KEY}.size',
            )
    return resource_spec.reserve_group(KEY, wanted, params, amounts.of_volume(wanted['size']))


def body(lease: 'Lease', reservation: 'Reservation') -> dict[str, Any]:
    """Return what Cinder is to make a volume from.

    :raises climate_core.exceptions.Transient: see :func:`.specified.to_create`
    """
    kept = resource_spec.read_unsealed_spec(lease, reservation, KEY)
    return {**kept, 'metadata': {**kept.get('metadata', {}), hints.MADE_FOR: reservation.id}}
