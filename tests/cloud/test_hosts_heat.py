# SPDX-License-Identifier: Apache-2.0
"""Heat leases hosts, with its types for Blazar and with ours."""

import pytest

from tests.cloud import templates
from tests.cloud.booking import Booking
from tests.cloud.people import Person, at, wait_for
from tests.cloud.pooling import POOL, enrol, enrolled, hosts_of, lease_hosts, withdraw
from tests.cloud.stacking import Stacking

# While its host is in no pool, servers of other tests would come.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures('pool')]


def test_heat_enrols_a_host_and_leases_it(admin: Person) -> None:
    stacks, host = Stacking(admin), POOL[-1]
    withdraw(admin, host)
    minute = {'start_date': at(hours=1), 'end_date': at(hours=2)}
    terms = {name: when[:16].replace('T', ' ') for name, when in minute.items()}
    wanted = {
        'resource_type': 'physical:host',
        'min': 1,
        'max': 1,
        'resource_properties': '["==", "$rack", "4"]',
    }
    text = templates.template(
        {
            'host': templates.resource('Blazar::Host', name=host, extra_capability={'rack': '4'}),
            'lease': templates.resource(
                'Blazar::Lease', 'host', name='by-heat', reservations=[wanted], **terms
            ),
        },
        outputs={
            'host': templates.get('host', 'hypervisor_hostname'),
            'reservations': templates.get('lease', 'reservations'),
        },
    )
    try:
        stack_id = stacks.create(text)
        outputs = stacks.outputs(stack_id)
        assert outputs['host'] == host
        (reservation,) = outputs['reservations']
        assert (reservation['resource_type'], reservation['hosts']) == ('physical:host', [host])
        stacks.delete(stack_id)
        assert host not in enrolled(admin)
    finally:
        stacks.clean()
        enrol(admin, host)


def test_stack_waits_until_there_are_hosts_for_its_lease(
    booking: Booking, stacks: Stacking
) -> None:
    """What depends on the lease is created when it is granted."""
    other = lease_hosts(booking)
    wanted = {'resource_type': 'physical:host', 'min': len(POOL)}
    lease = templates.resource(
        'Climate::Lease',
        name='by-heat',
        start_date='now',
        duration='1h',
        reservations=[wanted],
    )
    lease['properties']['kind'] = 'retry'
    stack_id = stacks.begin(
        templates.template(
            {
                'lease': lease,
                'after': templates.resource('Heat::Value', 'lease', value='granted'),
            },
            outputs={'id': {'get_resource': 'lease'}},
        )
    )
    (waiting,) = wait_for(lambda: [*booking.person.leases.list(status='WAITING')], 'it waits')
    assert 'Only 1 of at least 2 hosts' in waiting.status_reason
    stacks.wait_resource(stack_id, 'after', 'INIT_COMPLETE')

    booking.person.leases.end(other.id)
    stacks.wait(stack_id, 'CREATE_COMPLETE')
    assert stacks.outputs(stack_id) == {'id': waiting.id}
    assert {*hosts_of(booking.wait_lease(waiting.id, 'ACTIVE'))} == {*POOL}
    stacks.delete(stack_id)
    stacks.wait_deleted(waiting.id)
