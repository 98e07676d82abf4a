# SPDX-License-Identifier: Apache-2.0
"""Make the reservations of a new lease of what was entered in its form. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from climate_common import resource_types

SERVERS, CAPACITY, HOSTS, FLOATING_IPS, STACK, NOTHING = (
    'servers',
    'capacity',
    'hosts',
    'floatingips',
    'stack',
    'nothing',
)
#: What is asked for -> the fields that must be filled in.
NEEDED: Final = {
    SERVERS: ('flavor', 'image'),
    CAPACITY: ('flavor',),
    HOSTS: (),
    FLOATING_IPS: ('external_network',),
    STACK: ('stack_name', 'template'),
    NOTHING: (),
}


def reservations(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the reservations for what was entered, as a request has them.

    :param given: the fields of the form, of which empty ones count as left out
    """
    makers = {
        SERVERS: _servers,
        CAPACITY: _capacity,
        HOSTS: _hosts,
        FLOATING_IPS: _floating_ips,
        STACK: _stack,
    }
    make = makers.get(given['what'])
    return [] if make is None else [{key: value for key, value in make(given).items() if value}]


def searchable(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the same, as far as it matters for when there is enough of it."""
    found = reservations(given)
    for each in found:
        if 'server' in each:
            kept = ('flavorRef', 'count')
            each['server'] = {name: each['server'][name] for name in kept}
    return found


def _servers(given: Mapping[str, Any]) -> dict[str, Any]:
    server = {
        'name': given['name'],
        'flavorRef': given['flavor'],
        'imageRef': given['image'],
        'key_name': given.get('key_pair'),
        'count': given.get('count') or 1,
    }
    server = {key: value for key, value in server.items() if value}
    network = given.get('network')
    server['networks'] = [{'uuid': network}] if network else 'none'
    return {
        'resource_type': resource_types.SERVER,
        'server': server,
        'on_end': given.get('on_end'),
    }


def _capacity(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        'resource_type': resource_types.CAPACITY,
        'flavor_id': given['flavor'],
        'amount': given.get('count') or 1,
        **_of_hosts(given),
    }


def _hosts(given: Mapping[str, Any]) -> dict[str, Any]:
    least = given.get('count') or 1
    return {
        'resource_type': resource_types.HOST,
        'min': least,
        'max': given.get('most') or least,
        **_of_hosts(given),
    }


def _of_hosts(given: Mapping[str, Any]) -> dict[str, Any]:
    return {'resources': given.get('conditions'), 'pool': given.get('pool')}


def _floating_ips(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        'resource_type': resource_types.FLOATING_IP,
        'network_id': given['external_network'],
        'amount': given.get('count') or 1,
    }


def _stack(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        'resource_type': resource_types.STACK,
        'name': given['stack_name'],
        'template': given['template'],
        'parameters': given.get('parameters'),
    }
