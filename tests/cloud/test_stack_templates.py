# SPDX-License-Identifier: Apache-2.0
"""Stacks that the lease service makes from templates, with the real Heat."""

import json
import pathlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cloud.conftest import Booking, Person, at, wait_for
from tests.cloud.made_stacks import LARGE, NAMES, OUTER, SMALL, TOO_MUCH
from tests.cloud.reserving import RESERVED
from tests.cloud.stacking import TEMPLATES, Stacking, template


@pytest.fixture
def stacks(stranger: Person) -> Iterator[Stacking]:
    """Stacks of a project that has nothing else; what is left of them afterwards is deleted."""
    stacks = Stacking(stranger)
    yield stacks
    stacks.clean()
    stacks.wait_all_gone()


def wait_held(stacks: Stacking, stack_id: str) -> None:
    """Wait until a stack that is to be held at once is filled."""
    stacks.wait(stack_id, 'UPDATE_COMPLETE')


def test_a_stack_is_made_and_held_at_once(
    stacks: Stacking, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """The main job, with the command: held as a whole, awake in order, gone as a whole."""
    before = stacks.limits()
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

    wait_held(stacks, stack_id)
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
    after = stacks.limits()
    assert {key: after[key] - before[key] for key in before} == {
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
    assert stacks.limits() | {'leases': 0} == before | {'leases': 0}
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
    wait_held(stacks, stack_id)
    assert stacks.servers(stack_id) == ['RESERVED'] * 3
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE'] * 3
    compute = stacks.person.sdk.compute
    found = [compute.get_server(each) for each in stacks.ids(stack_id, 'OS::Nova::Server')]
    assert {'data': 'What a file says.'} in [each.metadata for each in found]
    stacks.end(lease_id)
    assert stacks.servers(stack_id) == ['SUSPENDED'] * 3


def test_what_cannot_be_held_as_a_whole_is_not_held_at_all(
    stacks: Stacking, admin: Person
) -> None:
    before = stacks.limits()
    lease_id, stack_id = stacks.order(TOO_MUCH)
    stacks.wait_gone(stack_id)
    failed = wait_for(
        lambda: (one := stacks.stack_of(lease_id)).status == 'error' and one,
        'the reservation fails',
    )
    assert 'No valid host' in failed.status_reason
    lease = stacks.person.leases.get(lease_id)
    assert lease.status == 'ERROR'
    assert 'No valid host' in lease.status_reason
    assert not [
        each.name
        for each in admin.sdk.compute.servers(details=False, all_projects=True)
        if each.name.startswith(failed.params['name'])
    ]
    # It counts as a stack until it is taken out.
    counted = {'leases': 0, 'reserved_stacks': 0}
    wait_for(lambda: stacks.limits() | counted == before | counted, 'no member is counted')

    stacks.person.leases.remove_reservation(lease_id, failed.id)
    lease = stacks.wait_lease(lease_id, 'PENDING')
    wanted = {**stacks.wanted(SMALL), 'name': failed.params['name']}
    again = stacks.person.leases.add_reservation(lease_id, **wanted).resource_id
    stacks.stacks.append(again)
    wait_held(stacks, again)
    assert stacks.servers(again) == ['RESERVED']


def test_a_stack_is_made_at_the_start(stacks: Stacking) -> None:
    before = stacks.limits()
    lease_id, stack_id = stacks.order(
        template('working-group'), hold='start', parameters={'workers': 1}
    )
    assert stacks.stack_of(lease_id).params['hold'] == 'start'
    assert stacks.look(stack_id)['stack_status'] == 'CREATE_COMPLETE'
    assert stacks.resources(stack_id) == []
    held = stacks.limits()
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


def test_a_stack_for_which_there_is_no_room_at_the_start(
    stacks: Stacking, booking: Booking
) -> None:
    """It is tried again, and the lease says why."""
    compute = booking.person.sdk.compute
    flavor = compute.find_flavor('m1.xlarge', ignore_missing=False)
    other = booking.post({}, flavorRef=flavor.id, availability_zone='az3')
    assert other.status_code == 202, other.text
    other_id = booking.wait(other.json()['server']['id'], 'ACTIVE').id

    lease_id, stack_id = stacks.order(LARGE, hold='start')
    stacks.person.leases.update(lease_id, start='now')
    wait_for(
        lambda: 'No valid host' in (stacks.person.leases.get(lease_id).status_reason or ''),
        'the reason is told',
    )
    compute.delete_server(other_id)
    booking.wait_gone(other_id)
    stacks.wait_lease(lease_id, 'ACTIVE')
    assert stacks.servers(stack_id) == ['ACTIVE']


def test_a_lease_that_starts_at_once(stacks: Stacking) -> None:
    for hold in ('now', 'start'):
        lease_id, stack_id = stacks.order(
            LARGE, hold=hold, on_end='delete', terms={'start': 'now', 'end': at(hours=1)}
        )
        stacks.wait_lease(lease_id, 'ACTIVE')
        assert stacks.servers(stack_id) == ['ACTIVE'], hold
        stacks.end(lease_id)
        stacks.wait_gone(stack_id)


@pytest.mark.parametrize('hold', ['now', 'start'])
def test_a_lease_that_is_deleted_before_its_start(stacks: Stacking, hold: str) -> None:
    before = stacks.limits()
    lease_id, stack_id = stacks.order(template('working-group'), hold=hold)
    stacks.person.leases.delete(lease_id)
    stacks.wait_gone(stack_id)
    stacks.wait_deleted(lease_id)
    assert stacks.limits() == before


def test_its_user_deletes_it_before_the_start(stacks: Stacking) -> None:
    """Also while it is being filled: then it may be found missing first by who fills it."""
    lease_id, stack_id = stacks.order(SMALL, hold='start')
    stacks.delete(stack_id)
    assert 'deleted' in stacks.wait_lease(lease_id, 'TERMINATED').status_reason

    lease_id, stack_id = stacks.order(SMALL)
    stacks.delete(stack_id)
    assert 'deleted' in stacks.wait_lease(lease_id, 'TERMINATED', 'ERROR').status_reason

    lease_id, stack_id = stacks.order(SMALL)
    wait_held(stacks, stack_id)
    stacks.delete(stack_id)
    assert 'deleted' in stacks.wait_lease(lease_id, 'TERMINATED').status_reason


def test_what_its_user_makes_of_it_before_the_start(stacks: Stacking) -> None:
    """An update of the whole stack is his own: Heat forgets with it what was to be done."""
    lease_id, stack_id = stacks.order(template('working-group'), hold='start')
    stacks.wait(stack_id, 'CREATE_COMPLETE')
    stacks.update(stack_id, SMALL)
    assert stacks.servers(stack_id) == ['ACTIVE']
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE']
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)


def test_a_hidden_parameter_stays_hidden(stacks: Stacking) -> None:
    secret = f'secret-{uuid.uuid4().hex}'
    lease_id, stack_id = stacks.order(LARGE, hold='start', parameters={'secret': secret})
    url = f'/leases/{lease_id}'
    for path in (url, f'{url}/history'):
        text = stacks.person.client.get(path).text
        assert secret not in text
        assert 'heat_template_version' not in text
    shown = stacks.show(stack_id)
    assert secret not in json.dumps(shown)
    stacks.start(lease_id)
    (server,) = stacks.ids(stack_id, 'OS::Nova::Server')
    assert stacks.person.sdk.compute.get_server(server).metadata == {'secret': secret}


def test_a_stack_whose_lease_has_another_one_made(stacks: Stacking) -> None:
    name = f'test-{uuid.uuid4().hex[:8]}'
    given = {'start': at(hours=1), 'end': at(hours=2), 'name': name, 'inner': LARGE}
    outer = stacks.create(OUTER, **given)
    lease_id = stacks.outputs(outer)['lease']
    held = stacks.person.leases.get(lease_id).reservations
    (inner,) = [each.resource_id for each in held if each.params.get('name') == name]
    stacks.stacks.append(inner)
    wait_held(stacks, inner)
    assert stacks.servers(inner) == ['RESERVED']

    stacks.update(outer, OUTER, **given, on_end='suspend')
    held = stacks.person.leases.get(lease_id).reservations
    (after,) = [each for each in held if each.params.get('name') == name]
    assert (after.resource_id, after.params['on_end']) == (inner, 'suspend')

    stacks.delete(outer)
    stacks.wait_gone(inner)
