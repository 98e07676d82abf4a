# SPDX-License-Identifier: Apache-2.0
"""A manager dies on the way of a stack that is made from a template for its lease."""

import dataclasses
import datetime
import json

import pytest

from climate_core.lease import changes, model
from climate_core.lease.events import preparation, schedule
from climate_core.lease.request import RequestRules
from climate_core.plugins.stack_templates import UNFILLED
from tests.kill.deaths import EVENT, check_no_error
from tests.support.databases import ENGINES
from tests.support.fakes import leases
from tests.support.stacks import EMPTY

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
HALF_AN_HOUR = datetime.timedelta(minutes=30)
SERVERS = {name: {'type': 'OS::Nova::Server'} for name in ('a', 'b')}
REQUEST = {
    'id': ID,
    'name': 'lease1',
    'start_date': '2099-01-01 10:00',
    'duration': '1h',
    'reservations': [
        {
            'resource_type': 'virtual:stack',
            'name': 'web',
            'template': {**EMPTY, 'resources': SERVERS},
        }
    ],
}


def placeholder(stage, resources, hold='now', starts=False, lead=None):
    """Return a lease that was just written, with its placeholder: of now, or half an hour later.

    :param lead: it is scheduled, and filled so long before its start
    """
    lease = leases.make(stage.database, [], stage.cloud.trust())
    (made,) = stage.cloud.order(
        'stacks',
        [
            {
                'template': EMPTY,
                'files': {'climate:template': json.dumps({**EMPTY, 'resources': resources})},
                'tags': [UNFILLED, lease.id],
            }
        ],
    )
    now = lease.start_date
    start = now if starts else now + HALF_AN_HOUR
    params = {'name': 'web', 'hold': hold, 'on_end': 'delete'}
    reservation = model.new_reservation(lease.id, 'virtual:stack', made['id'], params, now)
    lease = dataclasses.replace(
        lease,
        start_date=start,
        kind='immediate' if lead is None else 'scheduled',
        reservations=(reservation,),
    )
    lease = dataclasses.replace(lease, events=schedule.first_events(lease, (), now))
    preparing = {reservation.id: lead} if hold == 'now' else {}
    return leases.write(stage.database, preparation.add_preparations(lease, preparing, now)), made[
        'id'
    ]


def prepared(lease):
    (event,) = [each for each in lease.events if each.event_type == model.PREPARE]
    return event.status


def servers(stage):
    """Return what was made and woken in the stack, each server once."""
    journal = stage.cloud.journal()
    ids = [each['id'] for each in journal if each['what'] == 'server create']
    woken = [each['id'] for each in journal if each['what'] == 'woken by heat']
    assert sorted(woken) in ([], sorted(ids))
    return len(ids), len(woken)


def test_between_the_placeholder_and_the_lease(stage):
    """The request is repeated: it finds the placeholder."""
    stage.request(REQUEST, 'make.after:lease.create:1').dies()
    assert stage.made('stack create') == 1
    stage.request(REQUEST).ends()
    assert stage.made('stack create') == 1
    lease = leases.read(stage.database, ID)
    stage.manager()
    stage.until(lambda: prepared(stage.lease(lease)) == 'DONE')
    assert servers(stage) == (2, 0)


def test_a_placeholder_that_nobody_asks_for_again(stage):
    """An operator finds it and has it deleted."""
    stage.request(REQUEST, 'make.after:lease.create:1').dies()
    (stack_id,) = [e['id'] for e in stage.cloud.journal() if e['what'] == 'stack create']
    assert list(stage.orphans('virtual:stack')) == [stack_id]
    stage.discard('virtual:stack', stack_id)
    assert stage.cloud.effects()[stack_id] == ['delete']


def move_start(stage, lease, date):
    rules = RequestRules(late_start_seconds=0)
    leases.change(
        stage.database,
        lease.id,
        lambda found, now: changes.update_lease(found, {'start_date': date}, now, rules),
    )


@pytest.mark.parametrize('look', [1, 2])
@pytest.mark.parametrize('lead', [None, HALF_AN_HOUR], ids=['immediate', 'scheduled'])
@pytest.mark.parametrize('point', EVENT)
def test_killed_preparation_fills_the_stack_once(stage, point, lead, look):
    """Between the lease and the filling, and in the midst of it."""
    lease, stack_id = placeholder(stage, SERVERS, lead=lead)

    stage.survive(f'{point}:prepare_reservation:{look}')
    stage.until(lambda: prepared(stage.lease(lease)) == 'DONE')
    assert servers(stage) == (2, 0)
    assert stage.cloud.effects()[stack_id] == ['update']

    move_start(stage, lease, 'now')
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    assert servers(stage) == (2, 2)


@pytest.mark.parametrize('point', EVENT)
def test_scheduled_stack_is_filled_when_its_start_comes_near(stage, point):
    lead = datetime.timedelta(minutes=5)
    lease, stack_id = placeholder(stage, SERVERS, lead=lead)
    (event,) = lease.events_of(model.PREPARE)
    assert event.time == lease.start_date - lead
    near = lease.start_date - HALF_AN_HOUR + lead
    move_start(stage, lease, near.isoformat())

    stage.survive(f'{point}:prepare_reservation:1')
    stage.until(lambda: prepared(stage.lease(lease)) == 'DONE')
    assert stage.lease(lease).status == 'PENDING'
    assert servers(stage) == (2, 0)
    assert stage.cloud.effects()[stack_id] == ['update']


@pytest.mark.parametrize('look', [1, 2])
@pytest.mark.parametrize('hold', ['now', 'start'])
@pytest.mark.parametrize('point', EVENT)
def test_filling_at_the_start(stage, point, hold, look):
    lease, stack_id = placeholder(stage, SERVERS, hold, starts=True)

    stage.survive(f'{point}:start_lease:{look}')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')

    check_no_error(stage.lease(lease))
    assert servers(stage) == (2, 2 if hold == 'now' else 0)
    assert set(stage.cloud.effects()[stack_id]) == {'update'}


@pytest.mark.parametrize(
    ('point', 'look'),
    # The second call fails, so it has no point after it.
    [
        (point, look)
        for point in EVENT
        for look in (2, 3, 4)
        if (point, look) != ('remote.after', 4)
    ],
)
def test_taking_back_what_finds_no_room(stage, point, look):
    lease, stack_id = placeholder(stage, {**SERVERS, 'none': {'type': 'OS::Nova::Server'}})

    stage.survive(f'{point}:prepare_reservation:{look}')
    stage.until(lambda: prepared(stage.lease(lease)) == 'ERROR')

    after = stage.lease(lease)
    assert after.status == 'ERROR'
    assert 'No valid host' in after.reservations[0].status_reason
    assert stage.cloud.effects()[stack_id] == ['update', 'delete']
    assert stage.made('stack gone') == 1


@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_a_death_at_every_remote_call(stage):
    """One manager after the other dies after a call, and leaves its claims behind."""
    lease, stack_id = placeholder(stage, SERVERS)
    for _ in range(2):
        stage.manager('remote.after:prepare_reservation:1', claims_expire=False).dies()
    stage.manager(claims_expire=False)
    stage.until(lambda: prepared(stage.lease(lease)) == 'DONE')
    assert servers(stage) == (2, 0)
    assert stage.cloud.effects()[stack_id] == ['update']
