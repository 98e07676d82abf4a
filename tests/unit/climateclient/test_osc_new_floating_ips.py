# SPDX-License-Identifier: Apache-2.0
"""``--new-floating-ip``: what is created with a lease, and deleted if it is refused."""

import types

import pytest

from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import ENDPOINT

NETWORK = '7a1c0c7e-3a55-4c1b-9c1c-0d5f2f9b8f10'
PROXY = 'openstack.network.v2._proxy.Proxy'
CREATE = ('lease', 'create', 'l', '--for', '1h')


@pytest.fixture
def there(monkeypatch):
    """Return the floating IPs that exist: id -> network."""
    found = {}

    def create_ip(_self, floating_network_id):
        made = types.SimpleNamespace(id=f'00000000-0000-4000-8000-00000000000{len(found)}')
        found[made.id] = floating_network_id
        return made

    network = types.SimpleNamespace(id=NETWORK)
    monkeypatch.setattr(f'{PROXY}.find_network', lambda *_args, **_options: network)
    monkeypatch.setattr(f'{PROXY}.create_ip', create_ip)
    monkeypatch.setattr(f'{PROXY}.delete_ip', lambda _self, one, **_options: found.pop(one.id))
    return found


def test_floating_ip_is_created_and_reserved_with_its_end(run, http, there):
    http.post(f'{ENDPOINT}/leases', json={'lease': samples.lease()})
    run(*CREATE, '--new-floating-ip', 'public', '--on-end', 'nothing')
    ((made, network),) = there.items()
    assert network == NETWORK
    sent = http.request_history[-1].json()['reservations']
    assert sent == [
        {'resource_type': 'virtual:floatingip', 'resource_id': made, 'on_end': 'nothing'}
    ]


def test_floating_ips_of_a_lease_that_is_refused_are_deleted(fail, http, there):
    body = {'error_code': 403, 'error_message': 'No.', 'error_name': 'limits.exceeded'}
    http.post(f'{ENDPOINT}/leases', status_code=403, json=body)
    fail(*CREATE, '--new-floating-ip', 'a', '--new-floating-ip', 'b')
    assert there == {}


@pytest.mark.parametrize('more', [('--dry-run',), ('--idempotency-key', 'k')])
def test_command_that_may_be_repeated_creates_none(fail, there, more):
    err = fail(*CREATE, '--new-floating-ip', 'a', *more)
    assert there == {}
    assert '--new-floating-ip creates something each time' in err
