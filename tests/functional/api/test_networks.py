# SPDX-License-Identifier: Apache-2.0
"""Networks through the API: our commands, the wire of Chameleon's clients, what is refused."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from climate_core.db.engine import Database
from climate_networks import policies as rules
from climate_networks.plugins.networks import NetworkPlugin
from tests.functional.api import registering, world
from tests.functional.api.registering import ADMIN, Run, ask

PATH = '/v1/networks'
VLAN = {'network_type': 'vlan', 'physical_network': 'physnet1'}
#: As the command line and the dashboard of Chameleon send it.
CHAMELEON = {
    'resource_type': 'network',
    'network_name': 'net1',
    'network_description': '',
    'network_properties': '',
    'resource_properties': '["==", "$physical_network", "physnet1"]',
}


@pytest.fixture
def run(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    with registering.serving(tmp_path, rules.RULES) as url:
        yield registering.runner(url, capsys, monkeypatch)


def test_commands_register_change_and_delete_segments(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ('project_id', 'domain_id'):
        monkeypatch.setattr(f'climateclient.osc.options.{kind}', lambda _cmd, name: name)
    create = ('lease', 'segment', 'create', '--physical-network', 'physnet1', '-f', 'json')
    made = run(*create, '--range', '100-101', '--extra', 'switch=tor1', '--project', 'p')
    assert [each['Segment'] for each in made] == [100, 101]
    (one,) = run(*create, '--segment', '102', '--disable')
    shown = run('lease', 'segment', 'show', 'physnet1:100', '-f', 'json')
    assert (shown['id'], shown['extra']) == (made[0]['ID'], {'switch': 'tor1'})
    assert (shown['project_ids'], shown['reservable']) == (['p'], True)
    change = ('lease', 'segment', 'set', 'physnet1:102', '--enable', '--extra', 'note=port 7')
    changed = run(*change, '--project', 'p', '--domain', 'd', '-f', 'json')
    assert (changed['reservable'], changed['extra']) == (True, {'note': 'port 7'})
    assert (changed['project_ids'], changed['domain_ids']) == (['p'], ['d'])
    taken = ('lease', 'segment', 'unset', one['ID'], '--extra', 'note', '--domain', 'd')
    changed = run(*taken, '-f', 'json')
    assert (changed['extra'], changed['project_ids'], changed['domain_ids']) == ({}, ['p'], [])
    changed = run('lease', 'segment', 'unset', one['ID'], '--all', '-f', 'json')
    assert changed['project_ids'] == []
    run(*create[:3], '--network-type', 'vxlan', '--segment', '5000', '-f', 'json')
    run('lease', 'segment', 'property', 'set', 'switch', '--private')
    assert run('lease', 'segment', 'property', 'list', '-f', 'json') == []
    (listed,) = run('lease', 'segment', 'property', 'list', '--all', '-f', 'json')
    assert listed == {'Property': 'switch', 'Private': True, 'Values': ['tor1']}
    run('lease', 'segment', 'delete', 'physnet1:100', one['ID'], 'vxlan:5000')
    left = run('lease', 'segment', 'list', '--network-type', 'vlan', '-f', 'json')
    assert [each['Segment'] for each in left] == [101]


def test_commands_reserve_a_network(run: Run) -> None:
    wanted = 'name=net1,physical_network=physnet1,segment=100,tag=a,tag=b,switch==tor1,ports>24'
    lease = run(
        *('lease', 'create', 'one', '--for', '1h', '--network', wanted),
        *('--network', 'name=net2,description=second', '-f', 'json'),
    )
    first, second = run('lease', 'show', lease['id'], '-f', 'json')['reservations']
    # Without Keystone no plugin has read it.
    assert first['network_name'] == 'net1'
    assert (first['physical_network'], first['segment_id']) == ('physnet1', 100)
    assert first['network_tags'] == ['a', 'b']
    assert first['resources'] == ['switch==tor1', 'ports>24']
    assert (second['network_name'], second['network_description']) == ('net2', 'second')


@pytest.fixture
def application(tmp_path: pathlib.Path, database: Database) -> Iterator[Any]:
    with registering.application(tmp_path, database, NetworkPlugin) as made:
        yield made


def as_user(application: Any, project: str, path: str, status: int = 200) -> Any:
    headers = {'X-Project-Id': project, 'X-Roles': 'reader'}
    return world.ask(application, 'GET', path, None, headers, status).json


def test_range_is_registered_listed_by_pages_and_given_back(application: Any) -> None:
    body = {**VLAN, 'segment_range': '100-102', 'switch': 'tor1'}
    made = ask(application, 'POST', PATH, body, 201)
    assert [each['id'] for each in made['networks']] == ['1', '2', '3']
    assert made['network'] == made['networks'][0]
    assert {each['switch'] for each in made['networks']} == {'tor1'}
    page = ask(application, 'GET', f'{PATH}?limit=2')
    assert [each['segment_id'] for each in page['networks']] == [100, 101]
    rest = ask(application, 'GET', page['networks_links'][0]['href'])
    assert [each['segment_id'] for each in rest['networks']] == [102]
    assert 'networks_links' not in rest
    found = ask(application, 'GET', f'{PATH}?segment_id=101&physical_network=physnet1')
    assert [each['id'] for each in found['networks']] == ['2']
    assert ask(application, 'GET', f'{PATH}/2') == {'network': found['networks'][0]}
    world.ask(application, 'DELETE', f'{PATH}/2', None, ADMIN, 204)
    for one in ('2', 'nonsense', '9' * 30):
        missing = ask(application, 'GET', f'{PATH}/{one}', None, 404)
        assert missing['error_name'] == 'network.not_found'


def test_segment_is_changed_as_clients_of_chameleon_do(application: Any) -> None:
    body = {**VLAN, 'segment_id': '100', 'stitch_provider': 'fabric'}
    made = ask(application, 'POST', PATH, body, 201)
    assert 'networks' not in made
    assert (made['network']['segment_id'], made['network']['stitch_provider']) == (100, 'fabric')
    changed = {'values': {'stitch_provider': None, 'note': 'port 7'}, 'reservable': 'false'}
    network = ask(application, 'PUT', f'{PATH}/1', changed)['network']
    assert (network['note'], network['reservable']) == ('port 7', False)
    assert 'stitch_provider' not in network
    refused = ask(application, 'PUT', f'{PATH}/1', {'segment_id': 5}, 400)
    assert refused['field'] == 'segment_id'


def test_segment_that_was_changed_meanwhile_is_not_changed(application: Any) -> None:
    made = ask(application, 'POST', PATH, {**VLAN, 'segment_id': 100}, 201)['network']
    assert made['generation'] == 0
    changed = {'project_ids': ['p1'], 'generation': 0}
    assert ask(application, 'PUT', f'{PATH}/1', changed)['network']['generation'] == 1
    for body in (changed, {'values': changed}):
        refused = ask(application, 'PUT', f'{PATH}/1', body, 409)
        assert (refused['error_name'], refused['field']) == ('network.changed', 'generation')
    assert ask(application, 'GET', f'{PATH}/1')['network']['project_ids'] == ['p1']


def test_users_see_the_segments_that_they_may_be_promised(application: Any) -> None:
    for number, projects in ((100, []), (101, ['other']), (102, ['mine']), (103, ['other'])):
        body = {**VLAN, 'segment_id': number, 'project_ids': projects}
        ask(application, 'POST', PATH, body, 201)
    found = as_user(application, 'mine', f'{PATH}?limit=1')
    assert [each['segment_id'] for each in found['networks']] == [100]
    assert 'project_ids' not in found['networks'][0]
    found = as_user(application, 'mine', found['networks_links'][0]['href'])
    assert [each['segment_id'] for each in found['networks']] == [102]
    assert 'networks_links' not in found
    as_user(application, 'mine', f'{PATH}/3')
    missing = as_user(application, 'mine', f'{PATH}/2', 404)
    assert missing['error_name'] == 'network.not_found'
    assert len(ask(application, 'GET', PATH)['networks']) == 4


@pytest.mark.parametrize(
    ('body', 'field'),
    [
        ({**VLAN}, 'segment_id'),
        ({**VLAN, 'segment_id': 1, 'segment_range': '1-2'}, 'segment_range'),
        ({**VLAN, 'segment_id': 4095}, 'segment_id'),
        ({**VLAN, 'segment_id': 1.5}, 'segment_id'),
        ({'network_type': 'flat', 'segment_id': 1}, 'network_type'),
        ({'network_type': 'vlan', 'segment_id': 1}, 'physical_network'),
        ({**VLAN, 'segment_id': 1, 'pool': 'x'}, 'pool'),
    ],
)
def test_request_that_is_refused_names_its_field(application: Any, body: Any, field: str) -> None:
    assert ask(application, 'POST', PATH, body, 400)['field'] == field


def test_lease_availability_and_dry_run_as_chameleon_asks(application: Any) -> None:
    ask(application, 'POST', PATH, {**VLAN, 'segment_id': 100}, 201)
    times = {'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
    body = {'name': 'one', **times, 'reservations': [CHAMELEON]}
    lease = ask(application, 'POST', '/v1/leases', body, 201)['lease']
    (reservation,) = lease['reservations']
    assert lease['kind'] == 'scheduled'
    assert reservation['resource_type'] == 'network'
    assert (reservation['segment_id'], reservation['network_id']) == (100, None)
    refused = ask(application, 'POST', '/v1/leases?dry_run=true', body)
    assert 'network segments' in json.dumps(refused)
    refused = ask(application, 'POST', '/v1/leases', body, 409)
    assert refused['available_from'].startswith('2099-01-01T12:00')
    shown = ask(application, 'GET', f'/v1/leases/{lease["id"]}')['lease']
    assert shown['reservations'] == [reservation]
    found = ask(application, 'DELETE', f'{PATH}/1', None, 409)
    assert found['error_name'] == 'network.in_use'


def test_availability_tells_when_segments_are_free(application: Any) -> None:
    for number, switch in ((100, 'tor1'), (101, 'tor2')):
        ask(application, 'POST', PATH, {**VLAN, 'segment_id': number, 'switch': switch}, 201)
    wanted = {'resource_type': 'network', 'network_name': 'net1'}
    first = {**wanted, 'resources': 'switch==tor1'}
    times = {'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
    ask(application, 'POST', '/v1/leases', {'name': 'l', **times, 'reservations': [first]}, 201)
    assert registering.windows(application, wanted)[0][0] == '10:00'
    for asked in ([first], [{**wanted, 'segment_id': 100}], [wanted, wanted]):
        assert registering.windows(application, *asked)[0][0] == '12:00'


def test_private_properties_are_kept_from_users_who_can_ask_for_them(application: Any) -> None:
    body = {**VLAN, 'switch': 'tor1', 'uplink': 'x9'}
    ask(application, 'POST', PATH, {**body, 'segment_id': 100}, 201)
    other = {**body, 'switch': 'tor2', 'segment_id': 101, 'project_ids': ['other']}
    ask(application, 'POST', PATH, other, 201)
    made = ask(application, 'PATCH', f'{PATH}/properties/uplink', {'private': True})
    assert made['resource_property'] == {
        'id': 'uplink',
        'resource_type': 'network',
        'property_name': 'uplink',
        'private': True,
    }
    missing = ask(application, 'PATCH', f'{PATH}/properties/rack', {'private': True}, 404)
    assert missing['error_name'] == 'network.property_not_found'
    (seen,) = as_user(application, 'mine', PATH)['networks']
    for shown in (seen, as_user(application, 'mine', f'{PATH}/1')['network']):
        assert (shown['switch'], 'uplink' in shown) == ('tor1', False)
    properties = f'{PATH}/properties?detail=true'
    listed = as_user(application, 'mine', properties)['resource_properties']
    assert listed == [{'property': 'switch', 'private': False, 'values': ['tor1']}]
    assert as_user(application, 'mine', f'{properties}&all=true') == {
        'resource_properties': listed
    }
    listed = ask(application, 'GET', f'{properties}&all=true')['resource_properties']
    assert [(e['property'], e['private'], e['values']) for e in listed] == [
        ('switch', False, ['tor1', 'tor2']),
        ('uplink', True, ['x9']),
    ]
    assert ask(application, 'GET', f'{PATH}/1')['network']['uplink'] == 'x9'
    wanted = {**CHAMELEON, 'resources': 'uplink==x9'}
    times = {'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
    lease = {'name': 'one', **times, 'reservations': [wanted]}
    ask(application, 'POST', '/v1/leases', lease, 201)
    ask(application, 'PATCH', f'{PATH}/properties/uplink', {'private': False})
    assert as_user(application, 'mine', f'{PATH}/1')['network']['uplink'] == 'x9'


@pytest.mark.parametrize(
    ('field', 'value', 'right'),
    [
        ('resource_properties', '["==", "$switch"', '["==", "$switch", "tor1"]]'),
        ('network_properties', '["like", "$switch", "a"]', '["==", "$switch", "tor1"]]'),
        ('resources', 'switch', 'as physical_network==physnet1,switch==tor1'),
    ],
)
def test_what_is_no_condition_is_refused_with_one_of_segments(
    application: Any, field: str, value: str, right: str
) -> None:
    wanted = {'resource_type': 'network', 'network_name': 'net1', field: value}
    body = {'name': 'n', 'duration': '1h', 'reservations': [wanted]}
    refused = world.ask(application, 'POST', '/v1/leases', body, None, 400).json
    assert refused['field'] == f'reservations[0].{field}'
    assert right in refused['error_message']
    assert 'vcpus' not in refused['error_message']


def test_unknown_property_is_refused_with_those_that_are_known(application: Any) -> None:
    """Private ones are not told to users."""
    ask(application, 'POST', PATH, {**VLAN, 'segment_id': 100, 'switch': 's', 'rack': '7'}, 201)
    path = f'{PATH}/properties/rack'
    world.ask(application, 'PATCH', path, {'private': True}, ADMIN, 200)
    wanted = {'resource_type': 'network', 'network_name': 'net1', 'resources': 'port=5'}
    body = {'name': 'n', 'duration': '1h', 'reservations': [wanted]}
    for who, is_told in ((None, ''), (ADMIN, 'rack, ')):
        created = world.ask(application, 'POST', '/v1/leases', body, who, 400).json
        dry = world.ask(application, 'POST', '/v1/leases?dry_run=true', body, who, 200).json
        for refused in (created, *dry['dry_run']['refusals']):
            assert refused['error_name'] == 'network.unknown_property'
            assert refused['field'] == 'reservations[0].resources'
            assert refused['error_message'] == (
                'reservations[0].resources: there is no property port. Known are network_type, '
                f'physical_network, {is_told}segment_id, switch.'
            )
