# SPDX-License-Identifier: Apache-2.0
"""The types of resources that heat has for Blazar enrol hosts and lease them."""

import pytest

from tests.cloud import templates
from tests.cloud.people import Person, at
from tests.cloud.pooling import POOL, enrol, enrolled, withdraw
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
