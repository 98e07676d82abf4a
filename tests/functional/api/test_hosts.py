# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools through the API, with a fake Nova and the real Placement."""

import datetime
import pathlib
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from climate_core.db.engine import Database
from climate_hosts.db import hosts as host_tables
from climate_hosts.power import db as db_power
from tests.functional.api import world
from tests.functional.api.gabbi_files import HERE, run_file
from tests.support import hosts
from tests.support.fakes import cloud_server, settings

FILES = sorted((HERE / 'hosts').glob('*.yaml'))
ADMIN = {'X-Roles': 'admin,member,reader'}


@pytest.fixture
def conf(tmp_path: pathlib.Path, hosts_cloud: cloud_server.Server) -> cfg.ConfigOpts:
    options = settings.cloud_options(hosts_cloud.url).items()
    return world.configure(tmp_path, *(('cloud', name, value) for name, value in options))


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.stem)
def test_requests_are_answered_as_the_file_says(file: pathlib.Path, application: Any) -> None:
    run_file(file, application)


def ask(application: Any, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    return world.ask(application, method, path, body, ADMIN, status).json


def test_host_that_is_promised_shows_it_and_stays(application: Any, database: Database) -> None:
    host = ask(application, 'POST', '/v1/os-hosts', {'name': 'cn1'}, 201)['host']
    lease = hosts.promise(database, int(host['id']))
    shown = ask(application, 'GET', '/v1/os-hosts/1/allocation')['allocation']
    assert shown == {
        'resource_id': '1',
        'hypervisor_hostname': host['hypervisor_hostname'],
        'reservations': [
            {
                'id': lease.reservations[0].id,
                'lease_id': lease.id,
                'lease_name': lease.name,
                'start_date': '2099-01-01T10:00:00.000000',
                'end_date': '2099-01-01T12:00:00.000000',
            }
        ],
    }
    for query, found in (
        ('', [shown]),
        (f'?lease_id={lease.id.upper()}', [shown]),
        (f'?reservation_id={lease.id}', [shown | {'reservations': []}]),
    ):
        assert ask(application, 'GET', f'/v1/os-hosts/allocations{query}')['allocations'] == found
    refused = ask(application, 'DELETE', '/v1/os-hosts/1', None, 409)
    assert refused['error_name'] == 'host.in_use'
    assert (
        'allocated to 1 reservation, the last until 2099-01-01 12:00 UTC'
        in refused['error_message']
    )
    assert ask(application, 'GET', '/v1/os-hosts/1')['host']['reservable'] is True


def test_host_is_changed_while_nova_is_away(
    application: Any, hosts_cloud: cloud_server.Server
) -> None:
    """What is broken is put out of use."""
    ask(application, 'POST', '/v1/os-hosts', {'name': 'cn1'}, 201)
    fault = {'method': 'GET', 'path': 'os-hypervisors', 'status': 503, 'count': 1}
    hosts_cloud.state.faults.append(fault)
    changed = ask(application, 'PUT', '/v1/os-hosts/1', {'disabled': True})['host']
    assert changed['reservable'] is False


@pytest.mark.parametrize('path', ['os-hypervisors', '/placement/resource_classes'])
@pytest.mark.parametrize('status', [403, 404, 409, 503])
def test_what_the_cloud_refuses_is_no_mistake_of_the_caller(
    application: Any, hosts_cloud: cloud_server.Server, path: str, status: int
) -> None:
    method = 'GET' if path.startswith('os') else 'PUT'
    fault = {'method': method, 'path': path, 'status': status, 'count': 2}
    hosts_cloud.state.faults.append(fault)
    ask(application, 'POST', '/v1/os-hosts', {'name': 'cn1'}, 503)


def test_change_reads_what_nova_says_now(
    application: Any, hosts_cloud: cloud_server.Server
) -> None:
    ask(application, 'POST', '/v1/os-hosts', {'name': 'cn1'}, 201)
    for each in hosts_cloud.state.hypervisors.values():
        each['vcpus'] = 128
    assert ask(application, 'PUT', '/v1/os-hosts/1', {})['host']['vcpus'] == 128


def test_host_is_kept_on_and_shows_its_power(application: Any, database: Database) -> None:
    host = ask(application, 'POST', '/v1/os-hosts', {'name': 'cn1'}, 201)['host']
    assert (host['power'], host['kept_on']) == ('awake', False)
    changed = ask(application, 'PUT', '/v1/os-hosts/1', {'kept_on': True})['host']
    assert changed['kept_on'] is True
    assert ask(application, 'PUT', '/v1/os-hosts/1', {'extra_one': '1'})['host']['kept_on'] is True
    changed = ask(application, 'PUT', '/v1/os-hosts/1', {'values': {'kept_on': 'False'}})['host']
    assert changed['kept_on'] is False
    database.write(db_power.start_sleep, 1, datetime.timedelta(0))
    assert ask(application, 'GET', '/v1/os-hosts/1')['host']['power'] == 'falling_asleep'
    refused = ask(application, 'DELETE', '/v1/os-hosts/1', None, 409)
    assert refused['error_name'] == 'host.changing'


def test_whether_a_host_is_kept_on_is_no_extra_property(application: Any) -> None:
    body = {'name': 'cn1', 'kept_on': 'yes'}
    refused = ask(application, 'POST', '/v1/os-hosts', body, 400)
    assert refused['error_message'].startswith('kept_on: ')


def test_usage_of_hosts_that_slept(
    application: Any, database: Database, conf: cfg.ConfigOpts
) -> None:
    start = datetime.datetime(2026, 1, 1, 10, tzinfo=datetime.UTC)
    row = {'unit_id': 7, 'hypervisor_hostname': 'cn7', 'start': start}
    with database.writer() as session:
        ended = {**row, 'end': start + datetime.timedelta(hours=2)}
        session.execute(sa.insert(host_tables.HOST_SLEEPS).values(ended))
    path = '/v1/os-hosts/usage?start=2026-01-01T11:00:00Z&end=2026-01-02T00:00:00Z'
    shown = {
        'hypervisor_hostname': 'cn7',
        'start': '2026-01-01T11:00:00.000000',
        'end': '2026-01-02T00:00:00.000000',
        'asleep_hours': 1.0,
        'saved_kwh': None,
    }
    assert ask(application, 'GET', path)['usage'] == [shown]
    conf.set_override('watts', 120.0, group='power')
    assert ask(application, 'GET', path)['usage'] == [shown | {'saved_kwh': 0.12}]
    refused = ask(application, 'GET', f'{path}&end=2025-01-01T00:00:00Z', None, 400)
    assert 'end' in refused['error_message']
    world.ask(application, 'GET', path, None, {'X-Roles': 'member,reader'}, 403)
