# SPDX-License-Identifier: Apache-2.0
"""Reserved stacks of which something cannot start, is broken off, or finds no room."""

import os
import signal

import pytest

from tests.cloud.people import cloud, pid, wait_for
from tests.cloud.stacking import Stacking
from tests.cloud.templates import PAIR, SIGNALS

SERVER = 'OS::Nova::Server'


def test_what_is_awake_stays_and_the_rest_is_tried_again(stacks: Stacking) -> None:
    lease_id = stacks.lease()
    stack_id = stacks.create(PAIR, lease_id)
    second = stacks.id_of(stack_id, 'second')
    with stacks.locked(second):
        stacks.person.leases.update(lease_id, start='now')
        lease = stacks.wait_trouble(lease_id, f'{second} is locked')
        stacks.wait_servers(stack_id, 'ACTIVE', 'RESERVED')
        stack = stacks.wait(stack_id, 'UPDATE_FAILED')
        assert f'{second} is locked' in stack['stack_status_reason']
        assert lease.status == 'STARTING'
    lease = stacks.wait_lease(lease_id, 'ACTIVE')
    assert lease.status_reason is None
    assert stacks.servers(stack_id) == ['ACTIVE'] * 2
    compute = stacks.person.sdk.compute
    woken = [each.action for each in compute.server_actions(stacks.id_of(stack_id, 'first'))]
    assert woken.count('wake_up') == 1


def test_signals_are_waited_for_also_after_a_wake_up_that_was_cancelled(
    stacks: Stacking,
) -> None:
    """Wait conditions and deployments are complete in their sleep, and done at the start."""
    lease_id = stacks.lease()
    stack_id = stacks.create(SIGNALS, lease_id)
    assert stacks.outputs(stack_id) == {'word': None}
    stacks.person.leases.update(lease_id, start='now')
    stacks.wait_resource(stack_id, 'ready', 'UPDATE_IN_PROGRESS')
    stacks.act(stack_id, 'cancel_without_rollback')
    stacks.wait_trouble(lease_id, 'cancelled')
    assert stacks.servers(stack_id) == ['ACTIVE', 'RESERVED']

    answer(stacks, stack_id)
    stacks.wait_lease(lease_id, 'ACTIVE')
    assert stacks.outputs(stack_id) == {'word': 'ready'}
    second = stacks.person.sdk.compute.get_server(stacks.id_of(stack_id, 'second'))
    assert (second.status, second.metadata) == ('ACTIVE', {'word': 'ready'})
    assert stacks.wake_ups(stack_id) == [1, 1]


def answer(stacks: Stacking, stack_id: str) -> None:
    """Say what an agent in the first server would; nothing runs in a fake hypervisor."""
    stacks.wait_resource(stack_id, 'ready', 'UPDATE_IN_PROGRESS')
    stacks.signal(stack_id, 'handle')
    wait_for(lambda: stacks.id_of(stack_id, 'deployment'), 'the deployment is given')
    stacks.signal(stack_id, 'deployment', word='ready', deploy_status_code=0)


@pytest.mark.alone
def test_an_engine_that_is_killed_during_the_wake_up(stacks: Stacking) -> None:
    """Another one takes over when it is asked: by the user here, in ten minutes by the lease."""
    lease_id = stacks.lease()
    stack_id = stacks.create(SIGNALS, lease_id)
    stacks.person.leases.update(lease_id, start='now')
    stacks.wait_resource(stack_id, 'ready', 'UPDATE_IN_PROGRESS')
    try:
        # Its workers with it.
        os.killpg(pid('heat-engine'), signal.SIGKILL)
    finally:
        cloud('restart', 'heat-engine')
    assert stacks.look(stack_id)['stack_status'] == 'UPDATE_IN_PROGRESS'
    assert stacks.servers(stack_id) == ['ACTIVE', 'RESERVED']
    stacks.patch(stack_id)
    answer(stacks, stack_id)
    stacks.wait_lease(lease_id, 'ACTIVE')
    assert stacks.look(stack_id)['stack_status'] == 'UPDATE_COMPLETE'
    assert stacks.wake_ups(stack_id) == [1, 1]
