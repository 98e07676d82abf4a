# SPDX-License-Identifier: Apache-2.0
"""python-blazarclient 4.6.0, unchanged, against the service over HTTP."""

import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from blazarclient import client as blazar
from blazarclient import exception
from keystoneauth1 import noauth, session, token_endpoint

from climate_core import conf as configuration
from climate_core.cmd import manage
from climate_core.cmd.manage import serve

NOWHERE = '11111111-1111-4111-8111-111111111111'


@pytest.fixture(scope='module')
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: pathlib.Path = tmp_path_factory.mktemp('state')
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(directory)]
    conf = configuration.load(words, [], cli=[manage.command()])
    with serve.serving(conf) as found:
        yield found


@pytest.fixture(params=['noauth', 'token'])
def client(request: pytest.FixtureRequest, url: str) -> Any:
    auth = noauth.NoAuth(endpoint=url)
    if request.param == 'token':
        auth = token_endpoint.Token(url, 'token')
    return blazar.Client(session=session.Session(auth=auth))


def create(client: Any, name: str, **values: Any) -> dict[str, Any]:
    wanted = {'start': '2099-01-01 10:00', 'end': '2099-01-01 12:00', 'reservations': []}
    lease: dict[str, Any] = client.lease.create(name, **{**wanted, 'events': [], **values})
    return lease


def server() -> dict[str, Any]:
    return {'resource_type': 'virtual:instance', 'resource_id': str(uuid.uuid4())}


def test_life_of_a_lease(client: Any) -> None:
    wanted = server()
    lease = create(client, 'one', reservations=[wanted])
    assert lease['name'] == 'one'
    assert lease['reservations'][0]['resource_id'] == wanted['resource_id']
    assert client.lease.get(lease['id']) == lease
    assert lease in client.lease.list(sort_by='name')
    assert client.lease.update(lease['id'], name='two')['name'] == 'two'
    client.lease.delete(lease['id'])


@pytest.mark.parametrize(
    ('change', 'start', 'end'),
    [
        ({'prolong_for': '1h'}, '10:00', '13:00'),
        ({'reduce_by': '30m'}, '10:00', '11:30'),
        ({'defer_by': '1h'}, '11:00', '12:00'),
        ({'advance_by': '60s'}, '09:59', '12:00'),
        ({'end_date': '2099-01-01 18:00'}, '10:00', '18:00'),
        ({'start_date': '2099-01-01 11:00', 'end_date': '2099-01-01 18:00'}, '11:00', '18:00'),
    ],
)
def test_update_changes_the_dates(
    client: Any, change: dict[str, str], start: str, end: str
) -> None:
    lease = client.lease.update(create(client, 'dates')['id'], **change)
    assert lease['start_date'] == f'2099-01-01T{start}:00.000000'
    assert lease['end_date'] == f'2099-01-01T{end}:00.000000'


def test_events_of_the_command_line_are_understood(client: Any) -> None:
    event = {'event_type': 'mail', 'event_date': '2099-01-01 10:30'}
    lease = create(client, 'events', events=[event])
    assert [e['time'] for e in lease['events'] if e['event_type'] == 'mail'] == [
        '2099-01-01T10:30:00.000000'
    ]


def test_create_with_before_end_adds_the_event(client: Any) -> None:
    lease = create(client, 'warned', before_end='2099-01-01 11:45')
    assert [e['time'] for e in lease['events'] if e['event_type'] == 'before_end_lease'] == [
        '2099-01-01T11:45:00.000000'
    ]


def test_a_reservation_is_changed(client: Any) -> None:
    lease = create(client, 'changed', reservations=[server()])
    (reservation,) = lease['reservations']
    change = [{'id': reservation['id'], 'on_end': 'stop'}]
    lease = client.lease.update(lease['id'], reservations=change)
    assert [each['on_end'] for each in lease['reservations']] == ['stop']


@pytest.mark.parametrize(
    ('change', 'said'),
    [
        ({'id': NOWHERE}, NOWHERE),
        ({'min': 1, 'max': 2}, 'm(in|ax): is not known here; on_end can be changed'),
    ],
)
def test_a_reservation_that_cannot_be_changed(
    client: Any, change: dict[str, Any], said: str
) -> None:
    lease = create(client, 'unchanged', reservations=[server()])
    change = {'id': lease['reservations'][0]['id'], **change}
    with pytest.raises(exception.BlazarClientException, match=said):
        client.lease.update(lease['id'], name='other', reservations=[change])
    assert client.lease.get(lease['id']) == lease


def test_nothing_to_change_is_said_by_the_client(client: Any) -> None:
    assert client.lease.update(NOWHERE) == 'No values to update passed.'


def test_hosts_are_listed_as_not_reservable(client: Any) -> None:
    assert [host['reservable'] for host in client.host.list()] == [False]


@pytest.mark.parametrize(
    ('values', 'code', 'said'),
    [
        ({'end': 'tomorrow'}, 400, 'is not a date'),
        ({'start': '2001-01-01 10:00'}, 400, 'past'),
        ({'reservations': [{'resource_type': 'other:thing'}]}, 400, 'cannot be reserved here'),
    ],
)
def test_wrong_create_raises_with_the_status_and_the_message(
    client: Any, values: dict[str, Any], code: int, said: str
) -> None:
    with pytest.raises(exception.BlazarClientException, match=said) as caught:
        create(client, 'bad', **values)
    assert caught.value.kwargs['code'] == code


def test_get_of_an_unknown_lease_is_not_found(client: Any) -> None:
    with pytest.raises(exception.BlazarClientException, match='was not found') as caught:
        client.lease.get(NOWHERE)
    assert caught.value.kwargs['code'] == 404
