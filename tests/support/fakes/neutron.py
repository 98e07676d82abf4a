# SPDX-License-Identifier: Apache-2.0
"""The part of the Networking API that Climate uses: two networks, a port, and floating IPs.

:mod:`tests.support.fakes.neutron_networks` has the networks of leases.

Floating IPs behave as those of neutron 29 do (tests/cloud has the real one).
"""

import uuid
from typing import Any

from tests.support.fakes import neutron_networks
from tests.support.fakes.state import Record, Refusal, State, owns

NETWORK = '3cb9bc59-5699-4588-a4b1-b87f96708bc6'
PORT = 'ce531f90-199f-48c0-816c-13e38010b442'
#: The external network; .200 to .219 is its allocation pool, .1 the gateway, .9 a router's port.
PUBLIC = '7a1c0c7e-3a55-4c1b-9c1c-0d5f2f9b8f10'
SUBNET = '0d8f4a5e-6d1f-4f7b-8f0a-5f1f0c1f7a11'
ROUTER = '203.0.113.9'

_SUBNET = {
    'id': SUBNET,
    'cidr': '203.0.113.0/24',
    'gateway_ip': '203.0.113.1',
    'allocation_pools': [{'start': '203.0.113.200', 'end': '203.0.113.219'}],
}
_NETWORKS: Record = {
    NETWORK: {'id': NETWORK, 'name': 'shared', 'router:external': False, 'shared': True},
    PUBLIC: {'id': PUBLIC, 'name': 'public', 'router:external': True, 'shared': False},
}
_PORT: Record = {'id': PORT, 'network_id': NETWORK, 'project_id': 'demo-id', 'device_id': ''}


def add(state: State, **fields: Any) -> Record:
    """Have a floating IP; ``port_forwardings`` is a list of ids."""
    record = {
        'id': str(uuid.uuid4()),
        'project_id': 'demo-id',
        'floating_network_id': PUBLIC,
        'description': '',
        'tags': [],
        'port_id': None,
        'port_forwardings': [],
        'updated_at': '2082-11-30T12:00:00Z',
        **fields,
    }
    state.put('floatingips', record, {'what': 'floatingip create', 'id': record['id']})
    return record


def _versions(request: Any) -> Record:
    link = [{'rel': 'self', 'href': f'{request.base}/network/v2.0/'}]
    return {'versions': [{'id': 'v2.0', 'status': 'CURRENT', 'links': link}]}


def _get(request: Any, kind: str, wanted: str) -> Record:
    request.caller()
    if kind == 'network' and wanted in _NETWORKS:
        return {'network': _NETWORKS[wanted]}
    if kind == 'network' and wanted in request.server.state.networks:
        return {'network': request.server.state.networks[wanted]}
    if kind == 'port' and wanted in (there := {PORT: _PORT, **request.server.state.network_ports}):
        return {'port': there[wanted]}
    raise Refusal(404, f'{kind.capitalize()} {wanted} could not be found.', 'NotFound')


def _networks(request: Any) -> Record:
    if 'shared' not in request.query:
        return neutron_networks.networks(request)
    request.caller()
    is_shared, project_id = request.query['shared'] == 'True', request.query.get('project_id')
    every = [*_NETWORKS.values(), *request.server.state.networks.values()]
    found = [
        each['id']
        for each in every
        if bool(each.get('shared')) == is_shared and project_id in (None, each.get('project_id'))
    ]
    return {'networks': [{'id': each} for each in found[: int(request.query['limit'])]]}


def _security_groups(request: Any) -> Record:
    """List the group default, which each project has, or two of the name twins."""
    request.caller()
    name = request.query.get('name')
    count = {'default': 1, 'twins': 2}.get(name, 0)
    return {'security_groups': [{'id': PORT, 'name': name}] * count}


def _subnets(request: Any) -> Record:
    if 'id' in request.queries:
        return neutron_networks.subnets(request)
    found = [_SUBNET] if request.query['network_id'] == PUBLIC else []
    return {'subnets': found, 'subnets_links': [{'rel': 'previous', 'href': request.base}]}


def _ports(request: Any) -> Record:
    if 'fixed_ips' not in request.queries:
        return neutron_networks.ports(request)
    used = {ROUTER: 'network:router_gateway'}
    floating = request.server.state.floatingips.values()
    used |= {each['floating_ip_address']: 'network:floatingip' for each in floating}
    asked = [each.partition('=')[2] for each in request.queries['fixed_ips']]
    return {
        'ports': [
            {'id': PORT, 'device_owner': used[each], 'fixed_ips': [{'ip_address': each}]}
            for each in asked
            if each in used
        ]
    }


def _list(request: Any) -> Record:
    caller, asked = request.caller(), request.queries.get('floating_ip_address')
    found = [
        each
        for each in request.server.state.floatingips.values()
        if owns(caller, each)
        and request.query.get('floating_network_id') in (None, each['floating_network_id'])
        and (asked is None or each['floating_ip_address'] in asked)
        and each['id'] in request.queries.get('id', (each['id'],))
    ]
    return {'floatingips': found}


def _create(request: Any) -> tuple[int, dict[str, str], Record]:
    caller, state, body = request.caller(), request.server.state, request.body['floatingip']
    if 'admin' not in caller['roles']:
        raise Refusal(403, 'rule:create_floatingip is disallowed', 'PolicyNotAuthorized')
    if 'tags' in body:
        raise Refusal(400, "Attribute 'tags' not allowed in POST", 'HTTPBadRequest')
    there = state.floatingips.values()
    if any(each['floating_ip_address'] == body['floating_ip_address'] for each in there):
        text = f'IP address {body["floating_ip_address"]} already allocated.'
        raise Refusal(409, text, 'IpAddressAlreadyAllocated')
    if sum(each['project_id'] == body['project_id'] for each in there) >= state.network_quota:
        raise Refusal(409, "Quota exceeded for resources: ['floatingip'].", 'OverQuota')
    return 201, {}, {'floatingip': add(state, **body)}


def _find(request: Any, wanted: str) -> Record:
    found: Record | None = request.server.state.floatingips.get(wanted)
    if found is None or not owns(request.caller(), found):
        raise Refusal(404, f'Floating IP {wanted} could not be found', 'FloatingIPNotFound')
    return found


def _show(request: Any, wanted: str) -> Record:
    return {'floatingip': _find(request, wanted)}


def _set_tags(request: Any, wanted: str) -> Record:
    record = {**_find(request, wanted), 'tags': request.body['tags']}
    request.server.state.put('floatingips', record, {'what': 'tags', 'id': wanted})
    return {'tags': record['tags']}


def _delete(request: Any, wanted: str) -> tuple[int, dict[str, str], None]:
    if _find(request, wanted)['port_forwardings']:
        raise Refusal(409, f'Floating IP {wanted} in use', 'FipInUseByPortForwarding')
    request.server.state.drop('floatingips', wanted, {'what': 'delete', 'id': wanted})
    return 204, {}, None


def _forwardings(request: Any, wanted: str) -> Record:
    found = [{'id': each} for each in _find(request, wanted)['port_forwardings']]
    return {'port_forwardings': found}


def _delete_forwarding(request: Any, wanted: str, one: str) -> tuple[int, dict[str, str], None]:
    found = _find(request, wanted)
    left = [each for each in found['port_forwardings'] if each != one]
    record, entry = {**found, 'port_forwardings': left}, {'what': 'forwarding delete'}
    request.server.state.put('floatingips', record, {**entry, 'id': wanted})
    return 204, {}, None


_FLOATING = '/network/v2.0/floatingips'
ROUTES = (
    ('GET', '/network/v2.0/networks', _networks),
    *neutron_networks.ROUTES,
    ('GET', '/network', _versions),
    ('GET', '/network/v2.0/(network|port)s/([^/]+)', _get),
    ('GET', '/network/v2.0/security-groups', _security_groups),
    ('GET', '/network/v2.0/subnets', _subnets),
    ('GET', '/network/v2.0/ports', _ports),
    ('GET', _FLOATING, _list),
    ('GET', f'{_FLOATING}/([^/]+)', _show),
    ('POST', _FLOATING, _create),
    ('PUT', f'{_FLOATING}/([^/]+)/tags', _set_tags),
    ('DELETE', f'{_FLOATING}/([^/]+)', _delete),
    ('GET', f'{_FLOATING}/([^/]+)/port_forwardings', _forwardings),
    ('DELETE', f'{_FLOATING}/([^/]+)/port_forwardings/([^/]+)', _delete_forwarding),
)
