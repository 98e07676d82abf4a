# SPDX-License-Identifier: Apache-2.0
"""Read the specification of servers that are made for a lease, in the words of POST /servers.

Each server is a reservation, see :mod:`climate_core.plugins.specified`. What is secret is sealed
with a key of the operator, and only the first of several servers has it. Facts: Compute API
reference, ``POST /servers`` at microversion 2.90.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_utils import uuidutils

from climate_common import amounts, limits, sealing
from climate_core import exceptions
from climate_core.cloud import errors, flavors, images, networks, servers, volumes
from climate_core.lease import model
from climate_core.plugins import specified
from climate_core.plugins.base import Claimed
from climate_core.plugins.server import room

if TYPE_CHECKING:
    from climate_core.cloud import connection
    from climate_core.lease.model import Lease, Reservation

LOG = logging.getLogger(__name__)

#: The property of a reservation that says what is to be made.
KEY: Final = 'server'
#: What nova-scheduler is told of the servers.
HINTS: Final = 'scheduler_hints'
#: Nova's own (nova/db/constants.py MAX_INT).
_MOST: Final = 2**31 - 1
#: What checks the uuid of a block device, by its source_type.
_SOURCES: Final[Mapping[str, Callable[['connection.Connection', str], Mapping[str, Any]]]] = {
    'image': images.check,
    'snapshot': volumes.check_snapshot,
    'volume': volumes.check,
}
_SECRETS: Final = ('adminPass', 'user_data')

_TEXT: Final = specified.TEXT
_UUID: Final = specified.UUID
_SERVERS: Final = {**_UUID, 'type': ['array', 'string'], 'items': _UUID, 'maxItems': 64}
_TAG: Final = {
    **_TEXT,
    'maxLength': 60,
    'pattern': limits.json_pattern(f'[^,/{limits.CONTROL}]*'),
    'description': 'A text without commas, slashes and control characters.',
}
_NETWORK: Final = {
    'type': 'object',
    'properties': {
        'uuid': _UUID,
        'port': _UUID,
        'fixed_ip': {**_TEXT, 'format': 'ip'},
        'tag': _TAG,
    },
    'additionalProperties': False,
}
_WORD: Final = {
    'type': 'string',
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
}
_INTEGER: Final = {'type': ['integer', 'string'], 'minimum': 0, 'maximum': _MOST}
#: An item of block_device_mapping_v2, as Nova accepts it (its schemas/servers.py).
_DISK: Final = {
    'type': 'object',
    'properties': {
        'source_type': {'type': 'string', 'enum': ['volume', 'image', 'snapshot', 'blank']},
        'destination_type': {'type': 'string', 'enum': ['local', 'volume']},
        'uuid': {**_TEXT, 'pattern': limits.json_pattern('[a-zA-Z0-9._-]*')},
        'boot_index': {
            **_INTEGER,
            'type': ['integer', 'string', 'null'],
            'minimum': -_MOST,
            'pattern': limits.json_pattern('-?[0-9]{1,9}'),
        },
        'volume_size': {
            **_INTEGER,
            'minimum': 1,
            'pattern': limits.json_pattern('[1-9][0-9]{0,8}'),
            'description': 'A number of GiB, 1 or more.',
        },
        'volume_type': {**limits.NAME_SCHEMA, 'type': ['string', 'null']},
        'delete_on_termination': {
            'type': ['boolean', 'string'],
            'enum': [True, False, 'True', 'False', 'true', 'false', '0', '1'],
        },
        'device_name': {**_TEXT, 'pattern': limits.json_pattern('[a-zA-Z0-9._/-]*')},
        'disk_bus': _WORD,
        'device_type': _WORD,
        'guest_format': _WORD,
        'no_device': {**_WORD, 'type': ['boolean', 'string', 'null']},
        'tag': _TAG,
    },
    'additionalProperties': False,
}
SCHEMA: Final[Mapping[str, Any]] = {
    KEY: {
        'type': 'object',
        'description': 'What servers are made from for the lease, as POST /servers of Nova takes '
        'it, in place of resource_id. Each of them becomes a reservation.',
        'properties': {
            'name': {**specified.PRINTABLE, **specified.NAME},
            'flavorRef': specified.PRINTABLE,
            'imageRef': {**_UUID, 'description': 'Not needed with block_device_mapping_v2.'},
            'count': specified.COUNT,
            'networks': {
                'type': ['array', 'string'],
                'items': _NETWORK,
                'maxItems': 64,
                'pattern': limits.json_pattern('(auto|none)'),
                'description': 'A list of networks and ports, or auto (the default) or none.',
            },
            'key_name': specified.PRINTABLE,
            'security_groups': {
                'type': 'array',
                'maxItems': 64,
                'items': {
                    'type': 'object',
                    'properties': {'name': specified.PRINTABLE},
                    'required': ['name'],
                    'additionalProperties': False,
                },
            },
            'user_data': {
                'type': 'string',
                'format': 'base64',
                'maxLength': 65535,
                'writeOnly': True,
                'description': 'In base64. It is sealed until the server is made, and not shown.',
            },
            'adminPass': {**_TEXT, 'writeOnly': True, 'description': 'The same.'},
            'metadata': specified.metadata(128, limits.SERVER_KEY_PATTERN),
            'availability_zone': {
                **specified.PRINTABLE,
                'description': 'Its name, without a host.',
            },
            'config_drive': {'type': 'boolean'},
            'block_device_mapping_v2': {
                'type': 'array',
                'maxItems': 64,
                'items': _DISK,
            },
            'description': {**_WORD, 'format': 'printable'},
            HINTS: {
                'type': 'object',
                'description': 'What POST /servers takes beside the server as '
                'os:scheduler_hints: the id of a server group, and ids of servers on whose host '
                'they are to be, or not to be.',
                'properties': {
                    'group': _UUID,
                    'same_host': _SERVERS,
                    'different_host': _SERVERS,
                },
                'additionalProperties': False,
            },
        },
        'required': ['name', 'flavorRef'],
        'additionalProperties': False,
    },
    **specified.made_for('Nova', KEY),
}


def claim(
    conn: 'connection.Connection',
    service: 'connection.Connection',
    lease_id: str,
    wanted: Mapping[str, Any],
    params: Mapping[str, Any],
    keys: Sequence[str],
) -> Claimed:
    """Check what is said of servers with the rights of the user, and claim each of them.

    :param service: the rights of the service, for what users may not see of their flavor
    :param wanted: the ``server`` of the request
    :param params: what each reservation keeps besides
    :param keys: those of the operator, with which secrets are sealed
    :raises climate_core.exceptions.ClimateError: something of it is not there, or cannot be kept;
        naming the field
    """
    flavor = _check(conn, wanted)
    held = _amounts(flavor, wanted)
    secrets = {name: wanted[name] for name in _SECRETS if name in wanted}
    if secrets and not keys:
        raise exceptions.BadRequest(
            'It cannot be kept here before the server is made: the operator has set no '
            'secret_keys. Leave it out.',
            field=f'{KEY}.{min(secrets)}',
        )
    if 'extra_specs' not in flavor:
        flavor = flavors.get(service, wanted['flavorRef'])
    kept = {**params, model.NEEDS: room.needs(flavor, wanted)}
    claimed = specified.claim(KEY, wanted, kept, held, hidden=_SECRETS)
    if not secrets:
        return claimed
    sealed = sealing.seal(secrets, keys, model.secrets_owner(lease_id, claimed.params))
    return dataclasses.replace(claimed, params={**claimed.params, model.SEALED: sealed})


def _check(conn: 'connection.Connection', wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flavor; refuse what refers to things that the user has not."""
    with errors.for_user(f'{KEY}.flavorRef'):
        flavor = flavors.get(conn, wanted['flavorRef'])
    if 'imageRef' in wanted:
        with errors.for_user(f'{KEY}.imageRef'):
            image = images.check(conn, wanted['imageRef'])
        _check_fits(flavor, image, 'block_device_mapping_v2' not in wanted)
    elif not room.boots_from_volume(wanted):
        raise exceptions.BadRequest(
            'It is needed: the id of an image, if there is no block_device_mapping_v2.',
            field=f'{KEY}.imageRef',
        )
    if 'key_name' in wanted:
        with errors.for_user(f'{KEY}.key_name'):
            servers.check_key(conn, wanted['key_name'])
    _check_zone(wanted)
    for number, each in enumerate(wanted.get('block_device_mapping_v2', ())):
        field = f'{KEY}.block_device_mapping_v2[{number}]'
        _check_device(conn, each, field)
        _check_source(each, field, 'imageRef' in wanted, wanted.get('count', 1))
    for number, each in enumerate(wanted.get('security_groups', ())):
        with errors.for_user(f'{KEY}.security_groups[{number}].name'):
            networks.check_security_group(conn, each['name'])
    if 'group' in wanted.get(HINTS, ()):
        with errors.for_user(f'{KEY}.{HINTS}.group'):
            servers.check_group(conn, wanted[HINTS]['group'])
    for field, server_id in _servers_of_hints(wanted.get(HINTS, {})):
        with errors.for_user(field):
            servers.check(conn, server_id)
    listed = wanted.get('networks', ())
    for number, each in enumerate(() if isinstance(listed, str) else listed):
        _check_network(conn, each, f'{KEY}.networks[{number}]', wanted.get('count', 1))
    return flavor


def _check_fits(flavor: Mapping[str, Any], image: Mapping[str, Any], is_on_host: bool) -> None:
    """Reject a flavor with less memory or disk than the image needs.

    :param is_on_host: the root disk is on the host, and as large as the flavor says
    """
    needs = [('ram', int(image.get('min_ram') or 0), 'MiB')]
    # A flavor without a disk takes the size of the image.
    if is_on_host and flavor['disk']:
        needs.append(('disk', images.disk_gb(image), 'GiB'))
    for name, least, unit in needs:
        if flavor[name] < least:
            raise exceptions.BadRequest(
                f'{KEY}.flavorRef: must have at least {least} {unit} of {name}, which the image '
                f'needs, not {flavor[name]}.',
                field=f'{KEY}.flavorRef',
            )


def _check_zone(wanted: Mapping[str, Any]) -> None:
    """Reject a forced host, which Nova's policy allows to administrators.

    Climate cannot read that policy, and the server is not created with the user's token.
    """
    if ':' in wanted.get('availability_zone', ''):
        raise exceptions.BadRequest(
            'availability_zone: must be the name of a zone; a host (zone:host) is not accepted.',
            field=f'{KEY}.availability_zone',
        )


def _check_device(conn: 'connection.Connection', wanted: Mapping[str, Any], field: str) -> None:
    """Reject a block device whose volume, snapshot, image or volume type the user has not."""
    source, source_id = wanted.get('source_type'), wanted.get('uuid')
    if source_id is not None:
        if not isinstance(source, str) or source not in _SOURCES:
            raise exceptions.BadRequest(
                'source_type: must be image, snapshot or volume with a uuid.',
                field=f'{field}.source_type',
            )
        if not uuidutils.is_uuid_like(source_id):
            raise exceptions.BadRequest('uuid: must be a UUID.', field=f'{field}.uuid')
        with errors.for_user(f'{field}.uuid'):
            _SOURCES[source](conn, source_id)
    if 'volume_type' in wanted:
        with errors.for_user(f'{field}.volume_type'):
            volumes.check_type(conn, wanted['volume_type'])


def _check_source(wanted: Mapping[str, Any], field: str, has_image: bool, count: int) -> None:
    """Reject a block device that Nova rejects for any user (nova/block_device.py ``from_api``).

    :param has_image: the servers have an ``imageRef``
    :param count: number of servers
    """
    if wanted.get('no_device'):
        return
    source, destination = wanted.get('source_type'), wanted.get('destination_type')
    is_root = has_image and str(wanted.get('boot_index')) == '0'
    is_new = destination == 'volume' and source in ('blank', 'image')
    is_kept = source == 'volume' or destination == 'local'
    wrong = (
        (source is None, 'source_type', 'must be image, snapshot, volume or blank'),
        (source == 'blank' and 'uuid' in wanted, 'uuid', 'must be left out: blank has none'),
        (source != 'blank' and 'uuid' not in wanted, 'uuid', f'must be that of the {source}'),
        (
            source == 'image' and destination == 'local' and not is_root,
            'destination_type',
            'must be volume, if the device is not that of imageRef with boot_index 0',
        ),
        (
            source == 'volume' and count > 1,
            'uuid',
            'must be left out: several servers cannot have the same volume',
        ),
        (
            is_kept and bool(wanted.get('volume_type')),
            'volume_type',
            'must be left out: it is for a new volume',
        ),
        (is_new and 'volume_size' not in wanted, 'volume_size', 'must be the GiB of the volume'),
    )
    for is_wrong, name, said in wrong:
        if is_wrong:
            raise exceptions.BadRequest(f'{field}.{name}: {said}.', field=f'{field}.{name}')


def _servers_of_hints(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of scheduler hints that name servers, and their ids."""
    for name in ('same_host', 'different_host'):
        named = told.get(name, ())
        if isinstance(named, str):
            yield f'{KEY}.{HINTS}.{name}', named
            continue
        for number, each in enumerate(named):
            yield f'{KEY}.{HINTS}.{name}[{number}]', each


def _amounts(flavor: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, int]:
    ephemeral = flavor['OS-FLV-EXT-DATA:ephemeral']
    sizes = (flavor['vcpus'], flavor['ram'], flavor['disk'], ephemeral)
    return amounts.of_server(*sizes, boots_from_volume=room.boots_from_volume(wanted))


def _check_network(
    conn: 'connection.Connection', wanted: Mapping[str, Any], field: str, count: int
) -> None:
    if ('uuid' in wanted) == ('port' in wanted):
        raise exceptions.BadRequest('It must have one of uuid and port.', field=field)
    for name in ('port', 'fixed_ip'):
        if name in wanted and count > 1:
            raise exceptions.BadRequest(
                f'Several servers cannot have the same {name}: leave it out, or ask for each '
                'server in a reservation of its own.',
                field=f'{field}.{name}',
            )
    if 'port' in wanted:
        with errors.for_user(f'{field}.port'):
            networks.check_port(conn, wanted['port'])
    else:
        with errors.for_user(f'{field}.uuid'):
            networks.check_network(conn, wanted['uuid'])


def body(
    lease: 'Lease', reservation: 'Reservation', keys: Sequence[str]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return what Nova is to make a server from, and its scheduler hints.

    :raises climate_core.exceptions.Transient: no key of the operator opens what is sealed, or the
        metadata; the operator can add it
    """
    kept = {'networks': 'auto', **specified.to_create(lease, reservation, KEY)}
    told = kept.pop(HINTS, {})
    for each in lease.reservations:
        if each.group == reservation.group and model.SEALED in each.params:
            try:
                kept |= sealing.unseal(
                    each.params[model.SEALED], keys, model.secrets_owner(lease.id, each.params)
                )
            except sealing.Unreadable as exc:
                LOG.error(
                    '[virtual:instance] secret_keys of climate.conf does not open the user data '
                    'or the password of reservation %s (%s); its server is created once it does',
                    reservation.id,
                    exc,
                )
                raise exceptions.Transient(
                    'secret_keys of climate.conf has no key that opens its user data or its '
                    'password: the operator has to add it.'
                ) from exc
    return {**kept, 'tags': [tag(reservation)]}, told


def tag(reservation: 'Reservation') -> str:
    """Return the tag by which the server of a reservation is found."""
    return f'climate-{reservation.id}'
