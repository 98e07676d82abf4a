# SPDX-License-Identifier: Apache-2.0
"""Read the specification of servers that are created for a lease, as POST /servers takes it.

Each server is a reservation, see :mod:`climate_core.plugins.provisioned_plugin`. Secrets are
sealed with a key of the operator, and only the first of several servers stores them.
Facts: Compute API reference, ``POST /servers`` at microversion 2.90.
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from climate_common import limits, resource_types, sealing
from climate_core import exceptions
from climate_core.cloud import errors, neutron, servers
from climate_core.lease import model
from climate_core.plugins import pool_capacity, provisioned_plugin, server_checks
from climate_core.plugins.base import ReservedResource

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Lease, Reservation

LOG = logging.getLogger(__name__)

#: The property of a reservation with the specification of its servers.
SPEC_KEY: Final = 'server'
#: The scheduler hints of the servers.
HINTS_KEY: Final = 'scheduler_hints'
_NETWORKS: Final = f'{SPEC_KEY}.{server_checks.NETWORKS_KEY}'
_ZONE: Final = f'{SPEC_KEY}.availability_zone'
#: Nova's own (nova/db/constants.py MAX_INT).
_MAX_INTEGER: Final = 2**31 - 1
_SECRET_FIELDS: Final = ('adminPass', 'user_data')

_TEXT_SCHEMA: Final = provisioned_plugin.TEXT_SCHEMA
_UUID_SCHEMA: Final = provisioned_plugin.UUID_SCHEMA
_SERVERS_SCHEMA: Final = {
    **_UUID_SCHEMA,
    'type': ['array', 'string'],
    'items': _UUID_SCHEMA,
    'maxItems': 64,
}
_TAG_SCHEMA: Final = {
    **_TEXT_SCHEMA,
    'maxLength': 60,
    'pattern': limits.json_pattern(f'[^,/{limits.CONTROL}]*'),
    'description': 'A text without commas, slashes and control characters.',
}
_NETWORK_SCHEMA: Final = {
    'type': 'object',
    'properties': {
        'uuid': _UUID_SCHEMA,
        'port': _UUID_SCHEMA,
        'fixed_ip': {**_TEXT_SCHEMA, 'format': 'ip'},
        'tag': _TAG_SCHEMA,
    },
    'additionalProperties': False,
}
_WORD_SCHEMA: Final = {
    'type': 'string',
    'maxLength': limits.NAME_LENGTH,
    'pattern': limits.json_pattern(limits.TEXT_PATTERN),
}
_INTEGER_SCHEMA: Final = {'type': ['integer', 'string'], 'minimum': 0, 'maximum': _MAX_INTEGER}
#: An item of block_device_mapping_v2, as Nova accepts it (its schemas/servers.py).
_DISK_SCHEMA: Final = {
    'type': 'object',
    'properties': {
        'source_type': {'type': 'string', 'enum': ['volume', 'image', 'snapshot', 'blank']},
        'destination_type': {'type': 'string', 'enum': ['local', 'volume']},
        'uuid': {**_TEXT_SCHEMA, 'pattern': limits.json_pattern('[a-zA-Z0-9._-]*')},
        'boot_index': {
            **_INTEGER_SCHEMA,
            'type': ['integer', 'string', 'null'],
            'minimum': -_MAX_INTEGER,
            'pattern': limits.json_pattern('-?[0-9]{1,9}'),
        },
        'volume_size': {
            **_INTEGER_SCHEMA,
            'minimum': 1,
            'pattern': limits.json_pattern('[1-9][0-9]{0,8}'),
            'description': 'A number of GiB, 1 or more.',
        },
        'volume_type': {**limits.NAME_SCHEMA, 'type': ['string', 'null']},
        'delete_on_termination': {
            'type': ['boolean', 'string'],
            'enum': [True, False, 'True', 'False', 'true', 'false', '0', '1'],
        },
        'device_name': {**_TEXT_SCHEMA, 'pattern': limits.json_pattern('[a-zA-Z0-9._/-]*')},
        'disk_bus': _WORD_SCHEMA,
        'device_type': _WORD_SCHEMA,
        'guest_format': _WORD_SCHEMA,
        'no_device': {**_WORD_SCHEMA, 'type': ['boolean', 'string', 'null']},
        'tag': _TAG_SCHEMA,
    },
    'additionalProperties': False,
}
SCHEMA: Final[Mapping[str, Any]] = {
    SPEC_KEY: {
        'type': 'object',
        'description': 'Specification of servers to create for the lease, in the format of POST '
        '/servers of Nova, in place of resource_id. Each server becomes a reservation.',
        'properties': {
            'name': {**provisioned_plugin.PRINTABLE_SCHEMA, **provisioned_plugin.NAME_DESCRIPTION},
            'flavorRef': provisioned_plugin.PRINTABLE_SCHEMA,
            'imageRef': {
                **_UUID_SCHEMA,
                'description': 'Not needed with block_device_mapping_v2.',
            },
            'count': provisioned_plugin.COUNT_SCHEMA,
            server_checks.NETWORKS_KEY: {
                'type': ['array', 'string'],
                'items': _NETWORK_SCHEMA,
                'maxItems': 64,
                'pattern': limits.json_pattern('(auto|none)'),
                'description': 'A list of networks and ports, or auto (the default) or none.',
            },
            'key_name': provisioned_plugin.PRINTABLE_SCHEMA,
            'security_groups': {
                'type': 'array',
                'maxItems': 64,
                'items': {
                    'type': 'object',
                    'properties': {'name': provisioned_plugin.PRINTABLE_SCHEMA},
                    'required': ['name'],
                    'additionalProperties': False,
                },
            },
            'user_data': {
                'type': 'string',
                'format': 'base64',
                'maxLength': 65535,
                'writeOnly': True,
                'description': 'In base64. It is sealed until the server is created, and not '
                'shown.',
            },
            'adminPass': {**_TEXT_SCHEMA, 'writeOnly': True, 'description': 'The same.'},
            'metadata': provisioned_plugin.metadata_schema(128, limits.SERVER_KEY_PATTERN),
            'availability_zone': {
                **provisioned_plugin.PRINTABLE_SCHEMA,
                'description': 'Its name, without a host.',
            },
            'config_drive': {'type': 'boolean'},
            server_checks.BLOCK_DEVICES_KEY: {
                'type': 'array',
                'maxItems': 64,
                'items': _DISK_SCHEMA,
            },
            'description': {**_WORD_SCHEMA, 'format': 'printable'},
            HINTS_KEY: {
                'type': 'object',
                'description': 'The os:scheduler_hints of POST /servers: the id of a server '
                'group, and ids of servers on whose host they are to be, or not to be.',
                'properties': {
                    'group': _UUID_SCHEMA,
                    'same_host': _SERVERS_SCHEMA,
                    'different_host': _SERVERS_SCHEMA,
                },
                'additionalProperties': False,
            },
        },
        'required': ['name', 'flavorRef'],
        'additionalProperties': False,
    },
    **provisioned_plugin.made_for_schema('Nova', SPEC_KEY),
}


def reserve_servers(
    conn: 'connections.Connection',
    service: 'connections.Connection',
    lease_id: str,
    server: Mapping[str, Any],
    params: Mapping[str, Any],
    keys: Sequence[str],
    allows_external: bool,
) -> ReservedResource:
    """Check the specification of servers with the rights of the user; return their reservations.

    :param service: the rights of the service, for what users may not see of their flavor
    :param server: the ``server`` of the request
    :param params: what each reservation stores besides
    :param keys: those of the operator, with which secrets are sealed
    :param allows_external: see :data:`.server_checks.EXTERNAL_NETWORKS_OPTION`
    :raises climate_core.exceptions.ClimateError: something of it does not exist, or cannot be
        stored; naming the field
    """
    flavor = _check(conn, server, allows_external)
    amounts = _amounts(flavor, server)
    secrets = {name: server[name] for name in _SECRET_FIELDS if name in server}
    if secrets and not keys:
        raise exceptions.BadRequest(
            'It cannot be stored until the server is created: the operator has set no '
            'secret_keys. Leave it out.',
            field=f'{SPEC_KEY}.{min(secrets)}',
        )
    if 'extra_specs' not in flavor:
        flavor = servers.get_flavor(service, server['flavorRef'])
    stored_params = {**params, model.NEEDS: pool_capacity.describe_needs(flavor, server)}
    reserved = provisioned_plugin.reserve_group(
        SPEC_KEY, server, stored_params, amounts, hidden=_SECRET_FIELDS
    )
    if not secrets:
        return reserved
    sealed = sealing.seal(secrets, keys, model.secrets_owner(lease_id, reserved.params))
    return dataclasses.replace(reserved, params={**reserved.params, model.SEALED: sealed})


def _check(
    conn: 'connections.Connection', server: Mapping[str, Any], allows_external: bool
) -> dict[str, Any]:
    """Return the flavor; reject references to resources that the user does not have."""
    with errors.for_user(f'{SPEC_KEY}.flavorRef'):
        flavor = servers.get_flavor(conn, server['flavorRef'])
    image: Mapping[str, Any] | None = None
    if 'imageRef' in server:
        with errors.for_user(f'{SPEC_KEY}.imageRef'):
            image = servers.check_image(conn, server['imageRef'])
    elif not server.get(server_checks.BLOCK_DEVICES_KEY):
        raise exceptions.BadRequest(
            'It is required without block_device_mapping_v2: the id of an image.',
            field=f'{SPEC_KEY}.imageRef',
        )
    image = server_checks.check_block_devices(
        conn, server, flavor, image, f'{SPEC_KEY}.{server_checks.BLOCK_DEVICES_KEY}'
    )
    if image is not None:
        _check_fits(flavor, image, server_checks.has_disk_on_host(server))
    if 'key_name' in server:
        with errors.for_user(f'{SPEC_KEY}.key_name'):
            servers.check_key(conn, server['key_name'])
    _check_zone(conn, server)
    for number, each in enumerate(server.get('security_groups', ())):
        with errors.for_user(f'{SPEC_KEY}.security_groups[{number}].name'):
            neutron.check_security_group(conn, each['name'])
    if 'group' in server.get(HINTS_KEY, ()):
        with errors.for_user(f'{SPEC_KEY}.{HINTS_KEY}.group'):
            servers.check_group(conn, server[HINTS_KEY]['group'])
    for field, server_id in _servers_of_hints(server.get(HINTS_KEY, {})):
        with errors.for_user(field):
            servers.check(conn, server_id)
    server_checks.check_networks(conn, server, _NETWORKS, allows_external)
    return flavor


def list_ports(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field and the id of each port."""
    return server_checks.list_ports(server, _NETWORKS)


def check_now(conn: 'connections.Connection', server: Mapping[str, Any]) -> None:
    """Check what must be right when the servers are created, and may change before.

    :raises climate_core.exceptions.ClimateError: it is not right now, naming the field
    """
    if 'availability_zone' in server:
        with errors.for_user(_ZONE):
            servers.NOVA.check_zone(conn, server['availability_zone'], is_available=True)
    server_checks.check_ports_free(conn, server, _NETWORKS)


def _check_fits(flavor: Mapping[str, Any], image: Mapping[str, Any], is_on_host: bool) -> None:
    """Reject a flavor with less memory or disk than the image needs.

    :param is_on_host: the root disk is on the host, and as large as the flavor defines
    """
    needs = [('ram', int(image.get('min_ram') or 0), 'MiB')]
    # A flavor without a disk takes the size of the image.
    if is_on_host and flavor['disk']:
        needs.append(('disk', servers.image_disk_gb(image), 'GiB'))
    for name, least, unit in needs:
        if flavor[name] < least:
            raise exceptions.BadRequest(
                f'{SPEC_KEY}.flavorRef: must have at least {least} {unit} of {name}, which the '
                f'image needs, not {flavor[name]}.',
                field=f'{SPEC_KEY}.flavorRef',
            )


def _check_zone(conn: 'connections.Connection', server: Mapping[str, Any]) -> None:
    """Reject a zone that does not exist, and a forced host.

    Nova's policy allows a host to administrators. Climate cannot read that policy, and the server
    is not created with the user's token.
    """
    zone = server.get('availability_zone')
    if zone is None:
        return
    if ':' in zone:
        raise exceptions.BadRequest(
            'availability_zone: must be the name of a zone; a host (zone:host) is not accepted.',
            field=_ZONE,
        )
    with errors.for_user(_ZONE):
        servers.NOVA.check_zone(conn, zone)


def _servers_of_hints(hints: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of scheduler hints that name servers, and their ids."""
    for name in ('same_host', 'different_host'):
        named = hints.get(name, ())
        if isinstance(named, str):
            yield f'{SPEC_KEY}.{HINTS_KEY}.{name}', named
            continue
        for number, each in enumerate(named):
            yield f'{SPEC_KEY}.{HINTS_KEY}.{name}[{number}]', each


def _amounts(flavor: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, int]:
    ephemeral = flavor['OS-FLV-EXT-DATA:ephemeral']
    sizes = (flavor['vcpus'], flavor['ram'], flavor['disk'], ephemeral)
    return resource_types.server_amounts(
        *sizes, boots_from_volume=pool_capacity.boots_from_volume(server)
    )


def build_request(
    lease: 'Lease', reservation: 'Reservation', keys: Sequence[str]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the specification from which Nova creates a server, and its scheduler hints.

    :raises climate_core.exceptions.Transient: no key of the operator opens what is sealed, or the
        metadata; the operator can add it
    """
    server = {
        'networks': 'auto',
        **provisioned_plugin.read_unsealed_spec(lease, reservation, SPEC_KEY),
    }
    hints = server.pop(HINTS_KEY, {})
    for each in lease.reservations:
        if each.group == reservation.group and model.SEALED in each.params:
            try:
                server |= sealing.unseal(
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
                    'password: the operator must add it.'
                ) from exc
    return {**server, 'tags': [reservation_tag(reservation)]}, hints


def reservation_tag(reservation: 'Reservation') -> str:
    """Return the tag by which the server of a reservation is found."""
    return f'climate-{reservation.id}'
