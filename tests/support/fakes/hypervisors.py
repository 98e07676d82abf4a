# SPDX-License-Identifier: Apache-2.0
"""The part of the Compute API about hosts."""

import uuid
from typing import Any

from tests.support.fakes import placement
from tests.support.fakes.state import Record, Refusal, State


def add(state: State, name: str = 'cn1', **fields: Any) -> Record:
    """Put a hypervisor into the cloud, its service being called the same, also in Placement."""
    hypervisor: Record = {
        'id': str(uuid.uuid4()),
        'hypervisor_hostname': name,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 7002000,
        'host_ip': '192.0.2.1',
        'state': 'up',
        'status': 'enabled',
        'vcpus': 64,
        'memory_mb': 262144,
        'local_gb': 2000,
        'cpu_info': {'arch': 'x86_64', 'model': 'Cascadelake-Server', 'vendor': 'Intel'},
        'service': {'id': str(uuid.uuid4()), 'host': name, 'disabled_reason': None},
        **fields,
    }
    placement.add_host(state, hypervisor)
    state.put('hypervisors', hypervisor, {'what': 'hypervisor', 'id': hypervisor['id']})
    return hypervisor


def silence(state: State, name: str, since: str | None = '2026-01-01T00:00:00') -> Record:
    """Have the service of a hypervisor be down since a time; None: nobody knows since when."""
    (found,) = [e for e in state.hypervisors.values() if e['hypervisor_hostname'] == name]
    changed = {**found, 'state': 'down', 'service': {**found['service'], 'updated_at': since}}
    state.put('hypervisors', changed, {'what': 'hypervisor is', 'id': found['id']})
    return changed


def switch(state: State, hypervisor_hostname: str, power: str) -> Record:
    """Have the machine of a hypervisor be switched on or off, as a tool does it that is told."""
    (found,) = [
        each
        for each in state.hypervisors.values()
        if each['hypervisor_hostname'] == hypervisor_hostname
    ]
    service = {**found['service'], 'updated_at': '2026-01-01T00:00:00'}
    changed = {**found, 'state': 'up' if power == 'on' else 'down', 'service': service}
    entry = {'what': f'power {power}', 'id': found['id']}
    state.put('hypervisors', changed, entry)
    return changed


def _set_status(request: Any, service_id: str) -> Record:
    """Enable or disable a service."""
    (found,) = [each for each in _all(request) if each['service']['id'] == service_id]
    wanted = request.body
    service = {**found['service'], 'disabled_reason': wanted.get('disabled_reason')}
    changed = {**found, 'status': wanted['status'], 'service': service}
    entry = {'what': 'service', 'id': service_id, 'status': wanted['status']}
    request.server.state.put('hypervisors', changed, entry)
    return {'service': {**service, 'status': wanted['status']}}


def _all(request: Any) -> list[Record]:
    if 'admin' not in request.caller()['roles']:
        raise Refusal(403, "Policy doesn't allow os_compute_api:os-hypervisors to be performed.")
    found = request.server.state.hypervisors.values()
    return sorted(found, key=lambda each: str(each['id']))


def _list(request: Any) -> Record:
    """List by pages, or by a part of the name."""
    found, query = _all(request), request.query
    pattern = query.get('hypervisor_hostname_pattern')
    if pattern is not None:
        found = [each for each in found if pattern in each['hypervisor_hostname']]
        if not found:
            raise Refusal(404, f"No hypervisor matching '{pattern}' could be found.")
        return {'hypervisors': found}
    after = [each for each in found if each['id'] > query.get('marker', '')]
    limit = int(query.get('limit', 1000))
    page: Record = {'hypervisors': after[:limit]}
    if 'with_servers' not in query:
        page['hypervisors'] = [
            {name: value for name, value in each.items() if name != 'servers'}
            for each in page['hypervisors']
        ]
    if len(after) > limit:
        page['hypervisors_links'] = [{'rel': 'next', 'href': '-'}]
    return page


def _services(request: Any) -> Record:
    return {
        'services': [
            {
                **each['service'],
                'binary': 'nova-compute',
                'zone': 'nova',
                'state': each['state'],
                'status': each['status'],
                'forced_down': False,
            }
            for each in _all(request)
        ]
    }


def _aggregates(request: Any) -> Record:
    return {
        'aggregates': [{'name': 'all', 'hosts': [h['service']['host'] for h in _all(request)]}]
    }


_COMPUTE = r'/compute/v2\.1'
ROUTES = (
    ('GET', f'{_COMPUTE}/os-hypervisors/detail', _list),
    ('GET', f'{_COMPUTE}/os-services', _services),
    ('PUT', f'{_COMPUTE}/os-services/([^/]+)', _set_status),
    ('GET', f'{_COMPUTE}/os-aggregates', _aggregates),
)
