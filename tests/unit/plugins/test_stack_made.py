# SPDX-License-Identifier: Apache-2.0
"""Stacks of templates whose members are reservations of their lease, and failed fillings."""

import pytest

from climate_core.lease.events import preparation
from tests.unit.plugins.templated import TOO_BIG, wanted

KEPT = ('suspend', 'snapshot', 'nothing')


def filling(templated, **values):
    """Return a lease whose stack is being filled."""
    lease_id = templated.made(wanted(**values))
    templated.run()
    assert templated.only()['status'] == 'UPDATE_IN_PROGRESS'
    return lease_id


def break_off(templated, lease_id, ask):
    user = templated.stacks.user()
    if ask == 'delete':
        templated.operations.delete_lease(user, lease_id)
    elif ask == 'end':
        templated.operations.end_lease(user, lease_id)
    else:
        held = templated.reservation(lease_id, templated.only()['id'])
        templated.operations.remove_reservation(user, lease_id, held.id)


def failed(templated, lease_id):
    """Tell whether the stack could not be held, and nothing of it is left."""
    return templated.lease(lease_id).status == 'ERROR' and not templated.state.stacks


@pytest.mark.parametrize('on_end', KEPT)
@pytest.mark.parametrize('status', ['BUILD', 'ERROR'])
@pytest.mark.parametrize('ask', ['delete', 'end', 'remove'])
def test_what_is_broken_off_is_not_kept(templated, ask, status, on_end):
    """Whatever became of its members by then."""
    lease_id = filling(templated, on_end=on_end)
    templated.member(lease_id, status)
    break_off(templated, lease_id, ask)
    templated.look_around(5)
    assert not templated.state.stacks
    assert 'suspend' not in templated.asked()


@pytest.mark.parametrize('on_end', KEPT)
@pytest.mark.parametrize('status', ['BUILD', 'ERROR'])
def test_what_is_taken_back_is_not_kept(templated, status, on_end):
    lease_id = filling(templated, template=TOO_BIG, on_end=on_end)
    templated.member(lease_id, status)
    templated.look_around(5)
    assert failed(templated, lease_id)
    assert 'suspend' not in templated.asked()


def test_what_woke_half_way_is_kept(templated):
    """The start came before it was filled; one of its servers may hold data by now."""
    lease_id = filling(templated, on_end='suspend')
    server = templated.member(lease_id, 'ACTIVE')
    stack = templated.only()
    stack.update(update_failures=1000, next=[*[stack['status']] * 3, 'UPDATE_FAILED'])
    templated.begin(lease_id, looks=5)
    lease = templated.lease(lease_id)
    assert (lease.status, lease.reservations[0].woken_at) == ('STARTING', None)
    assert templated.prepared(lease_id).status_reason == preparation.START_FIRST
    templated.finish(lease_id)
    assert templated.only()['status'] == 'SUSPEND_COMPLETE'
    assert templated.server(server) == 'SUSPENDED'


def test_a_stack_that_heat_rolled_back_is_not_held(templated):
    lease_id = filling(templated)
    templated.only()['next'] = ['ROLLBACK_IN_PROGRESS', 'ROLLBACK_COMPLETE']
    templated.look_around(5)
    assert failed(templated, lease_id)
    assert templated.prepared(lease_id).status == 'ERROR'


@pytest.mark.parametrize('status', ['DELETE_FAILED', 'DELETE_IN_PROGRESS'])
def test_a_placeholder_that_its_user_deletes_is_not_filled(templated, status):
    lease_id = templated.made(wanted())
    templated.only().update(status=status, next=[status] * 999)
    with templated.stacks.counted() as sent:
        templated.look_around(50 if status == 'DELETE_IN_PROGRESS' else 1)
    assert not [line for line in sent if line.startswith('PATCH')]
    templated.only()['next'] = ['DELETE_FAILED']
    templated.look_around(5)
    assert failed(templated, lease_id)


def test_a_placeholder_that_its_user_deletes_while_it_is_filled(templated):
    lease_id = templated.made(wanted())
    deleting = ['DELETE_IN_PROGRESS'] * 3
    templated.only().update(next=['CREATE_COMPLETE', *deleting, 'DELETE_COMPLETE'])
    templated.stacks.fault('PATCH', '/heat/', 400)
    templated.look_around(30)
    lease = templated.lease(lease_id)
    assert lease.status == 'ERROR'
    assert 'deleted' in lease.status_reason


def test_a_deletion_of_a_placeholder_that_is_lost_is_asked_for_again(templated):
    lease_id = templated.made(wanted())
    templated.only().update(status='DELETE_IN_PROGRESS', next=['DELETE_IN_PROGRESS'] * 999)
    templated.look_around(40)
    assert 'It counts as lost after 10 minutes' in templated.lease(lease_id).status_reason
    with templated.stacks.counted() as sent:
        templated.look_around(30)
    assert [line for line in sent if line.startswith('DELETE')]
    assert failed(templated, lease_id)


def test_heat_is_busy_with_the_placeholder(templated):
    """That is no trouble of anybody's."""
    lease_id = templated.made(wanted())
    templated.stacks.fault('PATCH', '/heat/', 409)
    templated.run()
    lease = templated.lease(lease_id)
    assert (lease.status, lease.status_reason) == ('PENDING', None)
    assert templated.prepared(lease_id).attempts == 0
    assert templated.asked() == ['stack create']
    templated.look_around(5)
    assert templated.members() == ['lease-reserved', 'RESERVED']


def test_a_filling_that_fails_at_the_start_is_told_before_the_next_try(templated):
    lease_id = templated.made(wanted(hold='start', template=TOO_BIG))
    templated.time.now = templated.lease(lease_id).start_date
    templated.run_until_idle()
    templated.time.forward(seconds=1)
    templated.run_until_idle()
    assert templated.asked() == ['stack create', 'update']
    assert 'No valid host' in templated.lease(lease_id).status_reason
