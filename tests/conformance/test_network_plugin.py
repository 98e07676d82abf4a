# SPDX-License-Identifier: Apache-2.0
"""Networks that the calendar promises: registered, reserved, started, changed and torn down."""

import json

import pytest

from climate_core import exceptions
from climate_core.plugins.base import Done
from climate_core.plugins.server import ServerPlugin
from climate_core.repair import reconciliation
from climate_networks import operations
from climate_networks.cloud import mark, tag
from climate_networks.plugins.networks import NetworkPlugin
from tests.conformance.network_world import (
    END,
    FIRST,
    PHYSICAL,
    SECOND,
    SEGMENTS,
    THIRD,
    Networks,
    shown,
)
from tests.conformance.promised_world import opened
from tests.support.fakes import neutron_networks
from tests.support.kinds import kind_cell
from tests.support.leases import is_found
from tests.support.missing import find_missing
from tests.support.world import user

NEXT = {'start': END, 'end': '2082-12-01 15:00'}


@pytest.fixture(autouse=True)
def room():
    """Each test has segments of its own."""


@pytest.fixture
def world(tmp_path):
    with opened(Networks, tmp_path) as made:
        yield made


#: What a tunnel has in place of a physical network.
TUNNEL = {'network_type': 'vxlan', 'physical_network': None}


def other(world, number, **fields):
    """Make a network on a segment without a lease."""
    provider = {'network_type': 'vlan', 'physical_network': PHYSICAL, 'segmentation_id': number}
    provider = {f'provider:{name}': value for name, value in provider.items()}
    return neutron_networks.add(world.state, **provider, **fields)


@pytest.mark.parametrize(
    ('values', 'field', 'told'),
    [
        ({'segment_id': 0}, 'segment_id', '1 to 4094'),
        ({'segment_id': 4095}, 'segment_id', '1 to 4094'),
        ({'segment_id': 'x'}, 'segment_id', 'a number'),
        ({'segment_id': FIRST}, 'segment_id', 'already'),
        ({'segment_range': f'{THIRD}-203'}, 'segment_range', 'already'),
        ({'segment_range': '30-29'}, 'segment_range', 'not after'),
        ({'segment_range': '30'}, 'segment_range', 'two numbers'),
        ({'segment_range': '300-556'}, 'segment_range', '256'),
        ({'segment_id': 300, 'physical_network': None}, 'physical_network', 'must be given'),
        ({'segment_id': 300, 'network_type': 'vxlan'}, 'physical_network', 'left out'),
        ({'segment_id': 300, 'extra': {'pool': 'x'}}, 'pool', 'another name'),
        ({'segment_id': 300, 'extra': {'1': 'x'}}, '1', 'begin with a letter'),
        (
            {'segment_id': 300, 'physical_network': 'physnet9'},
            'physical_network',
            'network physnet9',
        ),
        (
            {**TUNNEL, 'network_type': 'gre', 'segment_id': 5},
            'network_type',
            'type gre',
        ),
        ({'segment_id': 250}, 'segment_id', 'in use in Neutron'),
        ({'segment_range': '249-251'}, 'segment_range', 'VLAN 250 of physnet1 is in use'),
    ],
)
def test_segment_that_cannot_be_set_apart_names_its_field(world, values, field, told):
    other(world, 250)
    with pytest.raises(exceptions.ClimateError, match=told) as caught:
        world.register(**values)
    assert 400 <= caught.value.status < 500
    assert caught.value.field == field
    for _ in SEGMENTS:
        world.lease()
    with pytest.raises(exceptions.NotEnough):
        world.lease()


def test_segment_with_the_network_of_a_lease_is_set_apart_already(world):
    world.started(segment_id=FIRST)
    told = f'segment_range: VLAN {FIRST} of {PHYSICAL}, VLAN .* are registered for leases already'
    with pytest.raises(exceptions.NetworkExists, match=told):
        world.register(segment_range=f'{FIRST}-{FIRST + 1}')


def test_refusal_of_a_segment_by_its_number_names_that_field(world):
    world.lease(segment_id=FIRST)
    with pytest.raises(exceptions.NotEnough) as caught:
        world.lease(segment_id=FIRST)
    assert caught.value.field == 'reservations[0].segment_id'


def test_tunnel_with_the_number_of_a_vlan_is_another_segment(world):
    world.register(network_type='vxlan', physical_network=None, segment_id=FIRST)
    lease = world.started(network_type='vxlan')
    assert (shown(lease)['physical_network'], shown(lease)['segment_id']) == (None, FIRST)
    (network,) = world.made()
    assert network['provider:physical_network'] is None
    assert network['provider:segmentation_id'] == FIRST


def test_segment_that_neutron_chooses_for_others_is_not_set_apart(world):
    common = {'network_type': 'vlan', 'physical_network': PHYSICAL, 'project_id': None}
    tunnels = {'network_type': 'vxlan', 'physical_network': None, 'minimum': 1, 'maximum': 99}
    world.state.segment_ranges = [
        {**common, 'id': 'r1', 'shared': True, 'minimum': 300, 'maximum': 399},
        {**common, 'id': 'r2', 'shared': False, 'minimum': 400, 'maximum': 499},
        {**common, **tunnels, 'id': 'r3', 'shared': True},
    ]
    for refused, told in (
        ({'segment_id': 300}, 'segment_id: VLAN 300 of physnet1 is in .* 300-399 .r1.'),
        ({'segment_range': '298-301'}, 'segment_range: VLAN 300 of'),
        ({'segment_id': 450}, 'segment_id: VLAN 450 .*r2.*of the project service-id'),
        ({**TUNNEL, 'segment_id': 99}, 'segment_id: VXLAN 99 is'),
    ):
        with pytest.raises(exceptions.BadRequest, match=told) as caught:
            world.register(**refused)
        assert caught.value.field == next(iter(refused.keys() - TUNNEL.keys()))
    for accepted in ({'segment_id': 299}, {**TUNNEL, 'segment_id': 100}):
        assert world.register(**accepted)
    # One that only the service is given is chosen for nobody else.
    own = {**common, 'shared': False, 'project_id': 'service-id'}
    world.state.segment_ranges.append({**own, 'id': 'r4', 'minimum': 350, 'maximum': 450})
    assert world.register(segment_range='350-399')
    assert world.register(segment_id=450, physical_network='physnet2')
    found = operations.SegmentCheck().find_problems(world.engine.database, world.cloud.service())
    assert found == []
    world.state.segment_ranges[1]['minimum'] = 200
    found = operations.SegmentCheck().find_problems(world.engine.database, world.cloud.service())
    assert [each.partition(' is ')[0] for each in found] == [
        *(f'VLAN {each} of physnet1' for each in (*SEGMENTS, 299))
    ]


@pytest.mark.parametrize('status', [400, 409])
def test_segment_of_which_neutron_does_not_say_whether_it_knows_it_is_taken(world, status):
    fault = {'method': 'POST', 'path': 'networks', 'status': status, 'count': 1}
    world.state.faults.append(fault)
    assert world.register(segment_id=300, physical_network='physnet9')


def test_network_that_another_neutron_makes_of_no_segment_is_deleted(world, monkeypatch):
    monkeypatch.setattr(neutron_networks, '_check_provider', lambda *_: None)
    assert world.register(segment_id=300)
    assert world.made() == []


def test_neutron_that_does_not_answer_the_operator_is_a_503(world):
    world.state.faults.append({'method': 'GET', 'path': 'networks', 'status': 500, 'count': 1})
    with pytest.raises(exceptions.ServiceUnavailable):
        world.register(segment_id=300)


@kind_cell('Networks', 'scheduled')
def test_segment_is_shown_at_once_without_a_request_to_neutron(world):
    world.asked()
    statements = world.engine.statements(lambda: world.lease(start='2082-12-01 13:00'))
    assert world.asked() == []
    # What reads the lease again for this test is not a part of the create.
    assert len(statements) <= 14
    lease = world.lease(start='2082-12-01 13:00')
    found = shown(lease)
    assert (found['network_type'], found['physical_network']) == ('vlan', PHYSICAL)
    assert found['segment_id'] in SEGMENTS
    assert (found['network_name'], found['network_id']) == ('net1', None)
    assert lease.kind == 'scheduled'
    assert world.made() == []


def test_no_segment_is_promised_twice(world):
    leases = [world.lease(start='2082-12-01 13:00') for _ in SEGMENTS]
    assert sorted(shown(each)['segment_id'] for each in leases) == SEGMENTS
    with pytest.raises(exceptions.NotEnough, match='network segments') as caught:
        world.lease(end='2082-12-01 13:30')
    assert caught.value.available_from.startswith('2082-12-01T14:00')
    assert world.lease(end='2082-12-01 13:00')


@pytest.mark.parametrize(
    'values',
    [
        {'segment_id': THIRD},
        {'physical_network': PHYSICAL, 'network_type': 'vlan', 'segment_id': THIRD},
        {'network_properties': json.dumps(['==', '$segment_id', str(THIRD)])},
        {'resource_properties': '["and", ["==", "$switch", "tor2"], ["==", "$id", "3"]]'},
        {'resources': f'switch=tor2,segment_id>{SECOND}', 'network_description': ''},
    ],
)
def test_segment_that_is_asked_for_is_promised(world, values):
    assert shown(world.lease(**values))['segment_id'] == THIRD
    with pytest.raises(exceptions.NotEnough):
        world.lease(**values)
    assert shown(world.lease(**NEXT, **values))['segment_id'] == THIRD


@pytest.mark.parametrize(
    ('values', 'field', 'told'),
    [
        ({'segment_id': 999}, 'segment_id', 'segment_id 999'),
        ({'physical_network': 'physnet9'}, 'physical_network', 'physnet9'),
        ({'network_type': 'vxlan'}, 'network_type', 'vxlan'),
        ({'resources': 'switch=tor3'}, 'resources', 'no network segment has switch=tor3'),
        ({'network_properties': '["=="'}, 'network_properties', 'JSON'),
    ],
)
def test_what_never_can_be_promised_names_its_field(world, values, field, told):
    with pytest.raises(exceptions.ClimateError, match=told) as caught:
        world.lease(**values)
    assert 400 <= caught.value.status < 500
    assert caught.value.field == f'reservations[0].{field}'


def test_segment_for_other_projects_is_not_promised(world):
    world.operations.update_network(world.operator, world.ids[0], {'project_ids': ['other-id']})
    with pytest.raises(exceptions.ClimateError, match='segment_id'):
        world.lease(segment_id=FIRST)
    world.owner = user('other-id')
    assert shown(world.lease(segment_id=FIRST))['segment_id'] == FIRST


def test_segment_that_is_changed_is_promised_by_what_it_has_now(world):
    changed = {'available': False, 'extra': {'switch': None, 'note': 'stitching port 7'}}
    world.operations.update_network(world.operator, world.ids[0], changed)
    with pytest.raises(exceptions.NotEnough):
        world.lease(segment_id=FIRST)
    world.operations.update_network(world.operator, world.ids[0], {'available': True})
    assert shown(world.lease(resources='note==stitching port 7'))['segment_id'] == FIRST
    with pytest.raises(exceptions.NetworkInUse, match='allocated to 1 reservation'):
        world.operations.delete_network(world.operator, world.ids[0])
    world.operations.delete_network(world.operator, world.ids[1])
    with pytest.raises(exceptions.NetworkNotFound):
        world.operations.update_network(world.operator, world.ids[1], {})


@kind_cell('Networks', 'retry')
def test_lease_of_the_kind_retry_waits_for_a_segment(world):
    first = world.lease(segment_id=FIRST)
    waiting = world.lease(kind='retry', segment_id=FIRST)
    assert waiting.status == 'WAITING'
    world.engine.settle(first.id)
    world.ended(first)
    world.engine.operations.queue.grant_waiting()
    assert world.engine.settle(waiting.id).status == 'ACTIVE'


@kind_cell('Networks', 'immediate')
def test_start_makes_the_network_of_the_owner_with_three_requests(world):
    lease = world.lease(kind='immediate', network_tags=['mine'])
    world.asked()
    lease = world.engine.settle(lease.id)
    assert (lease.kind, lease.status) == ('immediate', 'ACTIVE')
    assert world.asked() == ['GET', 'POST', 'PUT']
    (reservation,), (network,) = lease.reservations, world.made()
    assert (network['project_id'], network['name']) == ('demo-id', 'net1')
    assert network['description'] == mark(reservation.id)
    assert network['tags'] == sorted(['mine', tag(reservation.id)])
    assert network['provider:segmentation_id'] == shown(lease)['segment_id']
    assert shown(lease)['network_id'] == network['id']


def test_network_gets_the_description_of_its_owner(world):
    lease = world.started(network_description='for the demonstration')
    (network,) = world.made()
    assert network['description'] == 'for the demonstration'
    assert network['tags'] == [tag(lease.reservations[0].id)]
    world.ended(lease)
    assert world.made() == []


def test_wake_up_again_makes_nothing(world):
    lease = world.started()
    world.asked()
    done = world.plugin.start(lease, *lease.reservations)
    assert done == Done(lease.reservations[0].progress)
    assert world.asked() == []


@pytest.mark.parametrize('status', [0, 500, 409])
@pytest.mark.parametrize('path', ['networks$', 'tags$', r'networks/[^/]+$'])
@pytest.mark.parametrize('after', [False, True])
def test_trouble_at_the_start_leaves_one_network(world, path, status, after):
    """Also if a request was done whose answer was lost."""
    method = 'POST' if path == 'networks$' else 'PUT'
    world.state.faults.append(
        {'method': method, 'path': path, 'status': status, 'count': 1, 'after': after}
    )
    lease = world.engine.settle(world.lease(network_description='mine').id)
    if lease.status != 'ACTIVE':
        lease = world.engine.settle(lease.id, seconds=60)
    assert lease.status == 'ACTIVE'
    (network,) = world.made()
    assert network['description'] == 'mine'
    assert network['tags'] == [tag(lease.reservations[0].id)]
    world.ended(lease)
    assert world.made() == []


def test_segment_of_an_earlier_lease_is_waited_for(world):
    other(world, FIRST, description=mark('another'))
    lease = world.started(segment_id=FIRST)
    assert lease.status == 'STARTING'
    wait = world.plugin.start(lease, *lease.reservations)
    assert wait.reason == 'VLAN 200 of physnet1 is not free yet: an earlier lease still has it.'
    world.state.networks.clear()
    assert world.engine.settle(lease.id, seconds=60).status == 'ACTIVE'


def test_segment_that_is_in_use_is_told_and_its_network_left_alone(world):
    made = other(world, FIRST, project_id='other-id')
    lease = world.started(segment_id=FIRST)
    assert 'an operator must free' in lease.reservations[0].status_reason
    world.ended(lease)
    assert world.made() == [made]


def test_end_takes_two_requests_for_a_network_with_nothing_in_it(world):
    lease = world.started()
    world.asked()
    assert world.ended(lease).status == 'TERMINATED'
    assert world.asked() == ['GET', 'DELETE']
    assert world.made() == []
    assert world.plugin.end(lease, *lease.reservations) is None


def test_end_tears_down_what_anybody_has_put_into_it(world):
    lease = world.started()
    (network,), state = world.made(), world.state
    neutron_networks.add_port(state, network['id'], device_owner='network:dhcp')
    neutron_networks.add_port(state, network['id'], floating=True, device_owner='compute:nova')
    theirs = neutron_networks.add_port(state, network['id'], project_id='other-id')
    elsewhere = neutron_networks.add_port(state, 'elsewhere')
    parent = neutron_networks.add_port(state, network['id'], host='compute1')
    neutron_networks.add_trunk(state, parent, [elsewhere])
    trunk = neutron_networks.add_trunk(state, elsewhere, [theirs])
    neutron_networks.add_interface(state, network['id'], '10.9.0.0/24', '10.9.0.7')
    neutron_networks.add_interface(state, network['id'], '10.8.0.0/24')
    ended = world.ended(lease)
    assert (ended.status, ended.status_reason, world.made()) == ('TERMINATED', None, [])
    left = [e for e in state.network_ports.values() if e['device_owner'] != 'network:dhcp']
    assert left == [elsewhere]
    assert list(state.trunks.values()) == [{**trunk, 'sub_ports': []}]
    assert [each['routes'] for each in state.routers.values()] == [[], []]


@pytest.mark.parametrize('named', [True, False])
def test_trunk_that_keeps_a_port_is_asked_for_alone_if_neutron_names_it(world, monkeypatch, named):
    if not named:
        monkeypatch.setattr(neutron_networks, 'IN_TRUNK', 'Port {} is in a trunk.')
    lease = world.started()
    (network,), state = world.made(), world.state
    ports = [neutron_networks.add_port(state, network['id']) for _ in range(2)]
    others = [neutron_networks.add_port(state, 'elsewhere') for _ in range(3)]
    trunks = [
        neutron_networks.add_trunk(state, ports[0]),
        neutron_networks.add_trunk(state, others[0], [ports[1]]),
        neutron_networks.add_trunk(state, others[1], [others[2]]),
    ]
    state.queries.clear()
    assert world.ended(lease).status == 'TERMINATED'
    asked = [query.get('id') for path, query in state.queries if path.endswith('/trunks')]
    assert asked == ([[each['id']] for each in trunks[:2]] if named else [None] * 2)
    assert list(state.trunks.values()) == [{**trunks[1], 'sub_ports': []}, trunks[2]]


def test_end_finds_its_own_without_the_mark_that_the_owner_changed(world):
    lease = world.started()
    (network,) = world.made()
    world.state.networks[network['id']] = network | {'description': 'mine', 'tags': []}
    world.ended(lease)
    assert world.made() == []


def test_end_of_what_has_not_begun_leaves_the_present_holder_alone(world):
    world.started(segment_id=FIRST)
    later = world.lease(**NEXT, segment_id=FIRST)
    foreign = other(world, 300, project_id='other-id', description=mark(later.reservations[0].id))
    world.engine.operations.delete_lease(world.owner, later.id)
    world.engine.run_until_idle()
    assert world.numbers() == [FIRST, foreign['provider:segmentation_id']]


def test_part_that_is_refused_keeps_nothing_else_from_being_torn_down(world):
    lease = world.started()
    (network,) = world.made()
    for _ in range(3):
        neutron_networks.add_port(world.state, network['id'])
    world.state.faults.append({'method': 'DELETE', 'path': 'ports', 'status': 500, 'count': 1})
    lease = world.ended(lease)
    assert len(world.state.network_ports) == 1
    assert world.engine.settle(lease.id, seconds=600).status == 'TERMINATED'


def test_segment_is_chosen_again_only_before_the_start(world):
    lease = world.lease(segment_id=FIRST, start='2082-12-01 13:00')
    lease = world.change(lease, segment_id=None, resources='switch=tor2')
    assert shown(lease)['segment_id'] in (SECOND, THIRD)
    running = world.started(segment_id=FIRST)
    for changed in ({'segment_id': None}, {'resources': 'switch=tor2'}):
        with pytest.raises(exceptions.BadRequest) as caught:
            world.change(running, **changed)
        (field,) = changed
        assert str(caught.value) == (
            f'{field}: cannot be changed any more: the network exists, and keeps its segment, '
            f'VLAN {FIRST} of physnet1.'
        )
        assert caught.value.field == field
    assert world.numbers() == [FIRST]


def test_network_gets_the_name_that_was_changed_before_its_start_and_no_other(world):
    later = {'start': '2082-12-01 13:00'}
    lease = world.lease(**later, network_description='old', segment_id=SECOND)
    free = world.lease(**later, resources='switch=tor2')
    chosen = shown(free)['segment_id']
    new = {'network_name': 'net2', 'network_description': 'new', 'network_tags': ['mine']}
    for each in (lease, free):
        assert new.items() <= shown(world.change(each, **new)).items()
    assert shown(world.engine.lease(free.id))['segment_id'] == chosen
    world.engine.run_until_idle(hours=1)
    made = {each['provider:segmentation_id']: each for each in world.made()}[SECOND]
    assert (made['name'], made['description']) == ('net2', 'new')
    assert 'mine' in made['tags']
    for name, value in new.items():
        with pytest.raises(exceptions.InvalidState, match='openstack network set') as caught:
            world.change(lease, **{name: value * 2})
        assert caught.value.field == name
    assert world.change(lease, **new).status == 'ACTIVE'


def test_extension_keeps_the_segment_or_is_refused(world):
    running = world.started(segment_id=FIRST)
    following = world.lease(**NEXT, segment_id=FIRST)
    until = {'end_date': '2082-12-01 14:30'}
    with pytest.raises(exceptions.NotEnough):
        world.engine.operations.update_lease(world.owner, running.id, until)
    world.engine.operations.delete_lease(world.owner, following.id)
    world.engine.run_until_idle()
    world.engine.operations.update_lease(world.owner, running.id, until)
    assert shown(world.engine.lease(running.id))['segment_id'] == FIRST
    assert world.numbers() == [FIRST]


def test_lease_whose_network_is_deleted_has_lost_it(world):
    lease, kept = world.started(), world.started()
    found = [*lease.reservations, *kept.reservations]
    assert find_missing(world.plugin, found) == {}
    world.state.networks.pop(shown(lease)['network_id'])
    told = find_missing(world.plugin, found)
    assert [*told] == [lease.reservations[0].id]
    name = lease.reservations[0].params['network_name']
    assert told[lease.reservations[0].id].startswith(f'Network {name} (')
    assert world.ended(lease).status == 'TERMINATED'


def test_network_that_a_reservation_left_behind_is_found_and_discarded(world):
    ended, plugin = world.ended(world.started()), world.plugin
    lease, mine = world.started(), other(world, 300)
    (held,) = [e['id'] for e in world.made() if e['id'] != mine['id']]
    purged, left = (
        other(world, number, description=mark(each))
        for number, each in ((301, 'purged'), (302, ended.reservations[0].id))
    )
    neutron_networks.add_port(world.state, left['id'])
    found = reconciliation.find_orphans(world.engine.database, plugin)
    assert sorted(found) == sorted([purged['id'], left['id']])
    assert plugin.unleased_since(left['id']).isoformat() == '2082-12-01T12:00:00+00:00'
    assert plugin.unleased_since('no-such-id') is None
    for each in (purged, left, left):
        plugin.discard(each['id'])
    assert sorted(each['id'] for each in world.made()) == sorted([held, mine['id']])
    assert lease.status == 'ACTIVE'


def test_segment_is_kept_free_for_a_while_after_a_lease(world):
    options = world.plugin.conf
    options.set_override('cleaning_seconds', 600, group='network')
    world.lease(segment_id=FIRST)
    with pytest.raises(exceptions.NotEnough):
        world.lease(**NEXT, segment_id=FIRST)
    assert world.lease(start='2082-12-01 14:10', end='2082-12-01 15:00', segment_id=FIRST)


def test_same_request_again_is_the_same_lease(world):
    reservation = world.lease(segment_id=FIRST).reservations[0]
    values = world.asks() | {'segment_id': FIRST}
    assert is_found(world.plugin, reservation, values)
    assert not is_found(world.plugin, reservation, values | {'network_name': 'net2'})


def test_network_is_there_before_the_servers_of_its_lease_and_ends_after_them():
    assert NetworkPlugin.rank < ServerPlugin.rank
    assert NetworkPlugin.rank_at_end is ServerPlugin.rank_at_end is None
