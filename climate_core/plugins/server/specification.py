# SPDX-License-Identifier: Apache-2.0
"""Read the specification of servers that are made for a lease, in the words of POST /servers.

Each server is a reservation, see :mod:`climate_core.plugins.resource_spec`. What is secret is sealed
with a key of the operator, and only the first of several servers has it. Facts: Compute API
reference, ``POST /servers`` at microversion 2.90.
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from climate_common import amounts, limits, sealing
from climate_core import exceptions
from climate_core.cloud import errors, flavors, neutron, servers
from climate_core.lease import model
from climate_core.plugins import resource_spec
from climate_core.plugins.base import ReservedResource
from climate_core.plugins.server import block_devices, network_interfaces, room

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Lease, Reservation

LOG = logging.getLogger(__name__)

#: The property of a reservation that says what is to be made.
KEY: Final = 'server'
#: What nova-scheduler is told of the servers.
HINTS: Final = 'scheduler_hints'
_NETWORKS: Final = f'{KEY}.{network_interfaces.KEY}'
_ZONE: Final = f'{KEY}.availability_zone'
#: Nova's own (nova/db/constants.py MAX_INT).
_MOST: Final = 2**31 - 1
_SECRETS: Final = ('adminPass', 'user_data')

_TEXT: Final = resource_spec.TEXT_SCHEMA
_UUID: Final = resource_spec.UUID_SCHEMA
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
            'name': {**resource_spec.PRINTABLE_SCHEMA, **resource_spec.NAME_DESCRIPTION},
            'flavorRef': resource_spec.PRINTABLE_SCHEMA,
            'imageRef': {**_UUID, 'description': 'Not needed with block_device_mapping_v2.'},
            'count': resource_spec.COUNT_SCHEMA,
            network_interfaces.KEY: {
                'type': ['array', 'string'],
                'items': _NETWORK,
                'maxItems': 64,
                'pattern': limits.json_pattern('(auto|none)'),
                'description': 'A list of networks and ports, or auto (the default) or none.',
            },
            'key_name': resource_spec.PRINTABLE_SCHEMA,
            'security_groups': {
                'type': 'array',
                'maxItems': 64,
                'items': {
                    'type': 'object',
                    'properties': {'name': resource_spec.PRINTABLE_SCHEMA},
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
            'metadata': resource_spec.metadata_schema(128, limits.SERVER_KEY_PATTERN),
            'availability_zone': {
                **resource_spec.PRINTABLE_SCHEMA,
                'description': 'Its name, without a host.',
            },
            'config_drive': {'type': 'boolean'},
            block_devices.KEY: {
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
    **resource_spec.made_for_schema('Nova', KEY),
}


def claim(
    conn: 'connections.Connection',
    service: 'connections.Connection',
    lease_id: str,
    wanted: Mapping[str, Any],
    params: Mapping[str, Any],
    keys: Sequence[str],
    allows_external: bool,
) -> ReservedResource:
    """Check what is said of servers with the rights of the user, and claim each of them.

    :param service: the rights of the service, for what users may not see of their flavor
    :param wanted: the ``server`` of the request
    :param params: what each reservation keeps besides
    :param keys: those of the operator, with which secrets are sealed
    :param allows_external: see :data:`.network_interfaces.OPTION`
    :raises climate_core.exceptions.ClimateError: something of it is not there, or cannot be kept;
        naming the field
    """
    flavor = _check(conn, wanted, allows_external)
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
    claimed = resource_spec.reserve_group(KEY, wanted, kept, held, hidden=_SECRETS)
    if not secrets:
        return claimed
    sealed = sealing.seal(secrets, keys, model.secrets_owner(lease_id, claimed.params))
    return dataclasses.replace(claimed, params={**claimed.params, model.SEALED: sealed})


def _check(
    conn: 'connections.Connection', wanted: Mapping[str, Any], allows_external: bool
) -> dict[str, Any]:
    """Return the flavor; refuse what refers to things that the user has not."""
    with errors.for_user(f'{KEY}.flavorRef'):
        flavor = flavors.get(conn, wanted['flavorRef'])
    image: Mapping[str, Any] | None = None
    if 'imageRef' in wanted:
        with errors.for_user(f'{KEY}.imageRef'):
            image = servers.check_image(conn, wanted['imageRef'])
    elif not wanted.get(block_devices.KEY):
        raise exceptions.BadRequest(
            'It is needed: the id of an image, if there is no block_device_mapping_v2.',
            field=f'{KEY}.imageRef',
        )
    image = block_devices.check(conn, wanted, flavor, image, f'{KEY}.{block_devices.KEY}')
    if image is not None:
        _check_fits(flavor, image, block_devices.is_on_host(wanted))
    if 'key_name' in wanted:
        with errors.for_user(f'{KEY}.key_name'):
            servers.check_key(conn, wanted['key_name'])
    _check_zone(conn, wanted)
    for number, each in enumerate(wanted.get('security_groups', ())):
        with errors.for_user(f'{KEY}.security_groups[{number}].name'):
            neutron.check_security_group(conn, each['name'])
    if 'group' in wanted.get(HINTS, ()):
        with errors.for_user(f'{KEY}.{HINTS}.group'):
            servers.check_group(conn, wanted[HINTS]['group'])
    for field, server_id in _servers_of_hints(wanted.get(HINTS, {})):
        with errors.for_user(field):
            servers.check(conn, server_id)
    network_interfaces.check(conn, wanted, _NETWORKS, allows_external)
    return flavor


def list_ports(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field and the id of each port."""
    return network_interfaces.list_ports(wanted, _NETWORKS)


def check_now(conn: 'connections.Connection', wanted: Mapping[str, Any]) -> None:
    """Check what must be right when the servers are created, and may change before.

    :raises climate_core.exceptions.ClimateError: it is not right now, naming the field
    """
    if 'availability_zone' in wanted:
        with errors.for_user(_ZONE):
            servers.NOVA.check_zone(conn, wanted['availability_zone'], is_available=True)
    network_interfaces.check_now(conn, wanted, _NETWORKS)


def _check_fits(flavor: Mapping[str, Any], image: Mapping[str, Any], is_on_host: bool) -> None:
    """Reject a flavor with less memory or disk than the image needs.

    :param is_on_host: the root disk is on the host, and as large as the flavor says
    """
    needs = [('ram', int(image.get('min_ram') or 0), 'MiB')]
    # A flavor without a disk takes the size of the image.
    if is_on_host and flavor['disk']:
        needs.append(('disk', servers.image_disk_gb(image), 'GiB'))
    for name, least, unit in needs:
        if flavor[name] < least:
            raise exceptions.BadRequest(
                f'{KEY}.flavorRef: must have at least {least} {unit} of {name}, which the image '
                f'needs, not {flavor[name]}.',
                field=f'{KEY}.flavorRef',
            )


def _check_zone(conn: 'connections.Connection', wanted: Mapping[str, Any]) -> None:
    """Reject a zone that does not exist, and a forced host.

    Nova's policy allows a host to administrators. Climate cannot read that policy, and the server
    is not created with the user's token.
    """
    zone = wanted.get('availability_zone')
    if zone is None:
        return
    if ':' in zone:
        raise exceptions.BadRequest(
            'availability_zone: must be the name of a zone; a host (zone:host) is not accepted.',
            field=_ZONE,
        )
    with errors.for_user(_ZONE):
        servers.NOVA.check_zone(conn, zone)


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


def body(
    lease: 'Lease', reservation: 'Reservation', keys: Sequence[str]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return what Nova is to make a server from, and its scheduler hints.

    :raises climate_core.exceptions.Transient: no key of the operator opens what is sealed, or the
        metadata; the operator can add it
    """
    kept = {'networks': 'auto', **resource_spec.read_unsealed_spec(lease, reservation, KEY)}
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
