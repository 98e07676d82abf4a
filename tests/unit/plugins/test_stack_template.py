# SPDX-License-Identifier: Apache-2.0
"""Stacks of templates from one end of their lease to the other."""

import pytest

from climate_core import exceptions
from climate_core.lease import model, views
from climate_core.plugins.stack_templates import FILLED, UNFILLED
from climate_core.repair import reconciliation
from tests.support.kinds import kind_cell
from tests.unit.plugins.templated import TOO_BIG, wanted

ASLEEP = ['lease-reserved', 'RESERVED']
AWAKE = ['available', 'ACTIVE']


def test_what_a_lease_is_made_with(templated):
    lease_id = templated.made(wanted(files={'init.sh': 'true'}))
    stack, lease = templated.only(), templated.lease(lease_id)
    (reservation,) = lease.reservations
    assert reservation.resource_id == stack['id']
    assert views.visible_params(reservation) == {'name': 'web', 'hold': 'now', 'on_end': 'delete'}
    assert reservation.amounts == {'stacks': 1}
    assert stack['stack_name'] == 'web'
    assert 'resources' not in stack['template']
    assert stack['creds'] == 'alice-id'
    assert set(stack['tags']) > {UNFILLED, lease_id}
    assert stack['files']['init.sh'] == 'true'
    assert templated.members() == []


@kind_cell('New stacks', 'immediate')
def test_stack_of_a_template_has_its_whole_life(templated):
    lease_id = templated.held()
    stack, lease = templated.only(), templated.lease(lease_id)
    assert templated.members() == ASLEEP
    assert (lease.status, lease.status_reason) == ('PENDING', None)
    assert lease.reservations[0].status == 'pending'
    assert templated.prepared(lease.id).status == 'DONE'
    assert stack['tags'] == [FILLED]
    assert stack['environment']['parameter_defaults'] == {'climate_lease_id': lease_id}
    assert stack['parameters'] == {'flavor': 'small', 'key': 'secret'}
    assert stack['creds'] == 'alice-id'

    templated.begin(lease_id)
    assert templated.members() == AWAKE
    templated.finish(lease_id)
    assert not templated.state.stacks
    assert templated.members() == []
    assert templated.asked() == ['stack create', 'update', 'update', 'delete']


@pytest.mark.parametrize('written', ['yaml', 'json'])
def test_a_template_that_is_a_text(templated, written):
    texts = {
        'yaml': 'heat_template_version: 2021-04-16\nresources: {a: {type: OS::Nova::Server}}\n',
        'json': '{"heat_template_version": "2021-04-16",\n\t"resources":\n'
        '\t{"a": {"type": "OS::Nova::Server"}}}',
    }
    templated.held(template=texts[written], parameters={})
    assert templated.members() == ['RESERVED']


def test_made_at_the_start(templated):
    lease_id = templated.held(hold='start')
    assert templated.members() == []
    assert all(each.event_type != model.PREPARE for each in templated.lease(lease_id).events)
    templated.begin(lease_id)
    assert templated.members() == AWAKE
    assert templated.only()['environment']['parameter_defaults'] == {}
    templated.finish(lease_id)
    assert templated.members() == []


def test_what_ran_is_kept_by_its_end_action(templated):
    lease_id = templated.held(hold='start', on_end='suspend')
    templated.begin(lease_id)
    templated.finish(lease_id)
    assert templated.only()['status'] == 'SUSPEND_COMPLETE'


def test_made_at_the_start_without_room(templated):
    lease_id = templated.held(hold='start', template=TOO_BIG, on_end='nothing')
    templated.begin(lease_id, looks=10)
    lease = templated.lease(lease_id)
    assert lease.status == 'STARTING'
    assert 'No valid host' in lease.status_reason
    templated.only()['template']['resources'].pop('none')
    templated.run_for(lease_id, 'ACTIVE')


def test_the_end_of_what_was_never_made(templated):
    lease_id = templated.held(hold='start', template=TOO_BIG, on_end='nothing')
    templated.begin(lease_id, looks=10)
    templated.finish(lease_id)
    assert not templated.state.stacks


@pytest.mark.parametrize('hold', ['now', 'start'])
def test_a_lease_that_starts_now(templated, hold):
    lease_id = templated.made(wanted(hold=hold), start='now')
    assert all(each.event_type != model.PREPARE for each in templated.lease(lease_id).events)
    templated.run_for(lease_id, 'ACTIVE')
    assert templated.members() == AWAKE


def test_the_start_comes_before_it_is_filled(templated):
    lease_id = templated.made(wanted())
    templated.begin(lease_id)
    lease = templated.lease(lease_id)
    assert templated.members() == AWAKE
    assert templated.prepared(lease.id).status == 'DONE'
    assert lease.status_reason is None


def test_stack_without_room_is_in_error_and_leaves_nothing(templated):
    lease_id = templated.held(template=TOO_BIG, on_end='nothing')
    lease = templated.lease(lease_id)
    (reservation,) = lease.reservations
    assert (lease.status, reservation.status) == ('ERROR', 'error')
    assert 'No valid host was found' in reservation.status_reason
    assert reservation.status_reason in lease.status_reason
    assert not templated.state.stacks
    assert templated.members() == []
    assert templated.prepared(lease.id).status == 'ERROR'
    assert 'lease.update' in templated.told()
    # Its time comes, and there is still nothing.
    templated.time.now = lease.start_date
    templated.run_until_idle()
    assert templated.lease(lease_id).status == 'ERROR'
    templated.finish(lease_id)


@pytest.mark.parametrize('hold', ['now', 'start'])
def test_nothing_that_could_be_held(templated, hold):
    template = {**TOO_BIG, 'resources': {}}
    lease_id = templated.held(template=template, hold=hold)
    lease = templated.lease(lease_id)
    if hold == 'start':
        assert (lease.status, lease.status_reason) == ('PENDING', None)
        return
    assert lease.status == 'ERROR'
    assert 'no server and no volume' in lease.reservations[0].status_reason
    assert not templated.state.stacks


def test_what_its_user_made_of_it_is_not_deleted(templated):
    """Its user replaced it all, tags included, so it is not what the lease asked for."""
    lease_id = templated.made(wanted())
    templated.only()['tags'] = []
    templated.look_around(3)
    assert templated.lease(lease_id).status == 'PENDING'
    assert templated.only()['status'] == 'CREATE_COMPLETE'


def test_no_room_and_heat_cannot_delete_it_at_once(templated):
    lease_id = templated.made(wanted(template=TOO_BIG))
    templated.only()['delete_failures'] = 2
    templated.look_around(20)
    assert not templated.state.stacks
    assert 'No valid host' in templated.lease(lease_id).reservations[0].status_reason


def test_another_try_in_the_same_lease(templated):
    """The name is free again; what failed is taken out, and the lease is well."""
    lease_id = templated.held(template=TOO_BIG)
    templated.joined(lease_id)
    templated.look_around(5)
    assert templated.members() == ASLEEP
    assert templated.lease(lease_id).status == 'ERROR'
    templated.taken_out(lease_id)
    templated.look_around(2)
    lease = templated.lease(lease_id)
    assert (lease.status, lease.status_reason) == ('PENDING', None)
    assert [each.status for each in lease.reservations] == ['deleted', 'pending']
    templated.begin(lease_id)
    assert templated.members() == AWAKE


def test_what_is_told_gone_of_what_was_taken_back(templated):
    """Heat tells that it has deleted the stack."""
    lease_id = templated.held(template=TOO_BIG)
    before = templated.lease(lease_id)
    reconciliation.mark_lost(templated.database, lease_id, {before.reservations[0].id: 'gone'})
    assert templated.lease(lease_id) == before


def test_a_user_deletes_the_placeholder(templated):
    lease_id = templated.made(wanted())
    templated.state.drop('stacks', templated.only()['id'], {'what': 'stack lost', 'id': 'x'})
    templated.look_around(3)
    assert templated.lease(lease_id).reservations[0].status == 'error'
    templated.finish(lease_id)


@pytest.mark.parametrize('looks', [0, 1])
@pytest.mark.parametrize('on_end', ['delete', 'nothing', 'snapshot'])
def test_a_lease_that_is_deleted_before_it_is_filled(templated, looks, on_end):
    """Also in the middle of the filling: what it makes is not kept."""
    lease_id = templated.made(wanted(on_end=on_end))
    for _ in range(looks):
        templated.run()
    templated.delete_as_alice(lease_id)
    templated.run_for(lease_id, 'TERMINATED')
    assert not templated.state.stacks
    assert templated.members() == []


def test_it_is_taken_out_before_it_is_filled(templated):
    lease_id = templated.made(wanted())
    templated.taken_out(lease_id)
    templated.look_around(5)
    assert not templated.state.stacks
    assert templated.asked() == ['stack create', 'delete']
    assert templated.lease(lease_id).live == ()


def test_heat_is_away_for_a_while(templated):
    lease_id = templated.made(wanted())
    templated.stacks.fault('PATCH', '/heat/', 503, 3)
    templated.run_until_idle()
    lease = templated.lease(lease_id)
    assert (lease.status, lease.reservations[0].status) == ('PENDING', 'pending')
    assert '503' in lease.status_reason
    templated.look_around(10)
    assert templated.members() == ASLEEP
    assert templated.lease(lease_id).status_reason is None


def test_the_answer_to_the_filling_is_lost(templated):
    lease_id = templated.made(wanted())
    templated.stacks.fault('PATCH', '/heat/', 504, after=True)
    templated.look_around(10)
    assert templated.members() == ASLEEP
    assert templated.asked() == ['stack create', 'update']
    assert templated.prepared(lease_id).status == 'DONE'


def test_heat_finds_a_mistake_later(templated):
    """As if an image was deleted after the preview."""
    lease_id = templated.made(wanted())
    templated.stacks.fault('PATCH', '/heat/', 400)
    templated.look_around(5)
    assert templated.lease(lease_id).status == 'ERROR'
    assert not templated.state.stacks


def test_an_engine_dies_while_it_fills(templated):
    lease_id = templated.made(wanted())
    templated.run()
    templated.only()['next'] = ['UPDATE_IN_PROGRESS'] * 200
    templated.look_around(100)
    assert templated.asked() == ['stack create', 'update', 'update']
    assert templated.members() == ASLEEP
    assert templated.prepared(lease_id).status == 'DONE'


def test_what_is_taken_over_before_the_start_wakes_nothing(templated):
    lease_id = templated.made(wanted())
    templated.run()
    templated.only()['next'] = ['UPDATE_IN_PROGRESS'] * 200
    while templated.asked().count('update') < 2:
        templated.look_around(1)
    templated.only()['next'] = ['UPDATE_IN_PROGRESS', 'UPDATE_COMPLETE']
    templated.begin(lease_id)
    assert templated.asked() == ['stack create', 'update', 'update', 'update']
    assert templated.members() == AWAKE


def test_an_engine_dies_and_heat_answers_slowly(templated):
    """It is not asked again at each look, for that would begin anew each time."""
    lease_id = templated.made(wanted())
    templated.run()
    templated.only()['next'] = ['UPDATE_IN_PROGRESS'] * 2000
    templated.stacks.fault('PATCH', '/heat/', 504, 100)
    templated.look_around(300)
    sent = [each for each in templated.state.requests if each[0] == 'PATCH']
    assert 1 < len(sent) < 6
    assert templated.lease(lease_id).status == 'PENDING'


def test_a_user_who_starts_it_himself(templated):
    """Filled though its time is past, and not woken before it is started."""
    lease_id = templated.made(wanted(), start_policy='manual')
    templated.begin(lease_id, looks=3)
    assert templated.members() == ASLEEP
    templated.start_as_alice(lease_id)
    templated.run_for(lease_id, 'ACTIVE')
    assert templated.members() == AWAKE


def test_a_user_starts_what_failed_in_part(templated):
    lease_id = templated.made(
        wanted(template=TOO_BIG), wanted(name='other'), start_policy='manual'
    )
    templated.look_around(5)
    assert templated.lease(lease_id).status == 'ERROR'
    templated.begin(lease_id, looks=2)
    assert templated.members() == ASLEEP
    templated.start_as_alice(lease_id)
    templated.look_around(5)
    assert templated.members() == AWAKE
    assert [each.status for each in templated.lease(lease_id).reservations] == ['error', 'active']


def test_what_failed_is_taken_out_long_before_the_start(templated):
    """The rest is not started by that."""
    lease_id = templated.made(wanted(template=TOO_BIG), wanted(name='other'))
    templated.look_around(5)
    templated.taken_out(lease_id)
    templated.look_around(5)
    assert templated.lease(lease_id).status == 'PENDING'
    assert templated.members() == ASLEEP


def test_a_failed_lease_cannot_be_moved(templated):
    lease_id = templated.held(template=TOO_BIG)
    with pytest.raises(exceptions.InvalidState, match='the lease is ERROR'):
        templated.move_as_alice(lease_id, start_date='2082-12-01 13:30')


def test_two_stacks_of_templates_share_a_lease(templated):
    lease_id = templated.made(wanted())
    reservation_id = templated.joined(lease_id, name='db')
    assert templated.joined(lease_id, name='db') == reservation_id
    templated.look_around(5)
    assert templated.members() == ASLEEP[:1] * 2 + ASLEEP[1:] * 2
    assert len(templated.state.stacks) == 2


def test_joining_a_lease_that_has_started(templated):
    lease_id = templated.made(wanted(), start='now')
    templated.run_for(lease_id, 'ACTIVE')
    templated.joined(lease_id, name='db')
    templated.look_around(5)
    assert set(templated.members()) == set(AWAKE)
    assert [e for e in templated.lease(lease_id).events if e.event_type == model.PREPARE] == []


def test_calls_do_not_grow_with_the_cloud(templated):
    """Making it, each look, the wake-up and the end."""
    costs = []
    for others in (0, 30):
        for number in range(others):
            templated.made(wanted(name=f'other-{number}'), start='2082-12-01 13:55')
        templated.look_around(5)
        with templated.stacks.counted() as sent:
            lease_id = templated.made(wanted(name=f'web-{others}'))
            templated.look_around(5)
            templated.time.now = templated.lease(lease_id).start_date
            templated.run_for(lease_id, 'ACTIVE')
            templated.finish_as_alice(lease_id)
        costs.append([line.split()[0] for line in sent if '/heat/' in line])
        templated.time.now = templated.lease(lease_id).created_at
    assert costs[0] == costs[1]
    # The preview and the placeholder; the filling and two looks; the wake-up; the end.
    assert costs[0][:2] == ['POST', 'POST']
    assert costs[0].count('PATCH') == 2


def test_members_of_a_stack_that_is_kept_are_kept(templated):
    lease_id = templated.held(on_end='nothing')
    server = templated.member(lease_id, 'RESERVED')
    templated.begin(lease_id)
    templated.finish(lease_id)
    assert templated.only()['status'] == 'UPDATE_COMPLETE'
    assert templated.server(server) == 'ACTIVE'


def test_the_end_comes_while_it_is_made_at_the_start(templated):
    lease_id = templated.held(hold='start', on_end='nothing')
    templated.time.now = templated.lease(lease_id).start_date
    templated.run_until_idle()
    assert templated.only()['status'] == 'UPDATE_IN_PROGRESS'
    templated.only()['next'] = ['UPDATE_IN_PROGRESS'] * 200
    templated.finish_as_alice(lease_id)
    assert not templated.state.stacks
