# SPDX-License-Identifier: Apache-2.0
"""When hosts could be reserved, through the API."""

import dataclasses
import datetime
import json
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib import parse

import pytest
from oslo_config import cfg

from climate_core.db.engine import Database
from climate_core.lease import model
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.functional.api.world import NOWHERE
from tests.support import leases as build
from tests.support.fakes import cloud_server, flavors, hypervisors, leases, placement

ADMIN = {'X-Roles': 'admin,member,reader'}
HOST = {'resource_type': 'physical:host'}
DAY = '2099-01-01'
NOON = datetime.datetime(2099, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def conf(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> cfg.ConfigOpts:
    return world.configure_hosts(tmp_path, hosts_cloud.url)


@pytest.fixture
def application(conf: cfg.ConfigOpts, database: Database) -> Iterator[Any]:
    """Return an API with two hosts, one of which has a lease from 10 to 12."""
    with world.running(conf, database, HostPlugin) as made:
        for name in ('cn1', 'cn2'):
            world.ask(made, 'POST', '/v1/os-hosts', {'name': name}, ADMIN, 201)
        world.ask(made, 'POST', '/v1/leases', lease('10:00', '12:00', min=1), status=201)
        yield made


def lease(start: str, end: str, **wanted: Any) -> dict[str, Any]:
    return {
        'name': 'lease1',
        'start_date': f'{DAY} {start}',
        'end_date': f'{DAY} {end}',
        'reservations': [{**HOST, **wanted}],
    }


def availability(application: Any, status: int = 200, **query: Any) -> Any:
    usual = {'reservations': json.dumps([HOST]), 'duration': '1h', 'from': f'{DAY} 10:00'}
    text = parse.urlencode({**usual, **query})
    return world.ask(application, 'GET', f'/v1/availability?{text}', status=status).json


@pytest.mark.parametrize(
    ('count', 'query', 'starts'),
    [
        (1, {}, ['10:00']),
        (2, {}, ['12:00']),
        (2, {'from': f'{DAY} 08:30'}, ['08:30', '12:00']),
        (2, {'from': f'{DAY} 08:30', 'limit': 1}, ['08:30']),
        (2, {'to': f'{DAY} 12:30'}, []),
        (3, {}, []),
    ],
)
def test_earliest_windows_are_guaranteed(
    application: Any, count: int, query: dict[str, Any], starts: list[str]
) -> None:
    wanted = json.dumps([{**HOST, 'min': count}])
    windows = availability(application, reservations=wanted, **query)['windows']
    assert [each['start_date'] for each in windows] == [f'{DAY}T{s}:00.000000' for s in starts]
    assert all(each['guaranteed'] for each in windows)


@pytest.mark.parametrize('since', ['now', f'{DAY} 08:30:00.25'])
def test_window_begins_and_ends_at_whole_seconds(application: Any, since: str) -> None:
    """Clients show seconds; what they show lasts as long as was asked for."""
    (window, *_) = availability(application, **{'from': since})['windows']
    start, end = (
        datetime.datetime.fromisoformat(window[name]) for name in ('start_date', 'end_date')
    )
    assert (start.microsecond, end - start) == (0, datetime.timedelta(hours=1))


def test_what_it_says_is_granted_and_not_before(application: Any) -> None:
    early = lease('11:00', '13:00', min=2)
    refused = world.ask(application, 'POST', '/v1/leases', early, status=409).json
    assert refused['error_name'] == 'calendar.not_enough'
    assert refused['available_from'] == f'{DAY}T12:00:00.000000'
    lasting = {**early, 'duration': '2h'}
    del lasting['end_date']
    for body in (early, lasting):
        answer = world.ask(application, 'POST', '/v1/leases?dry_run=true', body, status=200).json
        dry_run = answer['dry_run']
        assert dry_run['granted'] is False
        assert dry_run['available_from'] == refused['available_from']
        assert dry_run['refusals'][0]['available_from'] == refused['available_from']
    world.ask(application, 'POST', '/v1/leases', lease('12:00', '14:00', min=2), status=201)


def test_other_projects_see_when_and_not_who_has_the_rest(application: Any) -> None:
    (taken,) = world.ask(application, 'GET', '/v1/leases', status=200).json['leases']
    other = {'X-Project-Id': 'other-id', 'X-User-Id': 'other-user'}
    query = {'reservations': json.dumps([{**HOST, 'min': 2}]), 'duration': '1h'}
    path = f'/v1/availability?{parse.urlencode({**query, "from": f"{DAY} 10:00"})}'
    (window, *_) = world.ask(application, 'GET', path, None, other, 200).json['windows']
    assert window.keys() == {'start_date', 'end_date', 'guaranteed'}
    assert window['start_date'] == f'{DAY}T12:00:00.000000'
    wanted = lease('11:00', '13:00', min=2)
    answers = [
        world.ask(application, 'POST', url, wanted, other, status).text
        for url, status in (('/v1/leases', 409), ('/v1/leases?dry_run=true', 200))
    ]
    (reservation,) = taken['reservations']
    secret = (taken['id'], taken['project_id'], taken['user_id'], reservation['id'], 'cn1', 'cn2')
    assert not [each for each in secret for text in answers if each in text]


def hosts(**values: Any) -> dict[str, str]:
    return {'reservations': json.dumps([{**HOST, **values}])}


@pytest.mark.parametrize(
    ('query', 'field'),
    [
        ({'reservations': 'hosts'}, 'reservations'),
        ({'reservations': '[]'}, 'reservations'),
        ({'reservations': '[{"resource_type": "x"}]'}, 'reservations[0].resource_type'),
        (
            {'reservations': '[{"resource_type": "physical:host", "min": 0}]'},
            'reservations[0].min',
        ),
        (hosts(min=2, max=1), 'reservations[0].max'),
        (hosts(resources='vcpus>='), 'reservations[0].resources'),
        (hosts(traits='ssd'), 'reservations[0].traits'),
        (hosts(resources='racks=7'), 'reservations[0].resources'),
        (hosts(resource_properties='["=="'), 'reservations[0].resource_properties'),
        (hosts(grace=604_800), 'reservations[0].grace'),
        (hosts(on_end='stop'), 'reservations[0].on_end'),
        (
            {
                'reservations': '[{"resource_type": "test:thing", "resource_id": '
                '"aaaaaaaa-0000-4000-8000-000000000001"}]'
            },
            'reservations[0].resource_type',
        ),
        ({'duration': 'long'}, 'duration'),
        ({'from': 'soon'}, 'from'),
        ({'from': '2020-01-01 10:00'}, 'from'),
        ({'to': f'{DAY} 10:30'}, 'to'),
        ({'to': '2101-01-01'}, 'to'),
        ({'from': '9999-12-01 10:00'}, 'from'),
        ({'duration': '31d'}, 'duration'),
        ({'duration': '400000d'}, 'duration'),
        ({'duration': '400000d', 'to': f'{DAY} 12:00'}, 'duration'),
        ({'limit': 0}, 'limit'),
    ],
)
def test_bad_questions_name_the_field(application: Any, query: dict[str, Any], field: str) -> None:
    answered = availability(application, 400, **query)
    assert answered['field'] == field
    # The field is named once, if it is, and as a whole.
    name, said = field.rpartition('.')[2], answered['error_message']
    assert not said.removeprefix(f'{field}: ').startswith(f'{name}: ')


@pytest.mark.parametrize(
    ('query', 'said'),
    [
        ({'duration': '31d'}, 'duration: must be 30 days at most if to is not given.'),
        ({'duration': '367d', 'to': f'{DAY} 12:00'}, 'duration: must be 366 days at most.'),
        ({'to': f'{DAY} 10:30'}, f'to: must be from {DAY} 11:00 UTC to '),
    ],
)
def test_too_long_a_question_says_what_would_be_right(
    application: Any, query: dict[str, Any], said: str
) -> None:
    assert availability(application, 400, **query)['error_message'].startswith(said)


def test_long_duration_is_looked_for_where_the_question_leaves_room(application: Any) -> None:
    until = str(datetime.date.fromisoformat(DAY) + datetime.timedelta(days=40))
    windows = availability(application, duration='31d', to=f'{until} 10:00')['windows']
    assert len(windows) == 1


@pytest.mark.parametrize('text', ['[', '[{', 'physical:host'])
def test_reservations_that_are_no_json_are_refused_as_such(application: Any, text: str) -> None:
    answered = availability(application, 400, reservations=text)
    assert answered['error_message'].startswith('reservations: must be a JSON list, as [{')


def servers(**values: Any) -> dict[str, str]:
    wanted = {'resource_type': 'virtual:instance', 'server': {'flavorRef': 'large', **values}}
    return {'reservations': json.dumps([wanted])}


@pytest.fixture
def cn3(hosts_cloud: cloud_server.Server) -> dict[str, Any]:
    """Return the host that is in no pool, where one of 255 free VCPUs is not."""
    flavors.add(hosts_cloud.state, id='large', vcpus=100)
    flavors.add(hosts_cloud.state, id='fast', extra_specs={'trait:HW_CPU_X86_AVX2': 'required'})
    flavors.add(hosts_cloud.state, id='numa', extra_specs={'hw:numa_nodes': '2'})
    (found,) = (
        each
        for each in hosts_cloud.state.hypervisors.values()
        if each['hypervisor_hostname'] == 'cn3'
    )
    return found


def test_servers_are_expected_where_there_is_room_for_all(
    application: Any, cn3: dict[str, Any]
) -> None:
    (window,) = availability(application, **servers(count=2))['windows']
    assert window == {
        'start_date': f'{DAY}T10:00:00.000000',
        'end_date': f'{DAY}T11:00:00.000000',
        'guaranteed': False,
    }
    # The hosts of the pool would have room for more.
    assert availability(application, **servers(count=3))['windows'] == []
    assert availability(application, **servers(flavorRef='fast'))['windows'] == []


@pytest.fixture
def hold(
    database: Database, hosts_cloud: cloud_server.Server, cn3: dict[str, Any]
) -> Callable[..., None]:
    """Have a server with a lease on cn3; it has 100 VCPUs of it."""

    def have(on_end: str = 'delete', end: datetime.datetime = NOON, memory: int = 1) -> None:
        server_id, start = str(uuid.uuid4()), end - build.HOUR
        body = {
            'allocations': {
                cn3['id']: {'resources': {'VCPU': 100, 'MEMORY_MB': memory, 'DISK_GB': 1}}
            },
            'project_id': 'demo-id',
            'user_id': 'alice-id',
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        }
        service = placement.of(hosts_cloud.state)
        assert service.ask('PUT', f'/allocations/{server_id}', body).status_code == 204
        cn3['servers'] = [{'uuid': server_id, 'name': 'one'}]
        amounts = {'servers': 1, 'vcpus': 100, 'memory_mb': memory, 'disk_gb': 1}
        params = {'on_end': on_end}
        new = model.new_reservation(NOWHERE, 'virtual:instance', server_id, params, start)
        new = dataclasses.replace(new, amounts=amounts)
        made = build.lease(new, lease_id=NOWHERE, start=start, end=end, now=start)
        leases.write(database, made)

    return have


def starts(application: Any, **wanted: Any) -> list[str]:
    found = availability(application, **servers(**wanted))['windows']
    return [each['start_date'] for each in found]


@pytest.mark.parametrize('is_full', [True, False])
@pytest.mark.parametrize(('on_end', 'is_freed'), [('delete', True), ('stop', False)])
def test_servers_are_expected_when_a_lease_frees_its_host(
    application: Any,
    cn3: dict[str, Any],
    hold: Callable[..., None],
    on_end: str,
    is_freed: bool,
    is_full: bool,
) -> None:
    hold(on_end, memory=cn3['memory_mb'] - 512 if is_full else 1)
    # What else is free on a full host is not known.
    assert not is_full or not starts(application, count=2)
    expected = [f'{DAY}T12:00:00.000000'] if is_freed else []
    assert starts(application, count=1 if is_full else 2) == expected


def test_server_that_is_there_after_its_end_is_not_expected_to_leave(
    application: Any, hold: Callable[..., None]
) -> None:
    hold(end=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    assert not starts(application, count=2)


def test_server_that_may_be_on_several_hosts_frees_none(
    application: Any,
    hosts_cloud: cloud_server.Server,
    cn3: dict[str, Any],
    hold: Callable[..., None],
) -> None:
    hold()
    # Nova lists it before the other.
    first = hypervisors.add(hosts_cloud.state, 'node2', id=NOWHERE, vcpus=1)
    first['servers'] = cn3['servers']
    assert not starts(application, count=2)


def test_what_several_providers_of_a_host_have_is_not_added_up(
    application: Any, hosts_cloud: cloud_server.Server, cn3: dict[str, Any]
) -> None:
    service, child = placement.of(hosts_cloud.state), str(uuid.uuid4())
    body = {'uuid': child, 'name': 'cn3_numa1', 'parent_provider_uuid': cn3['id']}
    assert service.ask('POST', '/resource_providers', body).status_code == 200
    inventories = {
        'resource_provider_generation': 0,
        'inventories': {'VCPU': {'total': 64}, 'MEMORY_MB': {'total': 512}},
    }
    path = f'/resource_providers/{child}/inventories'
    assert service.ask('PUT', path, inventories).status_code == 200
    assert not starts(application)


@pytest.mark.parametrize(
    ('wanted', 'field'),
    [
        ({'flavorRef': 'none'}, 'reservations[0].server.flavorRef'),
        ({'flavorRef': 'numa'}, 'reservations[0].server.flavorRef'),
        ({'count': 0}, 'reservations[0].server.count'),
        ({'imageRef': 'cirros'}, 'reservations[0].server.imageRef'),
    ],
)
def test_servers_that_cannot_be_told_name_the_field(
    application: Any, cn3: dict[str, Any], wanted: dict[str, Any], field: str
) -> None:
    assert availability(application, 400, **servers(**wanted))['field'] == field


def test_servers_are_not_asked_for_beside_hosts(application: Any, cn3: dict[str, Any]) -> None:
    both = [*json.loads(servers()['reservations']), HOST]
    refused = availability(application, 400, reservations=json.dumps(both))
    assert refused['field'] == 'reservations[1]'


def test_null_asks_for_nothing(application: Any) -> None:
    wanted = {'min': 1, 'hypervisor_properties': None, 'traits': None, 'before_end': None}
    made = world.ask(
        application, 'POST', '/v1/leases', lease('14:00', '15:00', **wanted), status=201
    )
    (reservation,) = made.json['lease']['reservations']
    assert reservation['hypervisor_properties'] == ''
    change = {'reservations': [{'id': reservation['id'], 'traits': None, 'resources': 'vcpus>0'}]}
    path = f'/v1/leases/{made.json["lease"]["id"]}'
    changed = world.ask(application, 'PUT', path, change, status=200).json['lease']
    assert changed['reservations'][0]['resources'] == 'vcpus>0'
    for field, value, said in (
        ('matching', 'open', 'cannot be changed after the reservation is created; '),
        ('flavor', 'm1.small', 'is not known here; aggregates, '),
    ):
        wrong = {'id': reservation['id'], field: value}
        refused = world.ask(application, 'PUT', path, {'reservations': [wrong]}, status=400).json
        assert refused['field'] == f'reservations[0].{field}'
        assert said in refused['error_message']


def test_unknown_property_is_refused_with_those_that_are_known(application: Any) -> None:
    """Private ones are not told to users."""
    world.ask(application, 'PUT', '/v1/os-hosts/1', {'gpu': 'a100', 'rack': '7'}, ADMIN, 200)
    path = '/v1/os-hosts/properties/rack'
    world.ask(application, 'PATCH', path, {'private': True}, ADMIN, 200)
    wanted = {'resource_type': 'physical:host', 'min': 1, 'resources': 'mini=1'}
    body = {'name': 'n', 'duration': '1h', 'reservations': [wanted]}
    asked = parse.urlencode({'reservations': json.dumps([wanted]), 'duration': '1h'})
    for who, is_told in ((None, False), (ADMIN, True)):
        created = world.ask(application, 'POST', '/v1/leases', body, who, 400).json
        found = world.ask(application, 'GET', f'/v1/availability?{asked}', None, who, 400).json
        dry = '/v1/leases?dry_run=true'
        (checked,) = world.ask(application, 'POST', dry, body, who, 200).json['dry_run'][
            'refusals'
        ]
        for refused in (created, found, checked):
            assert refused['error_name'] == 'host.unknown_property'
            assert refused['field'] == 'reservations[0].resources'
            message = refused['error_message']
            assert 'there is no property mini. Known are availability_zone, ' in message
            assert ' gpu,' in message
            assert (' rack,' in message) == is_told
