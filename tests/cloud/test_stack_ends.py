# SPDX-License-Identifier: Apache-2.0
"""Reserved stacks at the end of their lease, when something has happened to them before."""

from collections.abc import Callable
from typing import Any

from tests.cloud.people import Person, wait_for
from tests.cloud.stacking import Stacking
from tests.cloud.templates import PAIR, SIGNALS

SERVER = 'OS::Nova::Server'


def test_another_user_of_the_project_updates_the_stack(
    colleague: Person, stacks: Stacking, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """The rights of the lease do not wake it until its own user updates it; they end it."""
    theirs = Stacking(colleague)
    lease_id = stacks.lease()
    stack_id = stacks.create(PAIR, lease_id)
    theirs.patch(stack_id)
    stacks.wait(stack_id, 'UPDATE_COMPLETE')
    stacks.person.leases.update(lease_id, start='now')
    stacks.wait_trouble(lease_id, 'another user')
    assert stacks.servers(stack_id) == ['RESERVED'] * 2

    stacks.patch(stack_id)
    stacks.wait_lease(lease_id, 'ACTIVE')
    assert stacks.wake_ups(stack_id) == [1, 1]
    servers = stacks.ids(stack_id, SERVER)
    theirs.patch(stack_id)
    stacks.wait(stack_id, 'UPDATE_COMPLETE')

    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
    assert not any(allocations(each) for each in servers)


def test_a_stack_that_is_deleted_while_it_is_woken(
    stacks: Stacking, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """Nothing is left of it, and with it goes its lease."""
    lease_id = stacks.lease()
    stack_id = stacks.create(SIGNALS, lease_id)
    servers = stacks.ids(stack_id, SERVER)
    stacks.person.leases.update(lease_id, start='now')
    stacks.wait_resource(stack_id, 'ready', 'UPDATE_IN_PROGRESS')
    assert stacks.servers(stack_id) == ['ACTIVE', 'RESERVED']
    stacks.delete(stack_id)
    assert not any(allocations(each) for each in servers)
    lease = stacks.wait_lease(lease_id, 'TERMINATED')
    assert {each.status for each in lease.reservations} == {'deleted'}


def test_the_owner_has_no_trust_left(
    colleague: Person, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """The rights of the lease service end the stack."""
    stacks = Stacking(colleague)
    lease_id = stacks.lease()
    (trust,) = colleague.trusts()
    stack_id = stacks.create(PAIR, lease_id)
    stacks.start(lease_id)
    servers = stacks.ids(stack_id, SERVER)
    colleague.sdk.identity.delete(f'/OS-TRUST/trusts/{trust}')
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
    assert not any(allocations(each) for each in servers)


def test_a_snapshot_is_made_and_the_stack_is_suspended(stacks: Stacking) -> None:
    lease_id = stacks.lease()
    stack_id = stacks.create(PAIR, lease_id)
    stacks.at_end(lease_id, 'snapshot')
    stacks.start(lease_id)
    stacks.person.leases.end(lease_id)
    for server in stacks.ids(stack_id, SERVER):
        upload(stacks.person, server)
    stacks.wait_lease(lease_id, 'TERMINATED')
    assert stacks.look(stack_id)['stack_status'] == 'SUSPEND_COMPLETE'
    assert stacks.servers(stack_id) == ['SUSPENDED'] * 2
    (snapshot,) = stacks.heat.get(f'{stacks.path(stack_id)}/snapshots').json()['snapshots']
    assert snapshot['status'] == 'COMPLETE'
    assert snapshot['name'].startswith(f'reserved_{stacks.look(stack_id)["stack_name"]}')
    assert stacks.trouble(lease_id) == []


def upload(person: Person, server_id: str) -> None:
    """Do what a hypervisor does for the image of a server; that of the cloud has no disks."""
    glance = person.sdk.image

    def look() -> Any:
        found = glance.images(instance_uuid=server_id)
        return next((image for image in found if image.status == 'queued'), None)

    image = wait_for(look, f'an image of server {server_id}')
    glance.update_image(image, disk_format='raw', container_format='bare')
    glance.put(
        f'/images/{image.id}/file',
        data=b'bytes',
        headers={'Content-Type': 'application/octet-stream'},
    )


def test_the_end_of_a_stack_of_which_one_server_did_not_start(stacks: Stacking) -> None:
    """It may hold data: it is kept as asked, but for what has never run."""
    lease_id = stacks.lease()
    stack_id = stacks.create(PAIR, lease_id)
    stacks.at_end(lease_id, 'nothing')
    first, second = stacks.id_of(stack_id, 'first'), stacks.id_of(stack_id, 'second')
    with stacks.locked(second):
        stacks.person.leases.update(lease_id, start='now')
        stacks.wait_trouble(lease_id, 'is locked')
        stacks.wait_servers(stack_id, 'ACTIVE', 'RESERVED')
        stacks.person.leases.end(lease_id)
        wait_for(lambda: stacks.stack_of(lease_id).status == 'deleted', 'the end of the stack')
    stacks.wait_lease(lease_id, 'TERMINATED')
    assert stacks.look(stack_id)['stack_status'].startswith('UPDATE_')
    compute = stacks.person.sdk.compute
    assert compute.get_server(first).status == 'ACTIVE'
    assert compute.find_server(second) is None


def test_servers_of_an_abandoned_stack_are_woken_and_ended(
    stacks: Stacking, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """Its servers are woken and ended one by one, whenever it was abandoned."""
    early, late = stacks.lease(), stacks.lease()
    asleep, awake = stacks.begin(PAIR, early), stacks.begin(PAIR, late)
    for stack_id in (asleep, awake):
        stacks.wait(stack_id, 'CREATE_COMPLETE')
    servers = stacks.ids(asleep, SERVER) + stacks.ids(awake, SERVER)
    stacks.abandon(asleep)
    for lease_id in (early, late):
        stacks.person.leases.update(lease_id, start='now')
    for lease_id in (early, late):
        stacks.wait_lease(lease_id, 'ACTIVE')
    compute = stacks.person.sdk.compute
    assert {compute.get_server(each).status for each in servers} == {'ACTIVE'}

    stacks.abandon(awake)
    assert {compute.get_server(each).status for each in servers} == {'ACTIVE'}
    for lease_id in (early, late):
        stacks.person.leases.end(lease_id)
    for lease_id in (early, late):
        stacks.wait_lease(lease_id, 'TERMINATED')
    assert not any(allocations(each) for each in servers)
    assert {compute.find_server(each) for each in servers} == {None}
