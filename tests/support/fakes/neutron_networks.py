# SPDX-License-Identifier: Apache-2.0
"""The part of the Networking API that networks of leases need, and what keeps them from going.

It refuses what neutron 29 refuses (tests/functional/neutron has the real one).
"""

import uuid
from collections.abc import Sequence
from typing import Any

from tests.support.fakes.state import Record, Refusal, State, owns

SEGMENT = ('network_type', 'physical_network', 'segmentation_id')
INTERFACE = 'network:router_interface'


def add(state: State, **fields: Any) -> Record:
    """Have a network."""
    record = {
        'id': str(uuid.uuid4()),
        'project_id': 'demo-id',
        'name': 'n',
        'description': '',
        'tags': [],
        'updated_at': '2082-12-01T12:00:00Z',
        'router:external': False,
        **{f'provider:{name}': None for name in SEGMENT},
        **fields,
    }
    return _put(state, 'networks', record, 'network create')


def add_port(state: State, network_id: str, **fields: Any) -> Record:
    """Have a port on a network."""
    record = {
        'id': str(uuid.uuid4()),
        'network_id': network_id,
        'project_id': 'demo-id',
        'device_owner': '',
        'device_id': '',
        'fixed_ips': [],
        'floating': False,
        'host': '',
        **fields,
    }
    return _put(state, 'network_ports', record, 'port create')


#: How Neutron says that a port is in a trunk (neutron/services/trunk/exceptions.py).
IN_TRUNK = 'Port {} is currently a subport for trunk {}.'


def add_trunk(state: State, parent: Record, subports: Sequence[Record] = ()) -> Record:
    """Have a trunk."""
    found = [{'port_id': each['id']} for each in subports]
    record = {'id': str(uuid.uuid4()), 'port_id': parent['id'], 'sub_ports': found}
    return _put(state, 'trunks', record, 'trunk create')


def add_interface(
    state: State, network_id: str, cidr: str, nexthop: str | None = None, host: str = ''
) -> Record:
    """Have a router with an interface in a new subnet, perhaps with a route through it."""
    number = {'subnet_id': str(uuid.uuid4()), 'ip_address': cidr.partition('/')[0]}
    _put(state, 'subnets', {'id': number['subnet_id'], 'cidr': cidr}, 'subnet create')
    routes = [{'destination': '10.99.0.0/16', 'nexthop': nexthop}] if nexthop else []
    router = _put(state, 'routers', {'id': str(uuid.uuid4()), 'routes': routes}, 'router create')
    values = {'device_owner': INTERFACE, 'device_id': router['id'], 'fixed_ips': [number]}
    return add_port(state, network_id, **values, host=host)


def ports(request: Any) -> Record:
    """Return the ports of a network."""
    wanted = request.query['network_id']
    every = request.server.state.network_ports.values()
    return {'ports': [each for each in every if each['network_id'] == wanted]}


def _put(state: State, table: str, record: Record, what: str) -> Record:
    state.put(table, record, {'what': what, 'id': record['id']})
    return record


def _drop(request: Any, table: str, wanted: str, what: str) -> tuple[int, dict[str, str], None]:
    request.server.state.drop(table, wanted, {'what': what, 'id': wanted})
    return 204, {}, None


def _find(request: Any, table: str, wanted: str) -> Record:
    found: Record | None = getattr(request.server.state, table).get(wanted)
    if found is None or not owns(request.caller(), {'project_id': None, **found}):
        raise Refusal(404, f'{wanted} could not be found.', 'NotFound')
    return found


def networks(request: Any) -> Record:
    """Return the networks of the caller, by their segments."""
    asked = {name.removeprefix('provider:'): e for name, e in request.queries.items()}
    caller = request.caller()
    return {
        'networks': [
            each
            for each in request.server.state.networks.values()
            if owns(caller, each)
            and ('id' not in asked or each['id'] in asked['id'])
            and all(
                str(each[f'provider:{name}']) in asked[name] for name in SEGMENT if name in asked
            )
        ]
    }


def _create(request: Any) -> tuple[int, dict[str, str], Record]:
    caller, state, body = request.caller(), request.server.state, request.body['network']
    if 'admin' not in caller['roles']:
        raise Refusal(403, 'rule:create_network is disallowed', 'PolicyNotAuthorized')
    if 'tags' in body:
        raise Refusal(400, "Attribute 'tags' not allowed in POST", 'HTTPBadRequest')
    _check_provider(state, body)
    wanted = {f'provider:{name}': body.get(f'provider:{name}') for name in SEGMENT}
    there = state.networks.values()
    if any(wanted.items() <= each.items() for each in there):
        raise Refusal(409, 'The VLAN is in use.', 'VlanIdInUse')
    if sum(each['project_id'] == body['project_id'] for each in there) >= state.network_quota:
        raise Refusal(409, "Quota exceeded for resources: ['network'].", 'OverQuota')
    return 201, {}, {'network': add(state, **body)}


def _check_provider(state: State, body: Record) -> None:
    """Refuse a segment that cannot be (neutron/plugins/ml2/drivers/type_vlan.py)."""
    kind, physical, number = (body.get(f'provider:{name}') for name in SEGMENT)
    text = None
    if kind not in state.network_types:
        text = f"network_type value '{kind}' not supported"
    elif kind != 'vlan' and physical:
        text = f'provider:physical_network specified for {kind} network'
    elif kind == 'vlan' and physical not in state.physical_networks:
        text = f"physical_network '{physical}' unknown for VLAN provider network"
    elif kind == 'vlan' and not 1 <= number <= 4094:
        text = 'segmentation_id out of range (1 through 4094)'
    if text:
        raise Refusal(400, f'Invalid input for operation: {text}.', 'InvalidInput')


def _ranges(request: Any) -> Record:
    if request.server.state.segment_ranges is None:
        raise Refusal(404, 'The resource could not be found.', 'HTTPNotFound')
    return {'network_segment_ranges': request.server.state.segment_ranges}


def _update(request: Any, wanted: str) -> Record:
    record = {**_find(request, 'networks', wanted), **request.body['network']}
    return {'network': _put(request.server.state, 'networks', record, 'network update')}


def _set_tags(request: Any, wanted: str) -> Record:
    record = {**_find(request, 'networks', wanted), 'tags': request.body['tags']}
    _put(request.server.state, 'networks', record, 'network tags')
    return {'tags': record['tags']}


def _delete(request: Any, wanted: str) -> tuple[int, dict[str, str], None]:
    _find(request, 'networks', wanted)
    here = [e for e in request.server.state.network_ports.values() if e['network_id'] == wanted]
    if any(each['device_owner'] != 'network:dhcp' for each in here):
        raise Refusal(409, f'Unable to complete operation on network {wanted}.', 'NetworkInUse')
    return _drop(request, 'networks', wanted, 'network delete')


def _delete_port(request: Any, wanted: str) -> tuple[int, dict[str, str], None]:
    found = _find(request, 'network_ports', wanted)
    _check_in_no_trunk(request.server.state, wanted)
    if found['device_owner'].startswith('network:'):
        raise Refusal(409, f'Port {wanted} cannot be deleted directly.', 'ServicePortInUse')
    return _drop(request, 'network_ports', wanted, 'port delete')


def _check_in_no_trunk(state: State, port_id: str) -> None:
    for trunk in state.trunks.values():
        if port_id in (trunk['port_id'], *(each['port_id'] for each in trunk['sub_ports'])):
            raise Refusal(409, IN_TRUNK.format(port_id, trunk['id']), 'PortInUseAsSubPort')


def _update_port(request: Any, wanted: str) -> Record:
    changed = {n.replace('binding:host_id', 'host'): e for n, e in request.body['port'].items()}
    record = {**_find(request, 'network_ports', wanted), **changed}
    return {'port': _put(request.server.state, 'network_ports', record, 'port update')}


def _trunks(request: Any) -> Record:
    found = request.server.state.trunks.values()
    return {'trunks': [e for e in found if e['id'] in request.queries.get('id', (e['id'],))]}


def _delete_trunk(request: Any, wanted: str) -> tuple[int, dict[str, str], None]:
    parent = request.server.state.network_ports[_find(request, 'trunks', wanted)['port_id']]
    if parent['host']:
        raise Refusal(409, f'Trunk {wanted} is currently in use.', 'TrunkInUse')
    return _drop(request, 'trunks', wanted, 'trunk delete')


def _remove_subports(request: Any, wanted: str) -> Record:
    found, gone = _find(request, 'trunks', wanted), request.body['sub_ports']
    record = {**found, 'sub_ports': [e for e in found['sub_ports'] if e not in gone]}
    return _put(request.server.state, 'trunks', record, 'trunk update')


def subnets(request: Any) -> Record:
    """Subnets by their ids."""
    wanted = request.queries['id']
    return {'subnets': [e for e in request.server.state.subnets.values() if e['id'] in wanted]}


def _router(request: Any, wanted: str) -> Record:
    return {'router': _find(request, 'routers', wanted)}


def _remove_routes(request: Any, wanted: str) -> Record:
    found, gone = _find(request, 'routers', wanted), request.body['router']['routes']
    record = {**found, 'routes': [each for each in found['routes'] if each not in gone]}
    return {'router': _put(request.server.state, 'routers', record, 'routes remove')}


def _remove_interface(request: Any, wanted: str) -> Record:
    state, port_id = request.server.state, request.body['port_id']
    found, port = _find(request, 'routers', wanted), _find(request, 'network_ports', port_id)
    here = [e for e in state.network_ports.values() if e['network_id'] == port['network_id']]
    if any(each['floating'] for each in here):
        raise Refusal(409, 'It is required by floating IPs.', 'RouterInterfaceInUseByFloatingIP')
    if found['routes']:
        raise Refusal(409, 'It is required by one or more routes.', 'RouterInterfaceInUseByRoute')
    _check_in_no_trunk(state, port_id)
    _drop(request, 'network_ports', port_id, 'interface remove')
    return {'id': wanted, 'port_id': port_id}


_BASE = '/network/v2.0'
ROUTES = (
    ('POST', f'{_BASE}/networks', _create),
    ('GET', f'{_BASE}/network-segment-ranges', _ranges),
    ('PUT', f'{_BASE}/networks/([^/]+)/tags', _set_tags),
    ('PUT', f'{_BASE}/networks/([^/]+)', _update),
    ('DELETE', f'{_BASE}/networks/([^/]+)', _delete),
    ('DELETE', f'{_BASE}/ports/([^/]+)', _delete_port),
    ('PUT', f'{_BASE}/ports/([^/]+)', _update_port),
    ('GET', f'{_BASE}/trunks', _trunks),
    ('DELETE', f'{_BASE}/trunks/([^/]+)', _delete_trunk),
    ('PUT', f'{_BASE}/trunks/([^/]+)/remove_subports', _remove_subports),
    ('GET', f'{_BASE}/routers/([^/]+)', _router),
    ('PUT', f'{_BASE}/routers/([^/]+)/remove_extraroutes', _remove_routes),
    ('PUT', f'{_BASE}/routers/([^/]+)/remove_router_interface', _remove_interface),
)
