# SPDX-License-Identifier: Apache-2.0
"""Reserved stacks with the real Heat: convergence, trusts, and the templates of the documents."""

import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.cloud.people import at
from tests.cloud.reserving import RESERVED
from tests.cloud.stacking import Stacking
from tests.cloud.templates import SLOW, TEMPLATES, documented


def test_an_environment_reserves_a_template_as_it_is(
    stacks: Stacking, tmp_path: pathlib.Path, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """The main job: asleep as a whole, awake in order, gone as a whole."""
    lease_id = stacks.lease()
    name = f'test-{uuid.uuid4().hex[:8]}'
    done = stacks.person.cli(
        *('openstack', 'stack', 'create', '-t', str(TEMPLATES / 'working-group.yaml')),
        *('-e', str(stacks.write(tmp_path, lease_id)), '--wait', name),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    stack_id = stacks.heat.get(f'/stacks/{name}').json()['stack']['id']
    stacks.stacks.append(stack_id)

    assert stacks.servers(stack_id) == ['RESERVED'] * 3
    assert stacks.volumes(stack_id) == [RESERVED]
    servers = stacks.ids(stack_id, 'OS::Nova::Server')
    assert all(allocations(each) for each in servers)
    outputs = stacks.outputs(stack_id)
    assert outputs['front']
    assert len(set(outputs['workers'])) == 2
    held = stacks.person.leases.get(lease_id).reservations
    assert sorted(each.resource_type for each in held) == [
        'virtual:instance',
        'virtual:instance',
        'virtual:instance',
        'virtual:stack',
        'virtual:volume',
    ]

    stacks.start(lease_id)
    assert stacks.look(stack_id)['stack_status'] == 'UPDATE_COMPLETE'
    assert stacks.servers(stack_id) == ['ACTIVE'] * 3
    awake = stacks.updated(stack_id)
    assert awake.index('disk') < awake.index('front') < awake.index('group')
    assert stacks.outputs(stack_id) == {**outputs, 'disk': 'in-use'}

    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
    assert not any(allocations(each) for each in servers)
    assert stacks.trouble(lease_id) == []


def test_a_lease_in_the_template(stacks: Stacking) -> None:
    """It ends with the stack that has it, and the attachment waited for the start."""
    text = documented('with-lease')
    stack_id = stacks.create(text, start=at(hours=1), end=at(hours=2))
    lease_id = stacks.outputs(stack_id)['lease']
    assert stacks.outputs(stack_id)['lease_status'] == 'PENDING'
    assert (stacks.servers(stack_id), stacks.volumes(stack_id)) == (['RESERVED'], [RESERVED])

    stacks.start(lease_id)
    assert (stacks.servers(stack_id), stacks.volumes(stack_id)) == (['ACTIVE'], ['in-use'])
    assert stacks.outputs(stack_id)['lease_status'] == 'ACTIVE'

    stacks.person.leases.end(lease_id)
    stacks.wait_gone(stack_id)
    # Heat has deleted the lease with its stack.
    ended = stacks.wait_deleted(lease_id)
    assert {each.status for each in ended.reservations} == {'deleted'}


def test_members_come_and_go_before_and_after_the_start(stacks: Stacking) -> None:
    lease_id = stacks.lease()
    text = documented('working-group')
    stack_id = stacks.create(text, lease_id, workers=1)
    stacks.update(stack_id, text, lease_id, workers=2)
    assert stacks.servers(stack_id) == ['RESERVED'] * 3

    stacks.update(stack_id, text, lease_id, workers=0)
    assert stacks.servers(stack_id) == ['RESERVED']

    stacks.start(lease_id)
    stacks.update(stack_id, text, lease_id, workers=1)
    assert stacks.servers(stack_id) == ['ACTIVE'] * 2
    # Nova tells the lease of those that were taken out.
    stacks.wait_held(lease_id, 'virtual:instance', 'virtual:instance')


def test_a_group_holds_its_maximum(stacks: Stacking) -> None:
    """Growing wakes what was held; shrinking holds it again."""
    lease_id = stacks.lease()
    stack_id = stacks.create(documented('autoscaling'), lease_id, most=3)
    assert stacks.servers(stack_id) == ['RESERVED'] * 3
    assert stacks.outputs(stack_id)['size'] == 1

    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE', 'RESERVED', 'RESERVED']
    reserved = set(stacks.ids(stack_id, 'OS::Nova::Server'))
    stacks.signal(stack_id, 'grow')
    stacks.wait_output(stack_id, 'size', 2)
    assert stacks.servers(stack_id) == ['ACTIVE', 'ACTIVE', 'RESERVED']
    assert set(stacks.ids(stack_id, 'OS::Nova::Server')) == reserved

    stacks.signal(stack_id, 'shrink')
    stacks.wait_output(stack_id, 'size', 1)
    assert stacks.servers(stack_id) == ['ACTIVE', 'RESERVED', 'RESERVED']
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)


def test_a_stack_that_is_busy_at_the_start_is_woken_after_that(stacks: Stacking) -> None:
    lease_id = stacks.lease()
    stack_id = stacks.create(SLOW, lease_id)
    stacks.ask(stack_id, SLOW, lease_id, word='second')
    stacks.wait(stack_id, 'UPDATE_IN_PROGRESS')
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE']
    assert stacks.look(stack_id)['stack_status'] == 'UPDATE_COMPLETE'


@pytest.mark.parametrize(
    ('on_end', 'stack', 'servers'),
    [
        ('suspend', 'SUSPEND_COMPLETE', 'SUSPENDED'),
        ('nothing', 'UPDATE_COMPLETE', 'ACTIVE'),
    ],
)
def test_a_stack_that_stays_at_the_end(
    stacks: Stacking, on_end: str, stack: str, servers: str
) -> None:
    lease_id = stacks.lease()
    stack_id = stacks.create(SLOW, lease_id)
    stacks.at_end(lease_id, on_end)
    stacks.start(lease_id)
    stacks.end(lease_id)
    assert stacks.look(stack_id)['stack_status'] == stack
    assert stacks.servers(stack_id) == [servers]
