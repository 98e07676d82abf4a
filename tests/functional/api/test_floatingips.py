# SPDX-License-Identifier: Apache-2.0
"""Floating IPs through the API: our commands, python-blazarclient 4.6.0's, and what is refused."""

import pathlib
import types
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from blazarclient import client as blazar
from keystoneauth1 import noauth, session

from climate_core.db.engine import Database
from climate_networks import policies as rules
from climate_networks.plugins.floatingips import FloatingIpPlugin
from tests.functional.api import registering, world
from tests.functional.api.registering import ADMIN, Run, ask
from tests.support.fakes import neutron

DATES = ('--start-date', '2099-01-01 10:00', '--end-date', '2099-01-01 12:00')


@pytest.fixture
def url(tmp_path: pathlib.Path) -> Iterator[str]:
    with registering.serving(tmp_path, rules.RULES) as made:
        yield made


@pytest.fixture
def run(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    return registering.runner(url, capsys, monkeypatch)


def test_commands_of_blazar_register_and_reserve_floating_ips(run: Run, url: str) -> None:
    made = run('reservation', 'floatingip', 'create', neutron.PUBLIC, '203.0.113.20', '-f', 'json')
    assert made['floating_ip_address'] == '203.0.113.20'
    (listed,) = run('reservation', 'floatingip', 'list', '-f', 'json')
    assert listed['floating_network_id'] == neutron.PUBLIC
    shown = run('reservation', 'floatingip', 'show', made['id'], '-f', 'json')
    assert shown['subnet_id'] == neutron.SUBNET
    wanted = f'resource_type=virtual:floatingip,network_id={neutron.PUBLIC},amount=1'
    lease = run(
        'reservation', 'lease', 'create', *DATES, '--reservation', wanted, 'one', '-f', 'json'
    )
    # Nothing is promised without Keystone; that it is sent and taken is what counts here.
    assert neutron.PUBLIC in lease['reservations']
    (held,) = run('lease', 'show', lease['id'], '-f', 'json')['reservations']
    changed = f'id={held["id"]},amount=2'
    run('reservation', 'lease', 'set', lease['id'], '--reservation', changed)
    (held,) = run('lease', 'show', lease['id'], '-f', 'json')['reservations']
    assert held['amount'] == 2
    client = blazar.Client('1', service_type='reservation', session=_session(url))
    client.lease.delete(lease['id'])
    run('reservation', 'floatingip', 'delete', made['id'])
    assert run('lease', 'address', 'list', '-f', 'json') == []


def test_own_commands_register_and_reserve_floating_ips(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = types.SimpleNamespace(id=neutron.PUBLIC)
    monkeypatch.setattr(
        'openstack.network.v2._proxy.Proxy.find_network', lambda *_args, **_options: network
    )
    args = ('lease', 'address', 'create', '--network', 'public', '-f', 'json')
    made = run(*args, '--range', '203.0.113.20-203.0.113.21')
    assert [each['Address'] for each in made] == ['203.0.113.20', '203.0.113.21']
    (one,) = run(*args, '203.0.113.22')
    assert run('lease', 'address', 'show', '203.0.113.22', '-f', 'json')['id'] == one['ID']
    wanted = 'network=public,address=203.0.113.20,address=203.0.113.22'
    lease = run(
        *('lease', 'create', 'one', '--for', '1h', '--floating-ips', wanted),
        *('--floating-ips', 'network=public,amount=2', '-f', 'json'),
    )
    shown = run('lease', 'show', lease['id'], '-f', 'json')['reservations']
    assert [(e.get('amount'), e.get('required_floatingips')) for e in shown] == [
        (None, ['203.0.113.20', '203.0.113.22']),
        (2, None),
    ]
    run('lease', 'address', 'delete', '203.0.113.22', made[0]['ID'])
    left = run('lease', 'address', 'list', '--network', 'public', '-f', 'json')
    assert [each['Address'] for each in left] == ['203.0.113.21']


def test_own_commands_reserve_a_floating_ip_that_is_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (types.SimpleNamespace(id=str(uuid.uuid4())) for _ in range(2))
    monkeypatch.setattr(
        'openstack.network.v2._proxy.Proxy.find_ip', lambda *_args, **_options: found.pop()
    )
    found = [other, one]
    lease = run(
        'lease', 'create', 'l', '--for', '1h', '--floating-ip', '203.0.113.5', '-f', 'json'
    )
    more = ('--floating-ip', other.id, '--on-end', 'nothing')
    run('lease', 'reservation', 'add', lease['id'], *more, '-f', 'json')
    listed = run('lease', 'show', lease['id'], '-f', 'json')['reservations']
    assert [(e['resource_type'], e['resource_id'], e.get('on_end')) for e in listed] == [
        ('virtual:floatingip', one.id, None),
        ('virtual:floatingip', other.id, 'nothing'),
    ]
    changed = ('--on-end', 'delete', '-f', 'json')
    run('lease', 'reservation', 'set', lease['id'], listed[1]['id'], *changed)
    listed = run('lease', 'show', lease['id'], '-f', 'json')['reservations']
    assert listed[1]['on_end'] == 'delete'


def _session(url: str) -> session.Session:
    return session.Session(noauth.NoAuth(endpoint=url))


@pytest.fixture
def application(tmp_path: pathlib.Path, database: Database) -> Iterator[Any]:
    with registering.application(tmp_path, database, FloatingIpPlugin) as made:
        yield made


def test_range_is_registered_listed_by_pages_and_given_back(application: Any) -> None:
    network = {'floating_network_id': neutron.PUBLIC}
    body = {**network, 'floating_ip_range': '203.0.113.20-203.0.113.22'}
    made = ask(application, 'POST', '/v1/floatingips', body, 201)
    assert [each['id'] for each in made['floatingips']] == ['1', '2', '3']
    assert made['floatingip'] == made['floatingips'][0]
    page = ask(application, 'GET', '/v1/floatingips?limit=2')
    assert len(page['floatingips']) == 2
    rest = ask(application, 'GET', page['floatingips_links'][0]['href'])['floatingips']
    assert [each['floating_ip_address'] for each in rest] == ['203.0.113.22']
    found = ask(application, 'GET', '/v1/floatingips?floating_ip_address=203.0.113.21')
    assert [each['id'] for each in found['floatingips']] == ['2']
    assert ask(application, 'GET', '/v1/floatingips/2') == {'floatingip': found['floatingips'][0]}
    world.ask(application, 'DELETE', '/v1/floatingips/2', None, ADMIN, 204)
    for one in ('2', 'nonsense', '9' * 30):
        missing = ask(application, 'GET', f'/v1/floatingips/{one}', None, 404)
        assert missing['error_name'] == 'floatingip.not_found'


@pytest.mark.parametrize(
    ('body', 'field', 'status'),
    [
        (
            {'floating_ip_address': '203.0.113.20', 'floating_ip_range': 'x'},
            'floating_ip_range',
            400,
        ),
        ({}, 'floating_ip_address', 400),
        ({'floating_ip_address': '203.0.113.1'}, 'floating_ip_address', 400),
        ({'floating_ip_address': neutron.ROUTER}, 'floating_ip_address', 409),
    ],
)
def test_request_that_is_refused_names_its_field(
    application: Any, body: Any, field: str, status: int
) -> None:
    asked = {'floating_network_id': neutron.PUBLIC, **body}
    refused = ask(application, 'POST', '/v1/floatingips', asked, status)
    assert refused['field'] == field


def test_amount_with_a_start_in_it_is_refused(application: Any) -> None:
    """Some clients of Blazar send texts as ``1,start=now``."""
    wanted = {
        'resource_type': 'virtual:floatingip',
        'network_id': neutron.PUBLIC,
        'amount': '1,start=now',
    }
    body = {'name': 'one', 'end_date': '2099-01-01 10:00', 'reservations': [wanted]}
    refused = ask(application, 'POST', '/v1/leases', body, 400)
    assert refused['field'] == 'reservations[0].amount'


def test_availability_tells_when_addresses_are_free(application: Any) -> None:
    network = {'floating_network_id': neutron.PUBLIC}
    body = {**network, 'floating_ip_range': '203.0.113.20-203.0.113.21'}
    ask(application, 'POST', '/v1/floatingips', body, 201)
    wanted = {'resource_type': 'virtual:floatingip', 'network_id': neutron.PUBLIC}
    first = {**wanted, 'required_floatingips': ['203.0.113.20']}
    times = {'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
    ask(application, 'POST', '/v1/leases', {'name': 'l', **times, 'reservations': [first]}, 201)
    assert registering.windows(application, wanted)[0][0] == '10:00'
    second = {**wanted, 'required_floatingips': ['203.0.113.21']}
    for asked in ([first], [{**wanted, 'amount': 2}], [first, second]):
        assert registering.windows(application, *asked)[0][0] == '12:00'


@pytest.mark.parametrize('wrong', ['public', '203.0.113.256', '203.0.113.020', '2001:db8::1', ''])
def test_required_address_that_is_none_names_its_field(application: Any, wrong: str) -> None:
    network = {'floating_network_id': neutron.PUBLIC, 'floating_ip_address': '203.0.113.20'}
    ask(application, 'POST', '/v1/floatingips', network, 201)
    wanted = {'resource_type': 'virtual:floatingip', 'network_id': neutron.PUBLIC}
    body = {'name': 'one', 'end_date': '2099-01-01 10:00', 'reservations': [wanted]}
    lease = ask(application, 'POST', '/v1/leases', body, 201)['lease']
    asked = {'required_floatingips': ['203.0.113.20', wrong], 'amount': 2}
    more = {**body, 'name': 'two', 'reservations': [{**wanted, **asked}]}
    changed = {'reservations': [{'id': lease['reservations'][0]['id'], **asked}]}
    for refused in (
        ask(application, 'POST', '/v1/leases', more, 400),
        ask(application, 'PUT', f'/v1/leases/{lease["id"]}', changed, 400),
    ):
        assert refused['field'] == 'reservations[0].required_floatingips[1]'
        assert 'must be an IPv4 address, as 203.0.113.20.' in refused['error_message']


def test_address_that_is_not_extended_shows_its_own_end(application: Any) -> None:
    network = {'floating_network_id': neutron.PUBLIC}
    body = {**network, 'floating_ip_range': '203.0.113.20-203.0.113.21'}
    ask(application, 'POST', '/v1/floatingips', body, 201)

    def lease(start: str, end: str, *addresses: str) -> Any:
        wanted = {'resource_type': 'virtual:floatingip', 'network_id': neutron.PUBLIC}
        reservations = [{**wanted, 'required_floatingips': [each]} for each in addresses]
        dates = {'start_date': f'2099-01-01 {start}', 'end_date': f'2099-01-01 {end}'}
        body = {'name': start, **dates, 'reservations': reservations}
        return ask(application, 'POST', '/v1/leases', body, 201)['lease']

    made = lease('12:00', '14:00', '203.0.113.20', '203.0.113.21')
    lease('14:00', '16:00', '203.0.113.21')
    path, longer = f'/v1/leases/{made["id"]}', {'end_date': '2099-01-01 16:00'}
    refused = ask(application, 'PUT', path, longer, 409)
    assert refused['field'] == 'end_date'
    assert 'floating IP 203.0.113.21 (reservation ' in refused['error_message']
    changed = ask(application, 'PUT', path, {**longer, 'partial': True})['lease']
    assert changed['end_date'].startswith('2099-01-01T16:00')
    ends = {e['floatingips'][0]: e.get('end_date', '')[:16] for e in changed['reservations']}
    assert ends == {'203.0.113.20': '', '203.0.113.21': '2099-01-01T14:00'}
    (early,) = (each for each in changed['reservations'] if 'end_date' in each)
    body = {'amount': 1}
    shown = ask(application, 'PUT', f'{path}/reservations/{early["id"]}', body)['reservation']
    assert shown['end_date'] == early['end_date']
    assert ask(application, 'PUT', path, {'partial': True}, 400)['field'] == 'partial'
