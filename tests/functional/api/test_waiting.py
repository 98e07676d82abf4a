# SPDX-License-Identifier: Apache-2.0
"""Leases of the kinds retry and best_effort, through the API."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.db.engine import Database
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.support.fakes import cloud_server

ADMIN = {'X-Roles': 'admin,member,reader'}


@pytest.fixture
def conf(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> cfg.ConfigOpts:
    policy = tmp_path / 'policy.yaml'
    policy.write_text('"climate:leases:make_room": "not role:guest"\n')
    made = world.configure_hosts(tmp_path, hosts_cloud.url)
    made.set_override('policy_file', str(policy), group='oslo_policy')
    return made


@pytest.fixture
def application(conf: cfg.ConfigOpts, database: Database) -> Iterator[Any]:
    """Return an API with one host in a pool."""
    with world.running(conf, database, HostPlugin) as made:
        world.ask(made, 'POST', '/v1/os-hosts', {'name': 'cn1'}, ADMIN, 201)
        yield made


def lease(name: str, **values: Any) -> dict[str, Any]:
    wanted = {'resource_type': 'physical:host', 'min': 1}
    times = {'start_date': '+1h', 'duration': '2h'}
    return {'name': name, **times, 'reservations': [wanted], **values}


def create(application: Any, body: dict[str, Any], status: int = 201) -> Any:
    answer = world.ask(application, 'POST', '/v1/leases', body, status=status).json
    return answer['lease'] if status == 201 else answer


def test_it_waits_and_is_granted_when_a_host_is_enrolled(application: Any) -> None:
    first = create(application, lease('first'))
    assert (first['kind'], first['retries_left'], first['next_retry_at']) == (
        'scheduled',
        None,
        None,
    )
    assert create(application, lease('no'), 409)['error_name'] == 'calendar.not_enough'
    second = create(application, lease('second', kind='retry', max_retries=3))
    assert (second['status'], second['retries_left']) == ('WAITING', 3)
    assert second['next_retry_at']
    assert second['reservations'][0]['hosts'] == []
    found = world.ask(application, 'GET', '/v1/leases?status=WAITING', status=200).json
    assert [(each['id'], each['queue_position']) for each in found['leases']] == [
        (second['id'], 1)
    ]
    world.ask(application, 'POST', '/v1/os-hosts', {'name': 'cn2'}, ADMIN, 201)
    granted = world.wait_for_status(application, second['id'], 'PENDING')
    assert granted['reservations'][0]['hosts'] == ['cn2']
    third = create(application, lease('third', kind='retry'))
    assert (third['status'], third['queue_position']) == ('WAITING', 1)


def test_higher_priority_comes_first_and_is_for_administrators(application: Any) -> None:
    create(application, lease('first'))
    early = create(application, lease('early', kind='retry', priority=0))
    body = lease('late', kind='retry', priority=3)
    assert create(application, body, 403)['error_name'] == 'forbidden'
    late = world.ask(application, 'POST', '/v1/leases', body, ADMIN, 201).json['lease']
    assert (late['priority'], late['queue_position']) == (3, 1)
    path = f'/v1/leases/{early["id"]}'
    refused = world.ask(application, 'PUT', path, {'priority': 4}, status=403).json
    assert refused['field'] == 'priority'
    # What it has already is no change.
    world.ask(application, 'PUT', path, {'priority': 0, 'name': 'other'}, status=200)
    early = world.ask(application, 'PUT', path, {'priority': 4}, ADMIN, 200).json['lease']
    assert (early['priority'], early['queue_position']) == (4, 1)


def test_policy_says_who_has_hosts_emptied(application: Any) -> None:
    guest = {'X-Roles': 'guest,member,reader'}
    body = lease('first', kind='best_effort')
    refused = world.ask(application, 'POST', '/v1/leases', body, guest, 403).json
    assert 'climate:leases:make_room to you: leave kind out.' in refused['error_message']
    assert refused['field'] == 'kind'
    assert world.ask(application, 'GET', '/v1/leases', status=200).json['leases'] == []
    # That it is for hosts alone comes before who may ask for it.
    for reservations in ([], body['reservations'] * 2):
        other = {**body, 'reservations': reservations}
        refused = world.ask(application, 'POST', '/v1/leases', other, guest, 400).json
        assert refused['field'] == 'kind'
    assert create(application, body)['status'] == 'PENDING'


def test_hosts_are_not_emptied_long_before_the_start(application: Any) -> None:
    create(application, lease('first', duration='9d'))
    body = lease('second', kind='best_effort', start_date='+2h')
    assert create(application, body, 400)['field'] == 'start_date'


def test_dry_run_says_that_it_would_wait(application: Any) -> None:
    create(application, lease('first'))
    for kind, waits in (('retry', True), ('scheduled', False)):
        body = lease('second', kind=kind)
        answer = world.ask(application, 'POST', '/v1/leases?dry_run=true', body, status=200).json
        told = answer['dry_run']
        assert (told['granted'], told['waits']) == (False, waits)


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'kind': 'never'}, 'kind'),
        ({'kind': 'retry', 'max_retries': 0}, 'max_retries'),
        ({'max_retries': 3}, 'max_retries'),
        ({'kind': 'retry', 'priority': 10}, 'priority'),
        ({'kind': 'retry', 'best_effort_timeout': 9}, 'best_effort_timeout'),
        ({'kind': 'best_effort', 'best_effort_timeout': 3601}, 'best_effort_timeout'),
        ({'kind': 'best_effort', 'reservations': []}, 'kind'),
        ({'kind': 'retry', 'reservations': []}, 'kind'),
        ({'kind': 'retry', 'reservations': [{'resource_type': 'physical:host', 'pool': 'x'}]}, ''),
    ],
)
def test_bad_requests_leave_nothing(application: Any, values: dict[str, Any], field: str) -> None:
    status = 400 if field else 404
    answer = create(application, lease('one', **values), status)
    assert answer['field'] == (field or 'reservations[0].pool')
    assert world.ask(application, 'GET', '/v1/leases', status=200).json['leases'] == []


def test_host_is_emptied_for_it(application: Any) -> None:
    create(application, lease('first'))
    body = lease('second', kind='best_effort', best_effort_timeout=60)
    refused = create(application, body, 409)
    assert refused['error_name'] == 'calendar.not_enough'
    why = 'No host can be drained for it: no shared host matches. None of the hosts that match'
    assert refused['error_message'].startswith(why)
    world.ask(application, 'POST', '/v1/os-hosts', {'name': 'cn2', 'shared': True}, ADMIN, 201)
    told = world.ask(application, 'POST', '/v1/leases?dry_run=true', body, status=200).json
    assert (told['dry_run']['granted'], told['dry_run']['waits']) == (False, True)
    made = create(application, body)
    assert (made['kind'], made['status']) == ('best_effort', 'IN_PROGRESS')
    assert made['status_reason'] == '1 shared host must be drained for it.'
    found = world.ask(application, 'GET', '/v1/leases?status=IN_PROGRESS', status=200).json
    assert [each['id'] for each in found['leases']] == [made['id']]
    host = world.ask(application, 'GET', '/v1/os-hosts/2', headers=ADMIN, status=200).json['host']
    assert host['disabled_reason'] == f'The host is being drained for lease {made["id"]}'
