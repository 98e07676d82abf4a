# SPDX-License-Identifier: Apache-2.0
"""The names that nova-scheduler and the lease service derive without asking each other."""

import pytest

from climate_common import lanes

FLAVOR = {
    'id': '1',
    'name': 'm1.small',
    'vcpus': 1,
    'ram': 2048,
    'disk': 20,
    'OS-FLV-EXT-DATA:ephemeral': 0,
    'swap': 0,
    'extra_specs': {'hw:cpu_policy': 'dedicated', 'a': 'b'},
}


@pytest.mark.parametrize(
    ('change', 'same'),
    [
        ({'id': '2', 'name': 'other'}, True),
        ({'swap': ''}, True),
        ({'extra_specs': {'a': 'b', 'hw:cpu_policy': 'dedicated'}}, True),
        ({'extra_specs': FLAVOR['extra_specs'] | dict.fromkeys(lanes.MARKS, 'r')}, True),
        ({'extra_specs': {'a': 'b'}}, False),
        *(
            ({name: 7}, False)
            for name in ('vcpus', 'ram', 'disk', 'OS-FLV-EXT-DATA:ephemeral', 'swap')
        ),
    ],
)
def test_shape_is_what_a_flavor_gives_its_servers(change, same):
    shape = lanes.flavor_shape(FLAVOR)
    assert (lanes.flavor_shape(FLAVOR | change) == shape) is same
    slots = {
        lanes.slot_aggregate('r', 'p', each)
        for each in (shape, lanes.flavor_shape(FLAVOR | change))
    }
    assert len(slots) == (1 if same else 2)


def test_flavor_without_its_extra_specs_has_no_shape():
    with pytest.raises(KeyError, match='extra_specs'):
        lanes.flavor_shape({key: FLAVOR[key] for key in FLAVOR if key != 'extra_specs'})


def test_names_differ_by_reservation_project_and_kind():
    names = {lanes.host_aggregate(r, p) for r in 'rs' for p in 'pq'}
    names |= {lanes.slot_aggregate(r, p, s) for r in 'rs' for p in 'pq' for s in 'xy'}
    assert len(names) == 12
    assert len(names | {lanes.reservation_aggregate(r) for r in 'rs'}) == 14
    assert lanes.lane_name('compute3', 0) != lanes.lane_name('compute3', 1)


def test_lane_names_its_reservation_and_who_may_enter():
    own = lanes.reservation_aggregate('r')
    hosts = {lanes.host_aggregate('r', each) for each in 'pq'}
    assert lanes.lane_aggregates('r', 'pqp') == sorted(hosts | {own})
    opened = lanes.lane_aggregates('r', 'pq', open_to='p')
    assert opened == sorted(
        lanes.lane_aggregates('r', 'pq') + lanes.lane_aggregates(lanes.OPEN, 'p')
    )
    assert lanes.lane_aggregates('r', 'p', 'x') == sorted(
        {lanes.slot_aggregate('r', 'p', 'x'), own}
    )
