# SPDX-License-Identifier: Apache-2.0
"""What is promised when, and how much is free, through the API."""

import datetime
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any
from urllib import parse

import pytest
import sqlalchemy as sa
import webob
from oslo_config import cfg

from climate_core.api.handlers import calendar as handler
from climate_core.db import store, tables
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from climate_hosts.db import hosts
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.functional.api.written import END, NOW
from tests.functional.api.written import lease as written
from tests.support import hosts as support
from tests.support.fakes import cloud_server

DAY = '2099-01-01'
OURS = {'X-Project-Id': 'ours', 'X-User-Id': 'we', 'X-Roles': 'member,reader'}
THEIRS = {'X-Project-Id': 'theirs', 'X-User-Id': 'they', 'X-Roles': 'member,reader'}
ADMIN = {'X-Project-Id': 'operators', 'X-Roles': 'admin,member,reader'}
HOST = {'resource_type': 'physical:host', 'min': 1}
SECRET = 'what only they know'


@pytest.fixture
def conf(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> cfg.ConfigOpts:
    return world.configure_hosts(tmp_path, hosts_cloud.url)


@pytest.fixture
def application(conf: cfg.ConfigOpts, database: Database) -> Iterator[Any]:
    """Return an API with two hosts: one is ours from 10 to 12, one is theirs from 11 to 13."""
    with world.running(conf, database, HostPlugin) as made:
        for name in ('cn1', 'cn2'):
            world.ask(made, 'POST', '/v1/os-hosts', {'name': name}, ADMIN, 201)
        create(made, OURS, 'lease1', '10:00', '12:00')
        create(made, THEIRS, SECRET, '11:00', '13:00')
        yield made


def create(made: Any, who: dict[str, str], name: str, start: str, end: str, **more: Any) -> Any:
    body = {
        'name': name,
        'start_date': f'{DAY} {start}',
        'end_date': f'{DAY} {end}',
        'reservations': [HOST],
        **more,
    }
    return world.ask(made, 'POST', '/v1/leases', body, who, 201).json['lease']


def ask(
    application: Any,
    who: dict[str, str] = OURS,
    status: int = 200,
    headers: dict[str, str] | None = None,
    **query: Any,
) -> webob.Response:
    usual = {'from': f'{DAY} 09:00', 'to': f'{DAY} 18:00', **query}
    text = parse.urlencode({name: value for name, value in usual.items() if value is not None})
    return world.ask(
        application, 'GET', f'/v1/calendar?{text}', None, {**who, **(headers or {})}, status
    )


def _has_given_back(lease: dict[str, Any]) -> bool:
    return any(each['status'] == 'deleted' for each in lease['reservations'])


def clock(text: str) -> str:
    return text.removeprefix(f'{DAY}T').removesuffix(':00.000000')


def test_own_leases_are_bars(application: Any) -> None:
    found = ask(application).json
    assert (clock(found['from']), clock(found['to'])) == ('09:00', '18:00')
    (bar,) = found['bars']
    lease = world.ask(application, 'GET', '/v1/leases', None, OURS).json['leases'][0]
    (reservation,) = lease['reservations']
    assert bar == {
        'lease_id': lease['id'],
        'lease_name': 'lease1',
        'project_id': 'ours',
        'status': 'PENDING',
        'kind': lease['kind'],
        'reservation_id': reservation['id'],
        'resource_type': 'physical:host',
        'resource_id': reservation['resource_id'],
        'resource_names': [],
        'start_date': lease['start_date'],
        'end_date': lease['end_date'],
    }


def test_capacity_is_steps_of_amounts(application: Any) -> None:
    """A host is cleaned after its lease, which is not over before."""
    (hosts,) = (each for each in ask(application).json['capacity'] if each['unit'] == 'host')
    assert (hosts['kind'], hosts['pool']) == ('host', 'default')
    steps = [tuple(each.values()) for each in hosts['steps']]
    promised = [(total, taken, own, free) for _, total, taken, own, free in steps]
    assert promised == [(2, 0, 0, 2), (2, 1, 1, 1), (2, 2, 1, 0), (2, 1, 0, 1), (2, 0, 0, 2)]
    assert clock(steps[0][0]) == '09:00'
    times = [each['time'] for each in hosts['steps']]
    assert times == sorted(times)
    units = {each['unit'] for each in ask(application).json['capacity']}
    assert {'vcpus', 'memory_mb', 'disk_gb'} < units


def test_nothing_but_amounts_of_others_is_told(application: Any) -> None:
    text = ask(application).text
    others = world.ask(application, 'GET', '/v1/leases', None, THEIRS).json['leases']
    assert len(others) == 1
    for each in (SECRET, 'theirs', others[0]['id'], 'cn1', 'cn2'):
        assert each not in text
    assert SECRET in ask(application, THEIRS).text


def test_capacity_is_told_apart_by_properties(application: Any, database: Database) -> None:
    path = '/v1/os-hosts/1'
    world.ask(application, 'PUT', path, {'gpu': 'a100', 'rack': '7'}, ADMIN, 200)
    with world.selects(database) as statements:
        found = ask(application, properties='gpu,availability_zone,gpu').json['capacity']
    assert len(statements) == 2
    hosts = [each for each in found if each['unit'] == 'host']
    told = [(each['properties'], each['steps'][0]['total']) for each in hosts]
    assert told == [
        ({'gpu': None, 'availability_zone': 'nova'}, 1),
        ({'gpu': 'a100', 'availability_zone': 'nova'}, 1),
    ]
    promised = [[step['promised'] for step in each['steps']] for each in hosts]
    assert sorted(promised) == [[0, 1, 0], [0, 1, 0]]
    assert all('properties' not in each for each in ask(application).json['capacity'])


@pytest.mark.parametrize('name', ['gpu', 'hypervisor_hostname', 'traits', 'colour'])
def test_property_that_users_may_not_see_is_as_unknown_as_any(application: Any, name: str) -> None:
    world.ask(application, 'PUT', '/v1/os-hosts/1', {'gpu': 'a100'}, ADMIN, 200)
    path = '/v1/os-hosts/properties/gpu'
    world.ask(application, 'PATCH', path, {'private': True}, ADMIN, 200)
    refused = ask(application, status=400, properties=name).json
    assert refused['field'] == 'properties'
    assert f'no host has a property {name} that you may see' in refused['error_message']
    if name != 'colour':
        assert ask(application, ADMIN, properties=name).json['capacity'] != []


def test_pool_of_others_is_hidden(application: Any) -> None:
    path = '/v1/os-hosts/pools/default'
    world.ask(application, 'PUT', path, {'project_ids': ['theirs']}, ADMIN, 200)
    assert ask(application).json['capacity'] == []
    assert ask(application, THEIRS).json['capacity'] != []
    assert ask(application, ADMIN).json['capacity'] != []


def test_all_projects_are_for_those_that_the_policy_names(application: Any) -> None:
    found = ask(application, ADMIN, all_projects='true').json
    assert {each['lease_name'] for each in found['bars']} == {'lease1', SECRET}
    assert ask(application, ADMIN).json['bars'] == []
    assert 'get_all' in ask(application, status=403, all_projects='true').text


def test_hosts_are_for_operators(application: Any) -> None:
    found = ask(application, ADMIN, hosts='true').json
    assert 'bars' not in found
    shown = {
        each['hypervisor_hostname']: [bar['lease_name'] for bar in each['bars']]
        for each in found['hosts']
    }
    assert sorted(shown) == ['cn1', 'cn2']
    assert sorted(map(tuple, shown.values())) == [('lease1',), (SECRET,)]
    assert 'get_allocations' in ask(application, status=403, hosts='true').text
    empty = ask(application, ADMIN, hosts='true', **{'from': f'{DAY} 15:00'}).json['hosts']
    assert [each['bars'] for each in empty] == [[], []]


def test_hosts_come_in_pages(application: Any) -> None:
    first = ask(application, ADMIN, hosts='true', limit=1).json
    (link,) = first['hosts_links']
    second = world.ask(application, 'GET', link['href'], None, ADMIN, 200).json
    assert [each['id'] for each in (*first['hosts'], *second['hosts'])] == ['1', '2']
    assert 'hosts_links' not in second


def test_page_of_hosts_ends_before_too_many_bars(
    application: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, 'MAX_BARS', 1)
    first = ask(application, ADMIN, hosts='true').json
    assert [(each['id'], len(each['bars'])) for each in first['hosts']] == [('1', 1)]
    (link,) = first['hosts_links']
    second = world.ask(application, 'GET', link['href'], None, ADMIN, 200).json
    assert [(each['id'], len(each['bars'])) for each in second['hosts']] == [('2', 1)]
    monkeypatch.setattr(hosts, 'MAX_BARS', 0)
    assert ask(application, ADMIN, 400, hosts='true').json['field'] == 'to'


@pytest.mark.parametrize('group_by', ['resource', 'lease'])
def test_bars_come_in_pages_in_their_order(things: Any, group_by: str) -> None:
    whole = seen(things, group_by=group_by)
    assert len(whole) == 15
    keys = [
        (each['resource_id'],) if group_by == 'resource' else (each['lease_id'],) for each in whole
    ]
    assert keys == sorted(keys)
    assert seen(things, group_by=group_by, limit=4) == whole


@pytest.fixture
def things(conf: cfg.ConfigOpts, database: Database) -> Iterator[Any]:
    """Return an API with five leases of three things each."""
    with world.running(conf, database, HostPlugin) as made:
        for number in range(5):
            database.write(store.create, written(number), NOW, Cause('lease.create'))
        yield made


PROJECT = {'X-Project-Id': written(0).project_id, 'X-Roles': 'member,reader'}
SPAN = {'from': f'{END:%Y-%m-%d} 00:00', 'to': '2099-02-01 00:00'}


def seen(made: Any, **query: Any) -> list[Any]:
    usual = {'from': '2098-12-31 00:00', 'to': '2099-01-02 00:00', **query}
    found: list[Any] = []
    page = ask(made, PROJECT, **usual).json
    while True:
        found += page['bars']
        if 'bars_links' not in page:
            return found
        (link,) = page['bars_links']
        page = world.ask(made, 'GET', link['href'], None, PROJECT, 200).json


def test_lease_that_only_touches_the_span_is_not_in_it(things: Any) -> None:
    assert seen(things, **SPAN) == []
    assert len(seen(things, **{**SPAN, 'from': '2098-12-31 23:59'})) == 15


def test_page_of_any_size_costs_the_same_statements(database: Database, things: Any) -> None:
    usual = {'from': '2098-12-31 00:00', 'to': '2099-01-02 00:00'}
    counts = []
    for number in (5, 50):
        for more in range(5, number):
            database.write(store.create, written(more), NOW, Cause('lease.create'))
        marker = seen(things)[0]['reservation_id']
        asked: list[tuple[dict[str, str], dict[str, Any]]] = [
            (PROJECT, usual),
            (PROJECT, usual | {'capacity': 'false'}),
            (PROJECT, usual | {'marker': marker}),
            (PROJECT, {'from': None, 'to': None}),
            (ADMIN, usual | {'hosts': 'true', 'capacity': 'false'}),
            (ADMIN, usual | {'hosts': 'true'}),
        ]
        with world.selects(database) as statements:
            for who, query in asked:
                statements.clear()
                ask(things, who, **query)
                counts.append(len(statements))
    # The bars and the capacity; one for the marker, one for the time where that counts from now.
    assert counts == [2, 1, 3, 3, 1, 2] * 2


def test_many_hosts_and_promises_cost_the_same_statements(
    application: Any, database: Database
) -> None:
    with world.selects(database) as statements:
        ask(application)
        few = len(statements)
        for lane in range(20):
            support.promise(database, 1, support.START.replace(day=2), lane + 100)
        statements.clear()
        ask(application, to='2099-01-05 00:00')
        assert len(statements) == few == 2


def test_answer_that_is_known_is_not_sent_again(application: Any) -> None:
    first = ask(application)
    tag = first.headers['ETag']
    again = ask(application, status=304, headers={'If-None-Match': tag})
    assert (again.body, again.headers['ETag']) == (b'', tag)
    assert ask(application, THEIRS, headers={'If-None-Match': tag}).headers['ETag'] != tag
    create(application, OURS, 'lease2', '14:00', '15:00')
    assert ask(application, headers={'If-None-Match': tag}).headers['ETag'] != tag


def test_default_is_the_week_from_this_minute_on(empty: Any) -> None:
    found = ask(empty, **{'from': None, 'to': None}).json
    since, until = found['from'], found['to']
    assert since.endswith(':00.000000')
    assert until[10:] == since[10:]


def test_reservation_that_was_given_back_ends_then(application: Any) -> None:
    (lease,) = world.ask(application, 'GET', '/v1/leases', None, OURS).json['leases']
    path = f'/v1/leases/{lease["id"]}/reservations/{lease["reservations"][0]["id"]}'
    world.ask(application, 'DELETE', path, None, OURS, 204)
    assert ask(application).json['bars'] == []


def test_host_that_is_given_back_while_its_lease_runs_ends_then(application: Any) -> None:
    now, hour = datetime.datetime.now(datetime.UTC), datetime.timedelta(hours=1)
    span = {'from': (now - hour).isoformat(), 'to': (now + 2 * hour).isoformat()}
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    body = {'name': 'now', 'end_date': (now + hour).isoformat(), 'reservations': [HOST, thing]}
    made = world.ask(application, 'POST', '/v1/leases', body, OURS, 201).json['lease']
    lease = world.wait_for_lease(
        application, made['id'], lambda lease: lease['status'] == 'ACTIVE', OURS
    )

    def bars() -> dict[str, Any]:
        found = ask(application, free_until='true', **span).json['bars']
        return {each['resource_type']: each for each in found}

    before = bars()
    assert before['physical:host']['end_date'] == lease['end_date']
    assert before['physical:host']['free_until'] is not None
    (host,) = (e for e in lease['reservations'] if e['resource_type'] == 'physical:host')
    path = f'/v1/leases/{lease["id"]}/reservations/{host["id"]}'
    world.ask(application, 'DELETE', path, None, OURS, 204)
    world.wait_for_lease(application, lease['id'], _has_given_back, OURS)
    after = bars()
    ended = after['physical:host']
    assert lease['start_date'] <= ended['end_date'] < lease['end_date']
    assert (ended['start_date'], ended['free_until']) == (lease['start_date'], None)
    # The rest of it goes on.
    assert after['test:thing'] == before['test:thing']


@pytest.fixture(scope='module')
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return an API without hosts and leases."""
    conf = world.configure(tmp_path_factory.mktemp('empty'))
    with world.running(conf, Database(conf)) as made:
        yield made


@pytest.mark.parametrize(
    ('query', 'field'),
    [
        ({'from': 'yesterday'}, 'from'),
        ({'to': f'{DAY} 09:00'}, 'to'),
        ({'to': '2099-04-04 00:00'}, 'to'),
        ({'group_by': 'colour'}, 'group_by'),
        ({'marker': '7'}, 'marker'),
        ({'marker': 'x'}, 'marker'),
        ({'marker': 'aaaaaaaa-0000-4000-8000-00000000000a'}, 'marker'),
        ({'limit': 0}, 'limit'),
        ({'hosts': 'perhaps'}, 'hosts'),
        ({'colour': 'red'}, 'colour'),
        ({'properties': 'a,b,c,d,e'}, 'properties'),
        ({'properties': 'a b'}, 'properties'),
        ({'properties': 'gpu', 'capacity': 'false'}, 'properties'),
    ],
)
def test_bad_parameter_is_named(empty: Any, query: dict[str, Any], field: str) -> None:
    assert ask(empty, status=400, **query).json['field'] == field


@pytest.mark.parametrize(
    ('query', 'field'),
    [
        ({'marker': 'aaaaaaaa-0000-4000-8000-00000000000a'}, 'marker'),
        ({'group_by': 'lease'}, 'group_by'),
        ({'all_projects': 'true'}, 'all_projects'),
    ],
)
def test_bad_parameter_of_hosts_is_named(empty: Any, query: dict[str, Any], field: str) -> None:
    assert ask(empty, ADMIN, 400, hosts='true', **query).json['field'] == field


def test_too_many_promises_are_refused(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, 'MAX_GROUPS', 2)
    assert ask(application, status=400).json['field'] == 'to'
    assert ask(application, capacity='false').json['bars'] != []


def test_bar_says_until_when_it_can_be_extended(application: Any) -> None:
    (bar,) = ask(application, free_until='true').json['bars']
    assert bar['free_until'] is None
    create(
        application, THEIRS, SECRET, '15:00', '16:00', reservations=[{**HOST, 'min': 2, 'max': 2}]
    )
    create(
        application, THEIRS, SECRET, '17:00', '18:00', reservations=[{**HOST, 'min': 2, 'max': 2}]
    )
    found = ask(application, free_until='true')
    (bar,) = found.json['bars']
    assert SECRET not in found.text
    assert '14:00' < clock(bar['free_until']) <= '15:00'
    path = f'/v1/leases/{bar["lease_id"]}'
    late = bar['free_until'].replace(':00.000000', ':01.000000')
    world.ask(application, 'PUT', path, {'end_date': late}, OURS, 409)
    world.ask(application, 'PUT', path, {'end_date': bar['free_until']}, OURS, 200)
    (after,) = ask(application, free_until='true').json['bars']
    assert after['free_until'] == after['end_date'] == bar['free_until']
    (without,) = ask(application).json['bars']
    assert 'free_until' not in without


def test_what_was_given_back_cannot_be_extended(application: Any, database: Database) -> None:
    create(
        application, THEIRS, SECRET, '15:00', '16:00', reservations=[{**HOST, 'min': 2, 'max': 2}]
    )
    (bar,) = ask(application, free_until='true').json['bars']
    assert bar['free_until'] is not None
    earlier = datetime.datetime.fromisoformat(bar['end_date']) - datetime.timedelta(minutes=30)
    freed = sa.update(tables.RESERVATIONS).values(freed_at=earlier)
    database.write(lambda session: session.execute(freed))
    (bar,) = ask(application, free_until='true').json['bars']
    assert bar['free_until'] is None


def test_shares_do_not_say_until_when_they_can_be_extended(
    application: Any, database: Database
) -> None:
    create(
        application, THEIRS, SECRET, '15:00', '16:00', reservations=[{**HOST, 'min': 2, 'max': 2}]
    )
    (bar,) = ask(application, free_until='true').json['bars']
    assert bar['free_until'] is not None
    shares = sa.update(tables.ALLOCATIONS).values(piece={'vcpus': 1})
    database.write(lambda session: session.execute(shares))
    (bar,) = ask(application, free_until='true').json['bars']
    assert bar['free_until'] is None


def test_bars_of_one_lease_are_asked_for(application: Any, database: Database) -> None:
    made = create(application, OURS, 'lease2', '14:00', '15:00')
    assert len(ask(application).json['bars']) == 2
    with world.selects(database) as statements:
        query = {'lease_id': made['id'].upper(), 'free_until': 'true', 'capacity': 'false'}
        (bar,) = ask(application, **query).json['bars']
    assert bar['lease_name'] == 'lease2'
    assert len(statements) == 2
    assert ask(application, THEIRS, lease_id=made['id']).json['bars'] == []


@pytest.mark.parametrize('name', ['lease_id', 'free_until'])
def test_hosts_have_no_bars_of_one_lease(application: Any, name: str) -> None:
    value = {'lease_id': '5f1c2a34-9d3e-4d0a-8c1b-000000000001', 'free_until': 'true'}[name]
    refused = ask(application, ADMIN, 400, hosts='true', **{name: value}).json
    assert refused['field'] == name
