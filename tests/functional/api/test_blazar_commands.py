# SPDX-License-Identifier: Apache-2.0
"""``openstack reservation lease ...`` of python-blazarclient 4.6.0 against the service over HTTP.

It has no word for the id of a resource, only a filter that can name one, and it cannot send a text
for a type of resource that Blazar does not have.
"""

import json
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core import conf as configuration
from climate_core.cmd import manage
from climate_core.cmd.manage import serve
from tests.support import shell

DATES = ('--start-date', '2099-01-01 10:00', '--end-date', '2099-01-01 12:00')


def server(server_id: str) -> str:
    return f'resource_type=virtual:instance,resource_properties=["==", "$id", "{server_id}"]'


@pytest.fixture
def openstack(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[shell.Openstack]:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        environment = {'OS_AUTH_TYPE': 'none', 'OS_ENDPOINT': url}
        yield shell.prepared(environment, capsys, monkeypatch)


@pytest.fixture
def lease(openstack: shell.Openstack) -> Callable[..., str]:
    """Run a command that must work, and give what it printed."""

    def run(*argv: str) -> str:
        status, out, err = openstack('reservation', 'lease', *argv)
        assert status == 0, err
        return out

    return run


@pytest.fixture
def made(lease: Callable[..., str]) -> dict[str, Any]:
    """Return a lease of a server."""
    wanted = server(str(uuid.uuid4()))
    return _fields(lease('create', *DATES, '--reservation', wanted, 'one', '-f', 'json'))


def _fields(out: str) -> dict[str, Any]:
    """Return what a create or show printed; its first line may be a sentence."""
    fields: dict[str, Any] = json.loads(out[out.index('{') :])
    return fields


def test_create_of_blazar_makes_a_lease(lease: Callable[..., str]) -> None:
    server_id = str(uuid.uuid4())
    out = lease(
        *('create', *DATES, '--before-end-date', '2099-01-01 11:45', '-f', 'json'),
        *('--reservation', server(server_id)),
        *('--event', 'event_type=mail,event_date=2099-01-01 10:30', 'one'),
    )
    assert out.startswith('Created a new lease:')
    made = _fields(out)
    assert (made['name'], made['start_date']) == ('one', '2099-01-01T10:00:00.000000')
    reservation = json.loads(made['reservations'])
    assert reservation['resource_id'] == server_id
    assert '2099-01-01T10:30:00.000000' in made['events']
    assert '2099-01-01T11:45:00.000000' in made['events']


def test_create_for_a_day_from_now(lease: Callable[..., str]) -> None:
    wanted = server(str(uuid.uuid4()))
    made = _fields(lease('create', '--reservation', wanted, 'one', '-f', 'json'))
    assert made['name'] == 'one'


def test_list_show_and_delete(
    lease: Callable[..., str], openstack: shell.Openstack, made: dict[str, Any]
) -> None:
    assert json.loads(lease('list', '-f', 'json')) == [
        {
            'id': made['id'],
            'name': 'one',
            'start_date': '2099-01-01T10:00:00.000000',
            'end_date': '2099-01-01T12:00:00.000000',
        }
    ]
    assert json.loads(lease('list', '-f', 'json', '--sort-by', 'start_date'))
    for name in (made['id'], 'one'):
        assert _fields(lease('show', name, '-f', 'json'))['id'] == made['id']
    assert lease('delete', 'one') == 'Deleted lease: one\n'
    status, out, _ = openstack('reservation', 'lease', 'show', made['id'], '-f', 'json')
    assert status == 1 or _fields(out)['status'] == 'DELETING'


@pytest.mark.parametrize(
    ('argv', 'field', 'value'),
    [
        (['--prolong-for', '1h'], 'end_date', '2099-01-01T13:00:00.000000'),
        (['--prolong_for', '1d'], 'end_date', '2099-01-02T12:00:00.000000'),
        (['--reduce-by', '30m'], 'end_date', '2099-01-01T11:30:00.000000'),
        (['--end-date', '2099-01-01 18:00'], 'end_date', '2099-01-01T18:00:00.000000'),
        (['--defer-by', '1h'], 'start_date', '2099-01-01T11:00:00.000000'),
        (['--advance-by', '60s'], 'start_date', '2099-01-01T09:59:00.000000'),
        (['--start-date', '2099-01-01 11:00'], 'start_date', '2099-01-01T11:00:00.000000'),
        (['--name', 'two'], 'name', 'two'),
    ],
)
def test_set_of_blazar_changes_a_lease(
    lease: Callable[..., str], made: dict[str, Any], argv: list[str], field: str, value: str
) -> None:
    assert lease('set', *argv, 'one') == 'Updated lease: one\n'
    assert _fields(lease('show', made['id'], '-f', 'json'))[field] == value


def test_set_all_at_once(lease: Callable[..., str], made: dict[str, Any]) -> None:
    lease('set', '--name', 'two', '--defer-by', '1h', '--prolong-for', '2h', 'one')
    shown = _fields(lease('show', 'two', '-f', 'json'))
    assert shown['start_date'] == '2099-01-01T11:00:00.000000'
    assert shown['end_date'] == '2099-01-01T14:00:00.000000'


def test_set_of_a_reservation_changes_the_lease_or_is_refused(
    lease: Callable[..., str], openstack: shell.Openstack, made: dict[str, Any]
) -> None:
    reservation_id = json.loads(made['reservations'])['id']
    lease('set', '--reservation', f'id={reservation_id}', '--name', 'two', 'one')
    status, _, err = openstack(
        *('reservation', 'lease', 'set', made['id']),
        *('--reservation', f'id={reservation_id},amount=2', '--name', 'three'),
    )
    assert status == 1
    assert 'amount' in err
    assert _fields(lease('show', made['id'], '-f', 'json'))['name'] == 'two'


def test_room_for_servers_by_sizes(lease: Callable[..., str]) -> None:
    wanted = 'resource_type=virtual:instance,vcpus=2,memory_mb=1024,disk_gb=1,amount=3'
    made = _fields(lease('create', *DATES, '--reservation', wanted, 'one', '-f', 'json'))
    reservation = json.loads(made['reservations'])
    assert (reservation['resource_type'], reservation['amount']) == ('virtual:instance', 3)
    change = f'id={reservation["id"]},amount=4'
    lease('set', made['id'], '--reservation', change)
    shown = json.loads(_fields(lease('show', made['id'], '-f', 'json'))['reservations'])
    assert (shown['vcpus'], shown['amount']) == (2, 4)


@pytest.mark.parametrize(
    ('reservation', 'said'),
    [
        (
            'resource_type=virtual:floatingip,network_id=n,amount=1',
            'network_id: must be a UUID',
        ),
        ('resource_type=virtual:instance,amount=1,vcpus=2,memory_mb=1024', 'disk_gb'),
    ],
)
def test_create_with_a_wrong_reservation_prints_the_error(
    openstack: shell.Openstack, reservation: str, said: str
) -> None:
    status, _, err = openstack(
        *('reservation', 'lease', 'create', *DATES, '--reservation', reservation, 'one')
    )
    assert status == 1
    assert said in err
