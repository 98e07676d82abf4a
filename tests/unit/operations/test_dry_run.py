# SPDX-License-Identifier: Apache-2.0
"""The dry run says what would become of a request, all that is wrong, and writes nothing."""

from typing import Any

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.db import tables
from climate_core.plugins.base import ResourcePlugin
from tests.support.world import Things, Time, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LATER = '2082-12-01 13:00'


def _dry(world: World, *things: str, project: str = 'project1', **values: Any) -> dict[str, Any]:
    body = {'name': 'lease1', 'start_date': 'now', 'end_date': '2082-12-01 14:00', **values}
    body['reservations'] = [world.wanted(t) for t in things]
    return world.operations.check_lease(user(project), body)


def _refused(answer: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(each['error_name'], each.get('field')) for each in answer['refusals']]


def _rows(world: World) -> dict[str, int]:
    with world.database.reader() as session:
        return {
            table.name: session.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in tables.load_metadata().tables.values()
        }


def test_dry_run_of_a_free_lease_is_granted(world: World) -> None:
    assert _dry(world, 'a', 'b', end_date=None, duration='90m') == {
        'granted': True,
        'waits': False,
        'refusals': [],
        'available_from': None,
        'start_date': '2082-12-01T12:00:00.000000',
        'end_date': '2082-12-01T13:30:00.000000',
    }


@pytest.mark.parametrize('many', [1, 50])
def test_it_costs_one_look_and_writes_nothing(world: World, many: int) -> None:
    world.create('held')
    before = _rows(world)
    things = [f'a{n}' for n in range(many)]
    assert len(world.statements(lambda: _dry(world, *things, 'held'))) == 1
    assert _rows(world) == before
    assert world.trusts.made == 1


def test_everything_that_is_wrong_is_said(world: World) -> None:
    holder = world.create('held', name='holder')
    answer = _dry(
        world,
        *('unknown', 'held', 'x', 'x'),
        name='',
        start_date='2082-12-01 11:00',
        events=[{'event_type': 'end_lease', 'time': LATER}],
        before_start=[0],
        webhook={'url': 'http://127.0.0.1', 'secret': 'x' * 16},
    )
    assert not answer['granted']
    assert _refused(answer) == [
        ('request.invalid', 'name'),
        ('request.invalid', 'events[0].event_type'),
        ('request.invalid', 'before_start'),
        ('lease.invalid_webhook', 'webhook.url'),
        ('lease.invalid_date', 'start_date'),
        ('reservation.resource_not_found', 'reservations[0].resource_id'),
        ('request.invalid', 'reservations'),
        ('reservation.resource_reserved', 'reservations[1].resource_id'),
    ]
    assert holder in answer['refusals'][-1]['error_message']
    assert answer['available_from'] is None


@pytest.mark.parametrize('error', [exceptions.ServiceUnavailable, exceptions.Unauthorized])
def test_a_service_that_does_not_answer_is_no_refusal(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(world.things, 'reserve', fail)
    with pytest.raises(error):
        _dry(world, 'a')


@pytest.fixture
def reusable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Things, 'reusable', True)


@pytest.mark.usefixtures('reusable')
def test_when_it_would_be_granted(world: World, time: Time) -> None:
    world.create('a', name='first', end='2082-12-01 13:00')
    world.create('b', name='second', end='2082-12-01 15:00')
    # With an end date it is the start for the same duration, as in the refusals.
    answer = _dry(world, 'a', end_date='2082-12-01 12:30')
    assert answer['available_from'] == '2082-12-01T13:00:00.000000'
    later = {'end_date': None, 'duration': '1h'}
    assert _dry(world, 'a', **later)['available_from'] == '2082-12-01T13:00:00.000000'
    assert _dry(world, 'a', 'b', 'c', **later)['available_from'] == '2082-12-01T15:00:00.000000'
    time.forward(hours=1)
    world.run_until_idle()
    assert _dry(world, 'a', **later)['granted']


@pytest.mark.usefixtures('reusable')
@pytest.mark.parametrize(
    'values',
    [
        # Something else is wrong as well.
        {'name': '', 'end_date': None, 'duration': '1h'},
        # What other projects do is not told.
        {'project': 'project2', 'end_date': None, 'duration': '1h'},
    ],
)
def test_when_waiting_does_not_help(world: World, values: dict[str, Any]) -> None:
    world.create('a', name='first', end='2082-12-01 13:00')
    answer = _dry(world, 'a', **values)
    assert (answer['granted'], answer['available_from']) == (False, None)


def test_what_goes_with_its_lease_is_never_available() -> None:
    assert not ResourcePlugin.reusable


def test_an_id_that_is_taken(world: World, time: Time) -> None:
    world.create('a', id=ID)
    assert _dry(world, 'a', 'b', id=ID)['granted']
    world.run_until_idle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.things, 'reserve', None)
        assert _dry(world, 'a', id=ID)['granted']
    assert _refused(_dry(world, 'b', id=ID, name='x')) == [('lease.conflict', 'id')]
    assert _refused(_dry(world, 'b', id=ID, project='project2')) == [('lease.conflict', 'id')]
    world.create('c', name='other')
    assert _refused(_dry(world, 'a', 'c', id=ID)) == [
        ('reservation.resource_reserved', 'reservations[1].resource_id')
    ]
    assert len(world.lease(ID).reservations) == 1
    world.delete(ID)
    assert _refused(_dry(world, 'b', id=ID)) == [('lease.invalid_state', None)]
    assert _dry(world, 'a', id=ID)['granted']


def test_an_id_of_another_project_tells_nothing_of_its_lease(world: World) -> None:
    world.create('a', id=ID)
    world.run_until_idle()
    world.remove(ID, 'a')
    answer = _dry(world, 'a', id=ID, project='project2')
    assert _refused(answer) == [('lease.conflict', 'id')]


def test_a_key_that_was_used(world: World) -> None:
    body = {
        'name': 'n',
        'duration': 60,
        'idempotency_key': 'k',
        'reservations': [world.wanted('a')],
    }
    assert world.operations.check_lease(user(), body)['granted']

    world.operations.creator.create_lease(user(), body)
    assert world.operations.check_lease(user(), body)['granted']
    other = world.operations.check_lease(user(), body | {'name': 'x'})
    assert _refused(other) == [('lease.idempotency_conflict', 'Idempotency-Key')]
