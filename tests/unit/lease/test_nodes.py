# SPDX-License-Identifier: Apache-2.0
"""What is known of a node, and what filters see of it."""

import pytest

from climate_core.plugins import filters
from climate_hosts import nodes
from tests.unit.lease.samples import NODE


def test_node_is_described_from_nova_and_placement() -> None:
    assert (NODE.hypervisor_hostname, NODE.service_name) == ('cn1', 'compute1')
    # What has no name of an amount keeps that of its resource class; what it lacks is 0.
    assert NODE.capacity == {'vcpus': 32, 'memory_mb': 3584, 'disk_gb': 0, 'VGPU': 2}
    details = dict(NODE.details)
    assert (details['cpu_arch'], details['availability_zone']) == ('x86_64', 'az1')
    assert 'cpu_vendor' not in details
    assert (details['traits'], details['aggregates']) == (['CUSTOM_A', 'CUSTOM_B'], ['a', 'b'])
    assert details['units'] == {'vcpus': [1, 16, 2]}
    assert nodes.with_unit_sizes(NODE, {'VGPU': [1, 1, 1]}).details['units'] == {'VGPU': [1, 1, 1]}


def test_facts_are_not_replaced_by_extra_properties_and_numbers_are_numbers() -> None:
    found = NODE.properties({'rack': ' 7', 'weight': '1.50', 'vcpus': '99'})
    assert (found['rack'], found['weight'], found['vcpus']) == (7, 1.5, 16)
    assert (found['hypervisor_hostname'], found['service_name']) == ('cn1', 'compute1')
    # They are shown, and are no facts to compare.
    assert not {'cpu_info', 'state', 'status'} & found.keys()


@pytest.mark.parametrize(
    ('value', 'number'),
    [
        ('16', 16),
        ('-1', -1),
        ('+2.5', 2.5),
        (' 3 ', 3),
        (True, True),
        ('1e3', '1e3'),
        ('1' * 19, '1' * 19),
        ('\u0663', '\u0663'),
        ('', ''),
        (None, None),
    ],
)
def test_number_of_a_text_is_a_number(value, number) -> None:
    found = filters.parse_number(value)
    assert (found, type(found)) == (number, type(number))
