# SPDX-License-Identifier: Apache-2.0
"""Generic fields in the API, the client, its commands, the history and notifications."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keystoneauth1 import noauth, session

from climate_core import notifications
from climateclient.client import Client
from tests.functional.api import world
from tests.functional.api.listening import listening
from tests.support import shell
from tests.support.generic_fields import FIRST, NONE, ROWS, SECOND
from tests.unit import payloads
from tests.unit.api import samples

TIMES = {'start_date': '2099-01-01T10:00Z', 'end_date': '2099-01-01T12:00Z'}


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
) -> Callable[..., Any]:
    environment = {'OS_AUTH_TYPE': 'none', 'OS_ENDPOINT': url}
    run = shell.prepared(environment, capsys, monkeypatch)

    def run_lease(*argv: str) -> Any:
        status, out, err = run('lease', *argv, '-f', 'json')
        assert status == 0, err
        return json.loads(out)

    return run_lease


def _shown(lease: Any) -> dict[str, Any]:
    return {
        name: lease[name] if isinstance(lease, dict) else getattr(lease, name) for name in ROWS
    }


def _put(application: Any, lease_id: str, body: dict[str, Any], status: int = 200) -> Any:
    response = world.ask(application, 'PUT', f'/v1/leases/{lease_id}', body, status=status)
    return response.json.get('lease')


def test_api_creates_updates_shows_lists_and_clears(application: Any) -> None:
    body = {'name': 'one', **TIMES, **FIRST}
    lease = world.ask(application, 'POST', '/v1/leases', body, status=201).json['lease']
    path = f'/v1/leases/{lease["id"]}'
    assert _shown(lease) == FIRST
    assert _shown(_put(application, lease['id'], SECOND)) == SECOND
    assert _shown(world.ask(application, 'GET', path).json['lease']) == SECOND
    (listed,) = world.ask(application, 'GET', '/v1/leases').json['leases']
    assert _shown(listed) == SECOND
    (listed,) = world.ask(application, 'GET', '/v1/leases?fields=colour').json['leases']
    assert listed == {'colour': 'blue'}
    assert _shown(_put(application, lease['id'], {'name': 'two'})) == SECOND
    assert _shown(_put(application, lease['id'], NONE)) == NONE
    history = world.ask(application, 'GET', f'{path}/history').json['history']
    changed = [{k: v for k, v in entry['changes'].items() if k in ROWS} for entry in history]
    assert changed[1] == {name: [FIRST[name], SECOND[name]] for name in ROWS}
    assert changed[-1] == {name: [SECOND[name], None] for name in ROWS}


def test_lease_without_the_fields_shows_null(application: Any) -> None:
    body = {'name': 'one', **TIMES, **NONE}
    lease = world.ask(application, 'POST', '/v1/leases', body, status=201).json['lease']
    assert _shown(lease) == NONE


@pytest.mark.parametrize(
    ('name', 'value'),
    [('description', 'x' * 21), ('colour', 'grey'), ('cost_center', 10), ('billable', 'true')],
)
def test_api_rejects_a_value_of_another_type(application: Any, name: str, value: Any) -> None:
    body = {'name': 'one', **TIMES, name: value}
    error = world.ask(application, 'POST', '/v1/leases', body, status=400).json
    assert error['field'] == name


def test_client(client: Client) -> None:
    lease = client.leases.create('one', TIMES['end_date'], TIMES['start_date'], **FIRST)
    assert _shown(lease) == FIRST
    assert _shown(client.leases.update(lease.id, **SECOND)) == SECOND
    assert _shown(client.leases.update(lease.id, **NONE)) == NONE
    assert [_shown(each) for each in client.leases.list()] == [NONE]


def test_commands(openstack: Callable[..., Any]) -> None:
    span = ('--start', TIMES['start_date'], '--end', TIMES['end_date'])
    options = ('--description', 'for tests', '--colour', 'red', '--cost-center', '7')
    lease = openstack('create', 'one', *span, *options, '--billable', 'true')
    assert _shown(lease) == FIRST
    options = ('--description', '', '--colour', 'blue', '--cost-center', '0')
    lease = openstack('set', 'one', *options, '--billable', 'false')
    assert _shown(lease) == SECOND
    assert _shown(openstack('show', 'one')) == SECOND
    unset = [f'--{name.replace("_", "-")}' for name in ROWS]
    assert _shown(openstack('unset', 'one', *unset)) == NONE


@pytest.mark.parametrize('values', [FIRST, SECOND, NONE])
def test_notification_matches_its_schema(values: dict[str, Any]) -> None:
    lease = dataclasses.replace(samples.lease(colour='red'), **values)
    payload = notifications.lease_payload(lease, 'Why.')
    assert _shown(payload) == values
    assert list(payloads.problems('lease.create', {**payload, 'event_id': lease.id})) == []
