# SPDX-License-Identifier: Apache-2.0
"""What an operator may register as network segments for leases, by tables."""

from typing import Any

import pytest

from climate_core import exceptions
from climate_networks import units
from climate_networks.units import Segment

VLAN = {'network_type': 'vlan', 'physical_network': 'physnet1'}


@pytest.mark.parametrize(
    ('values', 'last', 'count'),
    [
        ({**VLAN, 'segment_id': 100}, Segment('vlan', 'physnet1', 100), 1),
        ({**VLAN, 'segment_id': '4094'}, Segment('vlan', 'physnet1', 4094), 1),
        ({**VLAN, 'segment_range': ' 1 - 256 '}, Segment('vlan', 'physnet1', 256), 256),
        ({'network_type': 'gre', 'segment_id': 2**32 - 1}, Segment('gre', None, 2**32 - 1), 1),
        (
            {'network_type': 'vxlan', 'physical_network': None, 'segment_id': 5000},
            Segment('vxlan', None, 5000),
            1,
        ),
    ],
)
def test_number_or_range_is_read_as_its_segments(
    values: dict[str, Any], last: Segment, count: int
) -> None:
    field, found = units.read_segments(values)
    assert (field, found[-1], len(found)) == ([*values][-1], last, count)


@pytest.mark.parametrize(
    ('values', 'field', 'told'),
    [
        ({**VLAN, 'segment_id': 4095}, 'segment_id', 'a number from 1 to 4094'),
        ({**VLAN, 'segment_id': '-1'}, 'segment_id', 'a number from 1 to 4094'),
        ({**VLAN, 'segment_range': '5'}, 'segment_range', 'as 100-199'),
        ({**VLAN, 'segment_range': '1-2-3'}, 'segment_range', 'as 100-199'),
        ({**VLAN, 'segment_range': '1-257'}, 'segment_range', '256 segments at most, not 257'),
        ({'network_type': 'vlan', 'segment_id': 1}, 'physical_network', 'must be given'),
        ({**VLAN, 'network_type': 'gre', 'segment_id': 1}, 'physical_network', 'be left out'),
    ],
)
def test_what_is_no_segment_is_refused_with_what_is_right(
    values: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        units.read_segments(values)
    assert caught.value.field == field
    assert told in str(caught.value)


def test_segment_is_named_by_what_it_is() -> None:
    assert str(Segment('vlan', 'physnet1', 100)) == 'VLAN 100 of physnet1'
    assert str(Segment('vxlan', None, 5000)) == 'VXLAN 5000'
    unit = {'network_type': 'vxlan', 'physical_network': '', 'segment_id': 5000}
    assert Segment.of(unit) == Segment('vxlan', None, 5000)
    assert (Segment.of(unit).pool, Segment('vlan', 'physnet1', 1).pool) == ('vxlan', 'physnet1')


def test_extra_property_has_no_name_of_a_fact() -> None:
    units.check_segment_properties({'switch': 'tor1'})
    with pytest.raises(exceptions.BadRequest, match='segment_id: is what the segment is'):
        units.check_segment_properties({'segment_id': 5})
