# SPDX-License-Identifier: Apache-2.0
"""``openstack lease ...`` and climateclient against the service over HTTP."""

import json
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keystoneauth1 import noauth, session
from oslo_config import cfg

from climateclient import exceptions
from climateclient.client import Client
from tests.functional.api import world
from tests.functional.api.listening import listening
from tests.support import shell

SPAN = ('--start', '2099-01-01T10:00Z', '--end', '2099-01-01T12:00Z')


@pytest.fixture
def conf(tmp_path: pathlib.Path) -> cfg.ConfigOpts:
    """Return the service with short pages."""
    return world.configure(tmp_path, ('api', 'max_limit', '2'))


@pytest.fixture
def url(application: Any) -> Iterator[str]:
    with listening(application) as found:
        yield found


@pytest.fixture
def client(url: str) -> Client:
    return Client(session.Session(auth=noauth.NoAuth(endpoint=url)))


@pytest.fixture
def openstack(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> shell.Openstack:
    environment = {'OS_AUTH_TYPE': 'none', 'OS_ENDPOINT': url}
    return shell.prepared(environment, capsys, monkeypatch)


@pytest.fixture
def lease(openstack: shell.Openstack) -> Callable[..., Any]:
    """Run a command of ``openstack lease`` that must work, and give what it printed as JSON."""

    def run(*argv: str) -> Any:
        status, out, err = openstack('lease', *argv, '-f', 'json')
        assert status == 0, err
        return json.loads(out)

    return run


def thing() -> str:
    return f'resource_type=test:thing,resource_id={uuid.uuid4()}'


def test_dry_run_create_and_create_again(lease: Callable[..., Any]) -> None:
    wanted = ('create', 'one', *SPAN, '--reservation', thing())
    checked = lease(*wanted, '--dry-run')
    assert (checked['granted'], checked['refusals']) == (True, [])
    assert lease('list') == []

    made = lease(*wanted, '--idempotency-key', 'order 66')

    assert lease(*wanted, '--idempotency-key', 'order 66')['id'] == made['id']
    assert [each['ID'] for each in lease('list')] == [made['id']]


def test_dry_run_says_why_not(lease: Callable[..., Any], openstack: shell.Openstack) -> None:
    wanted = ('create', 'one', *SPAN, '--reservation', thing())
    lease(*wanted)
    status, out, _ = openstack('lease', *wanted, '--dry-run', '-f', 'json')
    assert status == 1
    checked = json.loads(out)
    assert not checked['granted']
    assert checked['refusals'][0]['code'] == 'reservation.resource_reserved'


def test_list_filters_and_sorts_leases(lease: Callable[..., Any]) -> None:
    wanted = thing()
    made = {
        'late': lease('create', 'late', *SPAN, '--reservation', wanted),
        'early': lease('create', 'early', '--start', '2098-01-01T10:00Z', '--for', '2h'),
        'manual': lease('create', 'manual', *SPAN, '--start-policy', 'manual'),
    }
    resource_id = wanted.rpartition('=')[2]

    def names(*argv: str) -> list[str]:
        return [each['Name'] for each in lease('list', *argv)]

    assert sorted(names()) == ['early', 'late', 'manual']
    assert names('--sort', 'name:desc') == ['manual', 'late', 'early']
    assert names('--sort', 'start,name') == ['early', 'late', 'manual']
    assert names('--sort', 'name', '--limit', '2') == ['early', 'late']
    assert names('--sort', 'name', '--marker', made['late']['id']) == ['manual']
    assert names('--name', 'late') == ['late']
    assert names('--resource-id', resource_id) == ['late']
    assert names('--resource-type', 'test:thing') == ['late']
    assert names('--until', '2098-06-01T00:00Z') == ['early']
    assert sorted(names('--from', '2098-06-01T00:00Z')) == ['late', 'manual']
    assert names('--status', 'ACTIVE') == []
    (shown,) = lease('list', '--long', '--name', 'late')
    assert shown['Reservations'][0]['resource_id'] == resource_id


def test_client_follows_the_pages_of_a_list(client: Client) -> None:
    made = [
        client.leases.create(f'lease{n}', duration='1h', start='2099-01-01 10:00')
        for n in range(5)
    ]
    found = client.leases.list(sort='name', fields=['name'])
    assert [each.name for each in found] == [each.name for each in made]
    assert [each.id for each in client.leases.list(limit=3)] == [each.id for each in made[:3]]


def test_names_are_found_by_one_request(client: Client) -> None:
    made = client.leases.create('one', duration='1h', start='2099-01-01 10:00')
    client.leases.create('other', duration='1h', start='2099-01-01 10:00')
    assert client.leases.find('one') == made
    with pytest.raises(exceptions.LeaseNameNotFound):
        client.leases.find('ONE')


def test_set_and_unset_change_the_lease(lease: Callable[..., Any]) -> None:
    lease('create', 'one', *SPAN, '--event', 'type=half,time=2099-01-01T11:00Z')

    changed = lease(
        *('set', 'one', '--name', 'two', '--extend', '1h', '--start-policy', 'manual'),
        *('--tell-before-start', '1h', '--event', 'type=late,time=2099-01-01T11:30Z'),
    )

    assert (changed['name'], changed['end_date']) == ('two', '2099-01-01T13:00:00+00:00')
    assert (changed['start_policy'], changed['before_start']) == ('manual', [3600])
    assert {'half', 'late', 'ready_to_start'} <= {e['event_type'] for e in changed['events']}

    changed = lease('unset', 'two', '--event', 'half', '--tell-before-start')

    types = {each['event_type'] for each in changed['events']}
    assert 'late' in types
    assert not {'half', 'before_start_lease'} & types
    assert changed['before_start'] == []
    assert lease('set', 'two', '--for', '30m')['end_date'] == '2099-01-01T10:30:00+00:00'


def test_webhook_is_set_without_showing_its_secret(
    lease: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('CLIMATE_WEBHOOK_SECRET', 'a secret of some length')
    made = lease('create', 'one', *SPAN, '--webhook', 'https://hook.example.org/')
    assert made['webhook']['url'] == 'https://hook.example.org/'
    assert 'secret' not in made['webhook']
    changed = lease(
        *('set', 'one', '--webhook', 'https://other.example.org/'),
        *('--webhook-event', 'lease.event.*'),
    )
    assert changed['webhook'] == {
        'url': 'https://other.example.org/',
        'events': ['lease.event.*'],
    }
    assert lease('unset', 'one', '--webhook')['webhook'] is None


def test_reservations_are_added_and_removed(
    lease: Callable[..., Any], openstack: shell.Openstack
) -> None:
    first, second = thing(), thing()
    lease('create', 'one', *SPAN, '--reservation', first)
    grown = lease('reservation', 'add', 'one', '--reservation', second)
    assert len(grown['reservations']) == 2
    status, _, err = openstack(
        *('lease', 'reservation', 'remove', 'one', second.rpartition('=')[2])
    )
    assert status == 0, err
    live = [
        each
        for each in lease('show', 'one')['reservations']
        if each['status'] not in ('deleting', 'deleted')
    ]
    assert [each['resource_id'] for each in live] == [first.rpartition('=')[2]]


def test_start_too_early_and_end(lease: Callable[..., Any], openstack: shell.Openstack) -> None:
    lease('create', 'one', *SPAN, '--start-policy', 'manual')
    status, _, err = openstack('lease', 'start', 'one')
    assert status == 1
    assert 'HTTP 409' in err
    status, _, err = openstack('lease', 'end', 'one', '--wait', '--timeout', '30s')
    assert status == 0, err
    assert lease('show', 'one')['status'] == 'TERMINATED'


def test_history_shows_changes_after_a_marker(
    lease: Callable[..., Any], openstack: shell.Openstack
) -> None:
    made = lease('create', 'one', *SPAN)
    lease('set', 'one', '--name', 'two')
    first, second = lease('history', 'two', '--long')
    assert (first['Action'], second['Action']) == ('lease.create', 'lease.update')
    assert second['Changes'] == {'name': ['one', 'two']}
    assert second['User'] == made['user_id']
    (last,) = lease('history', 'two', '--marker', first['ID'], '--long')
    assert last['ID'] == second['ID']

    status, _, err = openstack('lease', 'delete', 'two', '--wait', '--timeout', '30s')

    assert status == 0, err
    actions = [each['Action'] for each in lease('history', 'two')]
    assert actions[:3] == ['lease.create', 'lease.update', 'lease.delete']


def test_usage_and_limits_show_the_project(lease: Callable[..., Any]) -> None:
    lease('create', 'one', *SPAN, '--reservation', thing())
    period = ('--start', '2099-01-01T00:00Z', '--end', '2099-01-02T00:00Z')
    assert {each['Project'] for each in lease('usage', *period)} <= {'project'}
    limits = {each['Resource']: each['Used'] for each in lease('limits')}
    assert limits['leases'] in (1, None)


def test_what_is_refused_names_the_field(openstack: shell.Openstack) -> None:
    status, _, err = openstack(
        *('lease', 'create', 'one', '--start', '2001-01-01T10:00Z', '--end', '2099-01-01T12:00Z')
    )
    assert status == 1
    assert err.startswith('start_date: The start must not be in the past: it is 20')


def test_a_change_that_meets_another_is_refused(client: Client) -> None:
    made = client.leases.create('one', duration='1h', start='2099-01-01 10:00')
    client.leases.update(made.id, name='two')
    with pytest.raises(exceptions.Conflict) as caught:
        client.leases.update(made.id, name='three', generation=made.generation)
    assert caught.value.code == 'lease.generation_conflict'
    assert client.leases.get(made.id).name == 'two'
