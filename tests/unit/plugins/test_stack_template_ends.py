# SPDX-License-Identifier: Apache-2.0
"""What keeps a stack of a template at the end of its lease, and what does not."""

import pytest

from tests.unit.plugins.templated import TOO_BIG, Templated, wanted


@pytest.fixture
def templated(stacks):
    made = Templated(stacks)
    yield made
    made.database.dispose()


def held(templated, **values):
    """A lease whose stack is filled."""
    lease_id = templated.made(wanted(**values))
    templated.look_around(5)
    return lease_id


def test_members_of_a_stack_that_is_kept_are_kept(templated):
    lease_id = held(templated, on_end='nothing')
    server = templated.member(lease_id, 'RESERVED')
    templated.time.now = templated.lease(lease_id).start_date
    templated.run_for(lease_id, 'ACTIVE')
    templated.finish(lease_id)
    assert templated.only()['status'] == 'UPDATE_COMPLETE'
    assert templated.server(server) == 'ACTIVE'


def test_a_member_that_is_just_being_made_does_not_keep_the_stack(templated):
    """Its user deletes the lease while the stack is filled."""
    lease_id = templated.made(wanted(on_end='nothing'))
    templated.run()
    templated.member(lease_id, 'BUILD')
    templated.delete_as_alice(lease_id)
    templated.run_for(lease_id, 'TERMINATED')
    assert not templated.state.stacks


def test_a_member_that_was_made_does_not_keep_what_is_taken_back(templated):
    lease_id = templated.made(wanted(template=TOO_BIG, on_end='nothing'))
    templated.member(lease_id, 'BUILD')
    templated.look_around(5)
    assert templated.lease(lease_id).status == 'ERROR'
    assert not templated.state.stacks


def test_the_end_comes_while_it_is_made_at_the_start(templated):
    lease_id = held(templated, hold='start', on_end='nothing')
    templated.time.now = templated.lease(lease_id).start_date
    templated.run_until_idle()
    assert templated.only()['status'] == 'UPDATE_IN_PROGRESS'
    templated.only()['next'] = ['UPDATE_IN_PROGRESS'] * 200
    templated.finish_as_alice(lease_id)
    assert not templated.state.stacks
