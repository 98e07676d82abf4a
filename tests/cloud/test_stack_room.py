# SPDX-License-Identifier: Apache-2.0
"""Stacks from templates that fill a zone, so that there is room or none, with the real Heat.

All of them use one zone: they run in one process, one after the other (``conftest.py``).
"""

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, wait_for
from tests.cloud.stacking import Stacking
from tests.cloud.templates import LARGE, SMALL, TOO_MUCH, ZONE


def test_what_cannot_be_held_as_a_whole_is_not_held_at_all(
    stacks: Stacking, admin: Person
) -> None:
    before = stacks.person.held()
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
    wait_for(lambda: stacks.person.held() | counted == before | counted, 'no member is counted')

    stacks.person.leases.remove_reservation(lease_id, failed.id)
    lease = stacks.wait_lease(lease_id, 'PENDING')
    wanted = {**stacks.wanted(SMALL), 'name': failed.params['name']}
    again = stacks.person.leases.add_reservation(lease_id, **wanted).resource_id
    stacks.stacks.append(again)
    stacks.wait_filled(again)
    assert stacks.servers(again) == ['RESERVED']


def test_a_stack_for_which_there_is_no_room_at_the_start(
    stacks: Stacking, booking: Booking
) -> None:
    """It is tried again, and the lease says why."""
    compute = booking.person.sdk.compute
    flavor = compute.find_flavor('m1.xlarge', ignore_missing=False)
    other = booking.post({}, flavorRef=flavor.id, availability_zone=ZONE)
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
