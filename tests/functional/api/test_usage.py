# SPDX-License-Identifier: Apache-2.0
"""What the API says of usage and of limits, with numbers."""

import dataclasses
import datetime
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.api.handlers import usage as handler
from climate_core.db import project_limits, sql, store, tables
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.lease.history import Cause
from tests.functional.api import world
from tests.support import leases
from tests.support.fakes import cloud_server, settings

UTC = datetime.UTC
START = datetime.datetime(2025, 5, 10, tzinfo=UTC)
HOUR = datetime.timedelta(hours=1)
AMOUNTS = {'servers': 1, 'vcpus': 4, 'memory_mb': 2048, 'disk_gb': 20}


def get(application: Any, path: str, status: int = 200) -> Any:
    return world.ask(application, 'GET', path, status=status).json


def write(
    database: Database, number: int, woken: float | None, freed: float | None, project: str
) -> None:
    """Write a lease of one server, reserved at START; times in hours after that."""

    def at(hours: float | None) -> datetime.datetime | None:
        return None if hours is None else START + hours * HOUR

    lease_id = f'00000000-0000-4000-8000-{number:012}'
    server = model.new_reservation(lease_id, 'test:thing', f'x{number}', {}, START, AMOUNTS)
    server = dataclasses.replace(
        server,
        woken_at=at(woken),
        freed_at=at(freed),
        status='pending' if freed is None else 'deleted',
    )
    lease = leases.lease(
        server,
        lease_id=lease_id,
        start=START,
        end=START + 24 * HOUR,
        now=START,
        name=f'lease{number}',
        project_id=project,
        status='PENDING' if freed is None else 'TERMINATED',
        trust_id=None,
        events=(),
    )
    database.write(store.create, lease, START, Cause('lease.create'))


def test_hours_are_counted_within_the_period_of_the_query(
    application: Any, database: Database
) -> None:
    write(database, 1, 2, 10, 'project')
    write(database, 2, None, 5, 'project')
    write(database, 3, 0, 10, 'other')
    (usage,) = get(application, '/v1/usage?start=2025-05-10%2001:00&end=2025-05-10%2006:00')[
        'usage'
    ]
    # Reserved for five hours and for four, used for four.
    assert usage == {
        'project_id': 'project',
        'start': '2025-05-10T01:00:00.000000',
        'end': '2025-05-10T06:00:00.000000',
        'leases': 2,
        'reserved': {
            'server_hours': 9,
            'vcpu_hours': 36,
            'memory_gib_hours': 18,
            'disk_gb_hours': 180,
            'volume_hours': 0,
            'volume_gb_hours': 0,
            'stack_hours': 0,
            'host_hours': 0,
            'floatingip_hours': 0,
            'network_hours': 0,
        },
        'used': {
            'server_hours': 4,
            'vcpu_hours': 16,
            'memory_gib_hours': 8,
            'disk_gb_hours': 80,
            'volume_hours': 0,
            'volume_gb_hours': 0,
            'stack_hours': 0,
            'host_hours': 0,
            'floatingip_hours': 0,
            'network_hours': 0,
        },
        'preempted': dict.fromkeys(usage['used'], 0),
    }


def test_what_is_not_freed_counts_until_now(application: Any, database: Database) -> None:
    write(database, 1, 0, None, 'project')
    path = '/v1/usage?start=2025-05-10%2000:00&end=2098-01-01%2000:00'
    before = datetime.datetime.now(UTC)
    (usage,) = get(application, path)['usage']
    after = datetime.datetime.now(UTC)
    end = datetime.datetime.fromisoformat(usage['end']).replace(tzinfo=UTC)
    # SQLite cuts to milliseconds.
    assert before - datetime.timedelta(milliseconds=1) <= end <= after
    assert usage['used']['server_hours'] == pytest.approx((end - START) / HOUR)


@pytest.mark.parametrize('number', [1, 50])
def test_usage_and_limits_cost_the_same_for_any_number_of_leases(
    application: Any, database: Database, number: int
) -> None:
    for each in range(number):
        write(database, each, 0, None, 'project')
    with world.selects(database) as seen:
        get(application, '/v1/usage?start=2025-05-10%2000:00')
        assert len([each for each in seen if 'reservations' in each]) == 1
        seen.clear()
        get(application, '/v1/limits')
    # How many leases, and what they hold.
    assert len([each for each in seen if 'leases' in each]) == 1


@pytest.fixture
def fake(tmp_path: pathlib.Path) -> Iterator[cloud_server.Server]:
    with cloud_server.running(tmp_path / 'journal') as server:
        yield server


@pytest.fixture
def limited(tmp_path: pathlib.Path, fake: cloud_server.Server) -> cfg.ConfigOpts:
    """Return a configuration with limits out of a Keystone."""
    options = settings.cloud_options(fake.url).items()
    return world.configure(
        tmp_path,
        *(('cloud', name, value) for name, value in options),
    )


def test_limits_out_of_keystone(limited: cfg.ConfigOpts, fake: cloud_server.Server) -> None:
    fake.state.limits.defaults = {**dict.fromkeys(project_limits.NAMES, 100), 'leases': 1}
    fake.state.limits.projects = {('project', 'reserved_vcpus'): 7}
    database = Database(limited)
    with world.running(limited, database) as application:
        write(database, 1, 0, None, 'project')
        assert get(application, '/v1/limits')['limits'] == {
            'leases': {'limit': 1, 'used': 1},
            'reserved_servers': {'limit': 100, 'used': 1},
            'reserved_vcpus': {'limit': 7, 'used': 4},
            'reserved_memory_mb': {'limit': 100, 'used': 2048},
            'reserved_volumes': {'limit': 100, 'used': 0},
            'reserved_gigabytes': {'limit': 100, 'used': 0},
            'reserved_stacks': {'limit': 100, 'used': 0},
            'reserved_hosts': {'limit': 100, 'used': 0},
            'reserved_floatingips': {'limit': 100, 'used': 0},
            'reserved_networks': {'limit': 100, 'used': 0},
        }
        body = {'name': 'l', 'end_date': '2099-01-01 10:00'}
        refused = world.ask(application, 'POST', '/v1/leases', body, status=403).json
        assert (refused['error_name'], refused['field']) == ('limits.exceeded', 'leases')


def test_times_of_leases_are_limited_in_keystone(
    limited: cfg.ConfigOpts, fake: cloud_server.Server
) -> None:
    fake.state.limits.defaults = {'max_lease_seconds': 3600, 'max_ahead_seconds': -1}
    fake.state.limits.projects = {
        ('other', 'max_lease_seconds'): 7200,
        ('other', 'max_ahead_seconds'): 60,
    }
    database = Database(limited)
    body = {'name': 'l', 'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
    with world.running(limited, database) as application:
        for project, error, field in (
            ('project', 'lease.too_long', 'end_date'),
            ('other', 'lease.too_far_ahead', 'start_date'),
        ):
            own = {'X-Project-Id': project}
            rejected = world.ask(application, 'POST', '/v1/leases', body, own, 403).json
            assert (rejected['error_name'], rejected['field']) == (error, field)
            tried = world.ask(application, 'POST', '/v1/leases?dry_run=true', body, own, 200)
            assert tried.json['dry_run']['refusals'] == [rejected]
            assert world.ask(application, 'GET', '/v1/leases', None, own).json['leases'] == []


def test_endpoint_of_registered_limits_is_not_known(
    limited: cfg.ConfigOpts, fake: cloud_server.Server
) -> None:
    fake.state.limits.defaults = {'leases': 1}
    fake.state.limits.endpoints = 0
    database = Database(limited)
    with world.running(limited, database) as application:
        assert get(application, '/v1/limits', 503)['error_name'] == 'service_unavailable'


def write_running(database: Database, number: int, status: str, project: str = 'project') -> Any:
    """Write a lease of one server, reserved two hours ago, that runs ten more days."""
    now = datetime.datetime.now(UTC)
    lease_id = f'00000000-0000-4000-8000-{number:012}'
    made, end = now - 2 * HOUR, now + 240 * HOUR
    server = model.new_reservation(lease_id, 'test:thing', f'x{number}', {}, made, AMOUNTS)
    lease = leases.lease(
        dataclasses.replace(server, woken_at=now - HOUR),
        lease_id=lease_id,
        start=made,
        end=end,
        now=made,
        project_id=project,
        status=status,
        trust_id=None,
        events=(),
    )
    database.write(store.create, lease, made, Cause('lease.create'))
    return lease


def total(shown: list[dict[str, Any]], kind: str) -> float:
    return sum(float(each[kind]['server_hours']) for each in shown)


def test_what_is_planned_is_shown_week_by_week(application: Any, database: Database) -> None:
    write_running(database, 1, 'ACTIVE')
    write_running(database, 2, 'WAITING', 'other')
    shown = [
        each
        for each in get(application, '/v1/usage?planned=true')['usage']
        if each['project_id'] == 'project'
    ]
    assert total(shown, 'planned') == pytest.approx(240, abs=0.2)
    assert total(shown, 'reserved') == pytest.approx(2, abs=0.2)
    assert total(shown, 'used') == pytest.approx(1, abs=0.2)
    begins = [datetime.datetime.fromisoformat(each['start']) for each in shown]
    assert begins == sorted(begins)
    assert {(each.weekday(), each.hour, each.minute) for each in begins} == {(0, 0, 0)}
    assert len(shown) in (2, 3)
    # It may never start, so nothing is planned for it.
    asked = '/v1/usage?planned=true&project_id=other'
    others = world.ask(application, 'GET', asked, None, {'X-Roles': 'admin,member,reader'}, 200)
    assert total(others.json['usage'], 'planned') == 0


def test_what_is_given_back_early_is_planned_until_then(
    application: Any, database: Database
) -> None:
    lease = write_running(database, 1, 'ACTIVE')
    (server,) = lease.reservations
    event = {
        'id': '00000000-0000-4000-8000-00000000000e',
        'lease_id': lease.id,
        'event_type': model.END_RESERVATION,
        'time': lease.end_date - 200 * HOUR,
        'status': 'UNDONE',
        'generation': 0,
        'attempts': 0,
        'priority': 0,
        'created_at': lease.created_at,
        'reservation_id': server.id,
    }
    with database.writer() as session:
        sql.insert(session, tables.EVENTS, [event])
    shown = get(application, '/v1/usage?planned=true')['usage']
    assert total(shown, 'planned') == pytest.approx(40, abs=0.2)


@pytest.mark.parametrize('number', [1, 20])
def test_planned_usage_costs_the_same_for_any_number_of_leases(
    application: Any, database: Database, number: int
) -> None:
    for each in range(number):
        write_running(database, each, 'ACTIVE')
    with world.selects(database) as seen:
        get(application, '/v1/usage?planned=true')
    assert len(seen) == 2


@pytest.mark.parametrize(
    'query',
    [
        'start=2026-01-05T00:00Z&end=2026-01-05T00:00Z',
        'start=2026-01-05T00:00Z&end=2027-02-01T00:00Z',
    ],
)
def test_planned_usage_of_no_possible_time_names_the_field(application: Any, query: str) -> None:
    assert get(application, f'/v1/usage?planned=true&{query}', 400)['field'] == 'end'


def test_too_many_weeks_are_refused(
    application: Any, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_running(database, 1, 'ACTIVE')
    monkeypatch.setattr(handler, 'MAX_PLANNED_WEEKS', 0)
    assert get(application, '/v1/usage?planned=true', 400)['field'] == 'end'
