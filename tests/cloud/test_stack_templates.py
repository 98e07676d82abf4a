# SPDX-License-Identifier: Apache-2.0
"""Stacks that the lease service makes from templates, with the real Heat."""

import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.people import at, wait_for
from tests.cloud.reserving import RESERVED
from tests.cloud.stacking import Stacking
from tests.cloud.templates import (
    NAMES,
    SMALL,
    TEMPLATES,
    documented,
    large,
    template,
)
from tests.support.kinds import kind_cell


@kind_cell('New stacks', 'immediate')
def test_a_stack_is_made_and_held_at_once(
    stacks: Stacking, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """The main job, with the command: held as a whole, awake in order, gone as a whole."""
    before = stacks.person.held()
    name = f'test-{uuid.uuid4().hex[:8]}'
    done = stacks.person.cli(
        *('openstack', 'lease', 'create', name, '--start', at(hours=1), '--for', '2h'),
        *('--stack-template', str(TEMPLATES / 'working-group.yaml'), '--stack-name', name),
        *('--stack-parameter', 'workers=1', '-f', 'json'),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    lease_id = shown['id']
    stacks.leases.append(lease_id)
    (one,) = shown['reservations']
    assert (one['name'], one['hold'], one['on_end']) == (name, 'now', 'delete')
    stack_id = one['resource_id']
    stacks.stacks.append(stack_id)

    stacks.wait_filled(stack_id)
    assert stacks.servers(stack_id) == ['RESERVED'] * 2
    assert stacks.volumes(stack_id) == [RESERVED]
    servers = stacks.ids(stack_id, 'OS::Nova::Server')
    assert all(allocations(each) for each in servers)
    found = stacks.show(stack_id)
    assert (found['stack_name'], found['parameters']['workers']) == (name, '1')
    assert found['stack_owner'] == stacks.person.environment['OS_USERNAME']
    assert found['tags'] == ['climate-filled']
    held = stacks.person.leases.get(lease_id)
    assert held.status == 'PENDING'
    assert sorted(each.resource_type for each in held.reservations) == [
        *('virtual:instance', 'virtual:instance', 'virtual:stack', 'virtual:volume')
    ]
    after = stacks.person.held()
    assert {key: after[key] - before[key] for key in before if after[key] != before[key]} == {
        'leases': 1,
        'reserved_servers': 2,
        'reserved_vcpus': 2,
        'reserved_memory_mb': 4096,
        'reserved_volumes': 1,
        'reserved_gigabytes': 1,
        'reserved_stacks': 1,
    }

    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE'] * 2
    assert stacks.ids(stack_id, 'OS::Nova::Server') == servers
    assert stacks.outputs(stack_id)['disk'] == 'in-use'
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
    assert not any(allocations(each) for each in servers)
    assert stacks.person.held() | {'leases': 0} == before | {'leases': 0}
    assert stacks.trouble(lease_id) == []


def test_what_a_template_names_goes_along(stacks: Stacking, tmp_path: pathlib.Path) -> None:
    """A nested template, one by a type of the environment, and a file that is no template."""
    files = {
        'top.yaml': NAMES,
        'part.yaml': SMALL,
        'data': 'What a file says.',
        'env.yaml': 'resource_registry: {My::Part: part.yaml}\nparameters: {flavor: m1.nano}',
        'later.yaml': 'parameters: {flavor: m1.tiny}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    lease_id, name = stacks.lease(), f'test-{uuid.uuid4().hex[:8]}'
    done = stacks.person.cli(
        *('openstack', 'lease', 'reservation', 'add', lease_id, '--stack-name', name),
        *('--stack-template', str(tmp_path / 'top.yaml'), '--on-end', 'suspend'),
        *('--stack-environment', str(tmp_path / 'env.yaml')),
        *('--stack-environment', str(tmp_path / 'later.yaml')),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = stacks.stack_of(lease_id)
    assert made.params['on_end'] == 'suspend'
    stack_id = made.resource_id
    stacks.stacks.append(stack_id)
    stacks.wait_filled(stack_id)
    assert stacks.servers(stack_id) == ['RESERVED'] * 3
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE'] * 3
    compute = stacks.person.sdk.compute
    found = [compute.get_server(each) for each in stacks.ids(stack_id, 'OS::Nova::Server')]
    assert {'data': 'What a file says.'} in [each.metadata for each in found]
    stacks.end(lease_id)
    assert stacks.servers(stack_id) == ['SUSPENDED'] * 3


@kind_cell('New stacks', 'scheduled')
def test_a_stack_of_a_scheduled_lease_is_made_when_it_is_expected_to_fit(
    stacks: Stacking,
) -> None:
    later = {'kind': 'scheduled', 'start': at(minutes=30), 'end': at(hours=2)}
    many = template({f'server{number}': large() for number in range(9)})
    with pytest.raises(exceptions.Conflict, match='do not fit together'):
        stacks.person.leases.create('too many', reservations=[stacks.wanted(many)], **later)
    assert [*stacks.person.leases.list(name='too many')] == []
    lease_id, stack_id = stacks.order(
        documented('working-group'), parameters={'workers': 1}, terms=later
    )
    assert stacks.person.leases.get(lease_id).status == 'PENDING'
    assert stacks.resources(stack_id) == []
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE'] * 2
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)


def test_a_stack_is_made_at_the_start(stacks: Stacking) -> None:
    before = stacks.person.held()
    lease_id, stack_id = stacks.order(
        documented('working-group'), hold='start', parameters={'workers': 1}
    )
    assert stacks.stack_of(lease_id).params['hold'] == 'start'
    wait_for(
        lambda: stacks.look(stack_id)['stack_status'] == 'CREATE_COMPLETE', 'the empty stack made'
    )
    assert stacks.resources(stack_id) == []
    held = stacks.person.held()
    assert {key: held[key] - before[key] for key in before if held[key] != before[key]} == {
        'leases': 1,
        'reserved_stacks': 1,
    }

    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE'] * 2
    assert stacks.volumes(stack_id) == ['in-use']
    assert stacks.show(stack_id)['tags'] == ['climate-filled']
    # They are ordinary ones.
    (one,) = stacks.person.leases.get(lease_id).reservations
    assert (one.resource_id, one.status) == (stack_id, 'active')

    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
    assert stacks.trouble(lease_id) == []


@pytest.mark.parametrize('hold', ['now', 'start'])
def test_a_lease_that_is_deleted_before_its_start(stacks: Stacking, hold: str) -> None:
    before = stacks.person.held()
    lease_id, stack_id = stacks.order(documented('working-group'), hold=hold)
    stacks.person.leases.delete(lease_id)
    stacks.wait_gone(stack_id)
    stacks.wait_deleted(lease_id)
    assert stacks.person.held() == before


def test_its_user_deletes_it_before_the_start(stacks: Stacking) -> None:
    """Also while it is being filled: then that event may be the first to find it missing."""
    lease_id, stack_id = stacks.order(SMALL, hold='start')
    stacks.delete(stack_id)
    assert 'deleted' in stacks.wait_lease(lease_id, 'TERMINATED').status_reason

    lease_id, stack_id = stacks.order(SMALL)
    stacks.delete(stack_id)
    assert 'deleted' in stacks.wait_lease(lease_id, 'TERMINATED', 'ERROR').status_reason

    lease_id, stack_id = stacks.order(SMALL)
    stacks.wait_filled(stack_id)
    stacks.delete(stack_id)
    assert 'deleted' in stacks.wait_lease(lease_id, 'TERMINATED').status_reason


def test_what_its_user_makes_of_it_before_the_start(stacks: Stacking) -> None:
    """An update of the whole stack is their own: Heat forgets with it what was to be done."""
    lease_id, stack_id = stacks.order(documented('working-group'), hold='start')
    stacks.wait(stack_id, 'CREATE_COMPLETE')
    stacks.update(stack_id, SMALL)
    assert stacks.servers(stack_id) == ['ACTIVE']
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE']
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
