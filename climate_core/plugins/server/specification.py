# SPDX-License-Identifier: Apache-2.0
"""What a user says of servers that are to be made for a lease, in the words of POST /servers.

Each server is a reservation, which keeps what is said of it. What is secret is sealed with a key
of the operator, and only the first of several servers has it. Facts: Compute API reference,
``POST /servers`` at microversion 2.90.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_utils import uuidutils

from climate_common import amounts, limits, sealing
from climate_core import exceptions
from climate_core.cloud import errors, flavors, images, networks, servers
from climate_core.lease import model
from climate_core.plugins.base import Claimed
from climate_core.plugins.server import room

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.lease.model import Lease, Reservation

#: The property of a reservation that says what is to be made, and of one that says it was.
KEY: Final = 'server'
MADE_FOR: Final = 'made_for'
#: What nova-scheduler is told of the servers.
HINTS: Final = 'scheduler_hints'
_SECRETS: Final = ('adminPass', 'user_data')
#: Keep with a reservation what is sealed, and a digest of what the request said; not shown.
_SEALED: Final = '_sealed'
_SAID: Final = '_said'
#: Keep what it will hold, and what its host needs; not shown.
HOLDS: Final = '_holds'
NEEDS: Final = '_needs'
_ROUNDS: Final = 100_000

_TEXT: Final = {'type': 'string', 'minLength': 1, 'maxLength': limits.NAME_LENGTH}
_UUID: Final = {'type': 'string', 'format': 'uuid'}
_SERVERS: Final = {'type': ['array', 'string'], 'items': _UUID, 'maxItems': 64, **_UUID}
_NETWORK: Final = {
    'type': 'object',
    'properties': {'uuid': _UUID, 'port': _UUID, 'fixed_ip': _TEXT, 'tag': _TEXT},
    'additionalProperties': False,
}
SCHEMA: Final[Mapping[str, Any]] = {
    KEY: {
        'type': 'object',
        'description': 'What servers are made from for the lease, as POST /servers of Nova takes '
        'it, in place of resource_id. Each of them becomes a reservation.',
        'properties': {
            'name': {
                **_TEXT,
                'description': 'Their name; of several, with -1, -2 and so on at its end.',
            },
            'flavorRef': _TEXT,
            'imageRef': {**_UUID, 'description': 'Not needed with block_device_mapping_v2.'},
            'count': {
                'type': 'integer',
                'minimum': 1,
                'maximum': limits.NEW_SERVERS,
                'description': 'How many of them; by default 1.',
            },
            'networks': {
                'type': ['array', 'string'],
                'items': _NETWORK,
                'maxItems': 64,
                'pattern': limits.json_pattern('(auto|none)'),
                'description': 'A list of networks and ports, or auto (the default) or none.',
            },
            'key_name': _TEXT,
            'security_groups': {
                'type': 'array',
                'maxItems': 64,
                'items': {
                    'type': 'object',
                    'properties': {'name': _TEXT},
                    'required': ['name'],
                    'additionalProperties': False,
                },
            },
            'user_data': {
                'type': 'string',
                'maxLength': 65535,
                'description': 'In base64. It is sealed until the server is made, and not shown.',
            },
            'adminPass': {**_TEXT, 'description': 'The same.'},
            'metadata': {
                'type': 'object',
                'maxProperties': 128,
                'additionalProperties': {'type': 'string', 'maxLength': limits.NAME_LENGTH},
            },
            'availability_zone': _TEXT,
            'config_drive': {'type': 'boolean'},
            'block_device_mapping_v2': {
                'type': 'array',
                'maxItems': 64,
                'items': {'type': 'object'},
            },
            'description': {'type': 'string', 'maxLength': limits.NAME_LENGTH},
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
    MADE_FOR: {
        **_UUID,
        'description': 'The reservation for which the lease service makes the server. Nova says '
        'it; users leave it out.',
    },
}


def is_requested(values: Mapping[str, Any]) -> bool:
    """Tell whether servers of a request are to be made.

    :raises climate_core.exceptions.BadRequest: it says neither what is there nor what to make, or
        both
    """
    if KEY in values and 'resource_id' in values:
        raise exceptions.BadRequest(
            'Give the resource_id of a server that is there, or what servers to make, not both.',
            field=KEY,
        )
    if KEY not in values and 'resource_id' not in values:
        raise exceptions.BadRequest(
            'Give the resource_id of a server that is RESERVED, or say in server what to make.',
            field='resource_id',
        )
    return KEY in values


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
    group = uuidutils.generate_uuid()
    shown = {name: each for name, each in wanted.items() if name not in (*_SECRETS, 'count')}
    count = wanted.get('count', 1)
    if 'extra_specs' not in flavor:
        flavor = flavors.get(service, wanted['flavorRef'])
    hidden = {
        model.GROUP: group,
        _SAID: _said(lease_id, wanted),
        HOLDS: held,
        NEEDS: room.needs(flavor, wanted),
    }
    claims = []
    for number in range(1, count + 1):
        name = wanted['name'] if count == 1 else f'{wanted["name"]}-{number}'
        kept = {**params, **hidden, KEY: {**shown, 'name': name}}
        if secrets and number == 1:
            kept[_SEALED] = sealing.seal(secrets, keys)
        claims.append(Claimed(f'{model.UNMADE}{uuidutils.generate_uuid()}', kept, held))
    return dataclasses.replace(claims[0], others=claims[1:])


def _check(conn: 'connection.Connection', wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flavor; refuse what refers to things that the user has not."""
    with errors.for_user(f'{KEY}.flavorRef'):
        flavor = flavors.get(conn, wanted['flavorRef'])
    if 'imageRef' in wanted:
        with errors.for_user(f'{KEY}.imageRef'):
            images.get(conn, wanted['imageRef'])
    elif not room.boots_from_volume(wanted):
        raise exceptions.BadRequest(
            'It is needed: the id of an image, if there is no block_device_mapping_v2.',
            field=f'{KEY}.imageRef',
        )
    if 'key_name' in wanted:
        with errors.for_user(f'{KEY}.key_name'):
            servers.check_key(conn, wanted['key_name'])
    if 'group' in wanted.get(HINTS, ()):
        with errors.for_user(f'{KEY}.{HINTS}.group'):
            servers.check_group(conn, wanted[HINTS]['group'])
    listed = wanted.get('networks', ())
    for number, each in enumerate(() if isinstance(listed, str) else listed):
        _check_network(conn, each, f'{KEY}.networks[{number}]', wanted.get('count', 1))
    return flavor


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


def is_same(reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
    """Tell whether a reservation of a lease is what a request asks for once more."""
    if reservation.group is None or KEY not in values:
        return False
    return bool(reservation.params.get(_SAID) == _said(reservation.lease_id, values[KEY]))


def is_made_for(reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
    """Tell whether Nova reserves the server that is made for a reservation of a lease."""
    if reservation.group is None or values.get(MADE_FOR) != reservation.id:
        return False
    return not reservation.is_made or reservation.resource_id == values.get('resource_id')


def body(lease: 'Lease', reservation: 'Reservation', keys: Sequence[str]) -> dict[str, Any]:
    """Return what Nova is to make a server from, without its scheduler hints.

    :raises climate_core.exceptions.Permanent: no key of the operator opens what is sealed
    """
    kept = {name: each for name, each in reservation.params[KEY].items() if name != HINTS}
    kept.setdefault('networks', 'auto')
    for each in lease.reservations:
        if each.group == reservation.group and _SEALED in each.params:
            try:
                kept |= sealing.unseal(each.params[_SEALED], keys)
            except sealing.Unreadable as exc:
                raise exceptions.Permanent(
                    'secret_keys of climate.conf has no key any more that opens its user data or '
                    'its password.'
                ) from exc
    return {**kept, 'tags': [tag(reservation)]}


def tag(reservation: 'Reservation') -> str:
    """Return the tag by which the server of a reservation is found."""
    return f'climate-{reservation.id}'


def _said(lease_id: str, wanted: Mapping[str, Any]) -> str:
    """Digest what a request says, so that what is secret in it cannot be guessed quickly."""
    text = json.dumps(wanted, sort_keys=True).encode()
    return hashlib.pbkdf2_hmac('sha256', text, lease_id.encode(), _ROUNDS).hex()
