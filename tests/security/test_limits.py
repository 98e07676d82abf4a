# SPDX-License-Identifier: Apache-2.0
"""What one project may hold without any configuration of limits."""

import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from climate_core.db.engine import Database
from climate_core.lease import history
from tests.functional.api import world


def create(application: Any, number: int, status: int) -> Any:
    body = {'name': f'lease {number}', 'start_date': '+1d', 'duration': '1h'}
    return world.ask(application, 'POST', '/v1/leases', body, status=status).json


def test_every_amount_of_a_project_is_limited_by_default(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path)
    database = Database(conf)
    with world.running(conf, database) as application:
        shown = world.ask(application, 'GET', '/v1/limits', status=200).json['limits']
    assert shown
    assert {name for name, each in shown.items() if each['limit'] < 0} == set()


def test_configured_limit_is_enforced_without_keystone(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path, ('limits', 'leases', '2'))
    database = Database(conf)
    with world.running(conf, database) as application:
        create(application, 1, 201)
        create(application, 2, 201)
        rejected = create(application, 3, 403)
        others = {'X-Project-Id': 'others'}
        body = {'name': 'l', 'start_date': '+1d', 'duration': '1h'}
        world.ask(application, 'POST', '/v1/leases', body, others, status=201)
    assert (rejected['error_name'], rejected['field']) == ('limits.exceeded', 'leases')


@pytest.fixture
def capped(tmp_path: pathlib.Path) -> Iterator[Any]:
    """Return an API whose leases have small caps."""
    caps = {'reservations_per_lease': 3, 'events_per_lease': 2, 'changes_per_lease': 6}
    conf = world.configure(tmp_path, *(('limits', name, str(caps[name])) for name in caps))
    database = Database(conf)
    with world.running(conf, database) as application:
        yield application


def things(number: int) -> list[dict[str, str]]:
    return [
        {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())} for _ in range(number)
    ]


def test_changes_by_users_stop_before_they_fill_the_history(capped: Any) -> None:
    """Older entries stay: a user cannot push a change out of the history."""
    lease = create(capped, 1, 201)['lease']
    path = f'/v1/leases/{lease["id"]}'
    for number in range(5):
        world.ask(capped, 'PUT', path, {'name': f'name {number}'}, status=200)
    for method, where, body in (
        ('PUT', path, {'name': 'one more'}),
        ('POST', f'{path}/reservations', things(1)[0]),
    ):
        rejected = world.ask(capped, method, where, body, status=403).json
        assert rejected['field'] == 'changes_per_lease'
    rows = world.ask(capped, 'GET', f'{path}/history', status=200).json['history']
    assert [each['action'] for each in rows] == ['lease.create'] + 5 * ['lease.update']
    assert world.ask(capped, 'GET', path, status=200).json['lease']['name'] == 'name 4'
    world.ask(capped, 'POST', f'{path}/end', status=202)
    world.ask(capped, 'DELETE', path, status=204)


def test_additions_by_services_leave_the_changes_to_the_owner(capped: Any) -> None:
    """Another member of the project may boot any number of servers into the lease."""
    lease = create(capped, 1, 201)['lease']
    path = f'/v1/leases/{lease["id"]}'

    def add(status: int, **headers: str) -> Any:
        answer = world.ask(capped, 'POST', f'{path}/reservations', things(1)[0], headers, status)
        return answer.json.get('reservation')

    service = {'X-Service-Roles': 'service'}
    for _ in range(2):
        added = add(201, **service)
        world.ask(capped, 'DELETE', f'{path}/reservations/{added["id"]}', status=204)
    for number in range(5):
        world.ask(capped, 'PUT', path, {'name': f'name {number}'}, status=200)
    add(403)
    add(201, **service)
    rows = world.ask(capped, 'GET', f'{path}/history', status=200).json['history']
    join, delete = 'reservation.join', 'reservation.delete'
    actions = ['lease.create', *2 * [join, delete], *5 * ['lease.update'], join]
    assert [each['action'] for each in rows if each['user_id']] == actions


def test_servers_that_join_and_leave_do_not_fill_the_history(
    capped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nova may add and remove servers for a member of the project as often as that member asks."""
    monkeypatch.setattr(history, 'MAX_REPEATABLE', 8)
    lease = create(capped, 1, 201)['lease']
    path, service = f'/v1/leases/{lease["id"]}', {'X-Service-Roles': 'service'}
    for _ in range(15):
        answer = world.ask(capped, 'POST', f'{path}/reservations', things(1)[0], service, 201)
        added = answer.json['reservation']['id']
        world.ask(capped, 'DELETE', f'{path}/reservations/{added}', status=204)
    world.ask(capped, 'PUT', path, {'name': 'renamed'}, status=200)
    world.ask(capped, 'POST', f'{path}/reservations', things(1)[0], status=201)
    rows = world.ask(capped, 'GET', f'{path}/history', status=200).json['history']
    repeated = [each for each in rows if each['action'] in history.REPEATABLE]
    assert len(repeated) == 8
    assert [each['reason'] for each in repeated] == 7 * [None] + [history.LAST_REASON]
    others = [each['action'] for each in rows if each not in repeated]
    assert others == ['lease.create', 'lease.update', 'reservation.create']
    # The usage counts reservations, and none of them is missing.
    shown = world.ask(capped, 'GET', path, status=200).json['lease']['reservations']
    assert len(shown) == 16


def test_reservations_of_a_lease_are_limited_however_they_join(capped: Any) -> None:
    body = {'name': 'l', 'start_date': '+1d', 'duration': '1h', 'reservations': things(4)}
    for where in ('/v1/leases', '/v1/leases?dry_run=true'):
        answer = world.ask(capped, 'POST', where, body)
        text = (
            answer.json.get('error_message')
            or answer.json['dry_run']['refusals'][0]['error_message']
        )
        assert text == 'reservations: a lease must have at most 3; a count of 2 counts as 2.'
    body['reservations'] = things(3)
    lease = world.ask(capped, 'POST', '/v1/leases', body, status=201).json['lease']
    path = f'/v1/leases/{lease["id"]}/reservations'
    rejected = world.ask(capped, 'POST', path, things(1)[0], status=400).json
    assert rejected['field'] == 'reservations'
    # What is there already is found, and what has left makes place.
    world.ask(capped, 'POST', path, body['reservations'][0], status=201)
    first = lease['reservations'][0]['id']
    world.ask(capped, 'DELETE', f'{path}/{first}')
    world.wait_for_lease(
        capped, lease['id'], lambda shown: shown['reservations'][0]['status'] == 'deleted'
    )
    world.ask(capped, 'POST', path, things(1)[0], status=201)


def test_events_of_a_lease_are_limited(capped: Any) -> None:
    body = {'name': 'l', 'start_date': '+1d', 'duration': '3h'}
    given = [{'event_type': f'x{each}', 'time': '+25h'} for each in range(3)]
    rejected = world.ask(capped, 'POST', '/v1/leases', {**body, 'events': given}, status=400).json
    assert rejected['error_message'] == 'events: a lease must have at most 2, not 3.'
    body['events'] = given[:2]
    lease = world.ask(capped, 'POST', '/v1/leases', body, status=201).json['lease']
    path = f'/v1/leases/{lease["id"]}'
    rejected = world.ask(capped, 'PUT', path, {'events': given}, status=400).json
    assert rejected['field'] == 'events'
