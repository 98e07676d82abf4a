# SPDX-License-Identifier: Apache-2.0
"""Floating IPs that the calendar promises: registered, reserved, started, changed and ended."""

import pytest

from climate_core import exceptions
from climate_core.cloud import Cloud, errors
from climate_core.cloud import neutron as neutron_calls
from climate_core.plugins.base import Done
from climate_core.repair import reconciliation
from climate_core.repair.operator_repair import OperatorRepair
from climate_networks.cloud import mark, tag
from tests.conformance.floatingip_world import (
    ADDRESSES,
    END,
    FIRST,
    SECOND,
    THIRD,
    Addresses,
    shown,
)
from tests.conformance.promised_world import opened
from tests.support.fakes import neutron
from tests.support.kinds import kind_cell
from tests.support.missing import find_missing
from tests.support.world import NOON


@pytest.fixture(autouse=True)
def room():
    """Each test has addresses of its own."""


@pytest.fixture
def world(tmp_path):
    with opened(Addresses, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ('values', 'field', 'told'),
    [
        ({'floating_ip_address': '2001:db8::1'}, 'floating_ip_address', 'IPv4'),
        ({'floating_ip_address': '198.51.100.7'}, 'floating_ip_address', '203.0.113.0/24'),
        ({'floating_ip_address': '203.0.113.0'}, 'floating_ip_address', 'single host'),
        ({'floating_ip_address': '203.0.113.1'}, 'floating_ip_address', 'gateway'),
        ({'floating_ip_address': '203.0.113.205'}, 'floating_ip_address', 'allocation pool'),
        ({'floating_ip_address': neutron.ROUTER}, 'floating_ip_address', 'router_gateway'),
        ({'floating_ip_address': FIRST}, 'floating_ip_address', 'already'),
        ({'floating_ip_range': f'203.0.113.19-{FIRST}'}, 'floating_ip_range', 'already'),
        ({'floating_ip_range': '203.0.113.190-203.0.113.200'}, 'floating_ip_range', 'pool'),
        ({'floating_ip_range': '203.0.113.30-203.0.113.29'}, 'floating_ip_range', 'not after'),
        ({'floating_ip_range': '203.0.113.30'}, 'floating_ip_range', 'two IPv4'),
        ({'floating_ip_range': '203.0.113.2-203.0.114.9'}, 'floating_ip_range', '256'),
        ({'floating_network_id': neutron.NETWORK}, 'floating_network_id', 'external'),
        ({'floating_network_id': neutron.PORT}, 'floating_network_id', 'no network'),
    ],
)
def test_address_that_others_may_get_is_refused_and_nothing_written(world, values, field, told):
    if 'floating_network_id' in values:
        values['floating_ip_address'] = '203.0.113.30'
    with pytest.raises(exceptions.ClimateError, match=told) as caught:
        world.register(**values)
    assert 400 <= caught.value.status < 500
    assert caught.value.field == field
    assert world.lease(amount=3)
    with pytest.raises(exceptions.NotEnough):
        world.lease()


def test_address_of_a_running_lease_is_set_apart_already(world):
    lease = world.started(required_floatingips=[FIRST])
    assert lease
    told = f'floating_ip_address: {FIRST} is registered for leases already'
    with pytest.raises(exceptions.FloatingIpExists, match=told):
        world.register(floating_ip_address=FIRST)


def test_neutron_that_does_not_answer_the_operator_is_a_503(world):
    world.state.faults.append({'method': 'GET', 'path': 'subnets', 'status': 500, 'count': 1})
    with pytest.raises(exceptions.ServiceUnavailable):
        world.register(floating_ip_address='203.0.113.30')


@kind_cell('Floating IPs', 'scheduled')
def test_address_is_shown_at_once_without_a_request_to_neutron(world):
    world.state.requests.clear()
    body = {'start': '2082-12-01 13:00', 'amount': 2}
    statements = world.engine.statements(lambda: world.lease(**body))
    assert world.state.requests == []
    # What reads the lease again for this test is not a part of the create.
    assert len(statements) <= 14
    dates = {'start_date': '2082-12-01 16:00', 'end_date': '2082-12-01 17:00'}
    values = {'name': 'a', **dates, 'reservations': [world.asks() | {'amount': 2}]}
    create = world.engine.operations.creator.create_lease
    warm = world.engine.statements(lambda: create(world.owner, values))
    # 6 more are COMMIT and what sends the notification (doc/source/contributor/bench.rst).
    assert len(warm) == 8
    lease = world.lease(start='2082-12-01 13:00')
    (address,) = shown(lease)
    assert address in ADDRESSES
    assert lease.kind == 'scheduled'
    assert world.in_neutron() == []


def test_no_address_is_promised_twice(world):
    leases = [world.lease(start='2082-12-01 13:00') for _ in ADDRESSES]
    assert sorted(address for each in leases for address in shown(each)) == ADDRESSES
    with pytest.raises(exceptions.NotEnough, match='floating IPs') as caught:
        world.lease(end='2082-12-01 13:30')
    assert caught.value.field == 'reservations[0].amount'
    assert caught.value.available_from.startswith('2082-12-01T14:00')
    assert world.lease(end='2082-12-01 13:00')


def test_address_that_is_required_is_promised(world):
    both = {'required_floatingips': [THIRD, FIRST]}
    assert shown(world.lease(**both)) == [FIRST, THIRD]
    with pytest.raises(exceptions.NotEnough) as caught:
        world.lease(required_floatingips=[FIRST])
    assert caught.value.field == 'reservations[0].required_floatingips'
    assert shown(world.lease(start=END, end='2082-12-01 15:00', **both)) == [FIRST, THIRD]


@pytest.mark.parametrize(
    ('values', 'field'),
    [
        ({'required_floatingips': [FIRST], 'amount': 2}, 'required_floatingips'),
        ({'required_floatingips': ['203.0.113.77']}, 'required_floatingips'),
        ({'network_id': neutron.NETWORK}, 'network_id'),
        ({'amount': 4}, 'amount'),
    ],
)
def test_what_never_can_be_promised_names_its_field(world, values, field):
    with pytest.raises(exceptions.ClimateError) as caught:
        world.lease(**values)
    assert 400 <= caught.value.status < 500
    assert caught.value.field == f'reservations[0].{field}'


@kind_cell('Floating IPs', 'retry')
def test_lease_of_the_kind_retry_waits_for_an_address(world):
    first = world.lease(amount=3)
    waiting = world.lease(kind='retry')
    assert waiting.status == 'WAITING'
    world.engine.settle(first.id)
    world.ended(first)
    world.engine.operations.queue.grant_waiting()
    assert world.engine.settle(waiting.id).status == 'ACTIVE'


@kind_cell('Floating IPs', 'immediate')
def test_start_makes_addresses_of_the_owner_with_three_requests_each(world):
    lease = world.lease(amount=2, kind='immediate')
    world.asked()
    lease = world.engine.settle(lease.id)
    assert (lease.kind, lease.status) == ('immediate', 'ACTIVE')
    assert world.asked() == ['GET', 'POST', 'PUT', 'POST', 'PUT']
    (reservation,) = lease.reservations
    assert world.in_neutron() == shown(lease)
    for each in world.made():
        assert each['project_id'] == 'demo-id'
        assert (each['description'], each['tags']) == (
            mark(reservation.id),
            [tag(reservation.id)],
        )


def test_wake_up_again_makes_nothing(world):
    lease = world.started()
    world.asked()
    done = world.plugin.start(lease, *lease.reservations)
    assert done == Done(lease.reservations[0].progress)
    assert world.asked() == []


@pytest.mark.parametrize('status', [0, 500, 409])
@pytest.mark.parametrize('method', ['POST', 'PUT'])
@pytest.mark.parametrize('after', [False, True])
def test_trouble_at_the_start_leaves_one_address_of_each(world, method, status, after):
    """Also if a request was done whose answer was lost."""
    world.state.faults.append(
        {'method': method, 'path': 'floatingips', 'status': status, 'count': 1, 'after': after}
    )
    lease = world.engine.settle(world.lease(amount=2).id)
    if lease.status != 'ACTIVE':
        lease = world.engine.settle(lease.id, seconds=60)
    assert lease.status == 'ACTIVE'
    assert world.in_neutron() == shown(lease)
    assert all(each['tags'] for each in world.made())
    world.ended(lease)
    assert world.in_neutron() == []


def test_address_of_an_earlier_lease_is_waited_for(world):
    neutron.add(world.state, floating_ip_address=FIRST, description=mark('another'))
    lease = world.started(required_floatingips=[FIRST])
    assert lease.status == 'STARTING'
    wait = world.plugin.start(lease, *lease.reservations)
    assert 'earlier lease' in wait.reason
    world.state.floatingips.clear()
    assert world.engine.settle(lease.id, seconds=60).status == 'ACTIVE'


def test_address_that_is_in_use_is_told_and_never_taken_from_its_holder(world):
    world.register(floating_ip_address='203.0.113.30')
    neutron.add(world.state, floating_ip_address='203.0.113.30', project_id='other-id')
    lease = world.started(required_floatingips=['203.0.113.30'])
    assert 'an operator must free' in lease.reservations[0].status_reason
    world.ended(lease)
    assert world.in_neutron() == ['203.0.113.30']


def test_end_takes_back_what_is_associated_and_forwarded(world):
    lease = world.started(amount=2)
    first, second = shown(lease)
    world.set(first, port_id=neutron.PORT)
    world.set(second, port_forwardings=['one', 'two'])
    world.asked()
    assert world.ended(lease).status == 'TERMINATED'
    assert sorted(world.asked()) == sorted(['GET', 'DELETE', *['DELETE'] * 4, 'GET'])
    assert world.in_neutron() == []
    assert world.plugin.end(lease, *lease.reservations) is None


def test_end_finds_its_own_without_the_mark_that_the_owner_changed(world):
    lease = world.started()
    world.set(shown(lease)[0], description='mine', tags=[])
    world.ended(lease)
    assert world.in_neutron() == []


def test_end_of_what_has_not_begun_leaves_the_present_holder_alone(world):
    """Blazar deletes by the address, whatever has it."""
    now = world.started(required_floatingips=[FIRST])
    later = world.lease(start=END, end='2082-12-01 15:00', required_floatingips=[FIRST])
    neutron.add(
        world.state,
        floating_ip_address='203.0.113.40',
        project_id='other-id',
        description=mark(later.reservations[0].id),
    )
    world.engine.operations.delete_lease(world.owner, later.id)
    world.engine.run_until_idle()
    assert world.in_neutron() == [*shown(now), '203.0.113.40']


def test_end_that_fails_in_part_deletes_the_rest_and_goes_on(world):
    lease = world.started(amount=3)
    world.state.faults.append(
        {'method': 'DELETE', 'path': 'floatingips', 'status': 500, 'count': 1}
    )
    ending = world.ended(lease)
    assert len(world.in_neutron()) == 1
    with pytest.raises(exceptions.NotEnough):
        world.lease(amount=3)
    world.engine.settle(ending.id, seconds=600)
    assert world.in_neutron() == []


def test_more_and_fewer_addresses_while_the_lease_runs(world):
    lease = world.change(world.started(), amount=3)
    assert world.in_neutron() == ADDRESSES
    world.set(SECOND, port_id=neutron.PORT)
    lease = world.change(lease, amount=1)
    assert world.in_neutron() == shown(lease) == [SECOND]
    assert world.lease(amount=2)
    with pytest.raises(exceptions.BadRequest, match='required_floatingips'):
        world.change(lease, required_floatingips=[FIRST])


@pytest.mark.parametrize('address', ADDRESSES)
def test_address_that_its_owner_deleted_is_given_back_first(world, address):
    lease = world.started(amount=3)
    floatingips = world.state.floatingips
    (deleted,) = (
        each for each, row in floatingips.items() if row['floating_ip_address'] == address
    )
    del floatingips[deleted]
    lease = world.change(lease, amount=2)
    assert world.in_neutron() == shown(lease) == [each for each in ADDRESSES if each != address]


def test_address_that_is_associated_is_not_given_back(world):
    lease = world.started(amount=2)
    for address in shown(lease):
        world.set(address, port_id=neutron.PORT)
    with pytest.raises(exceptions.InvalidState, match='Disassociate') as caught:
        world.change(lease, amount=1)
    assert caught.value.field == 'amount'
    assert world.in_neutron() == shown(lease)


def test_address_that_another_has_by_now_is_given_back_first(world):
    lease = world.started(amount=2)
    lost, kept = shown(lease)
    (made,) = (each['id'] for each in world.made() if each['floating_ip_address'] == lost)
    del world.state.floatingips[made]
    neutron.add(world.state, floating_ip_address=lost, project_id='other-id', port_id=neutron.PORT)
    assert shown(world.change(lease, amount=1)) == [kept]
    assert world.in_neutron() == sorted([lost, kept])


def test_lease_whose_addresses_are_all_deleted_has_lost_them(world):
    lease = world.started(amount=2)
    world.asked()
    assert find_missing(world.plugin, lease.reservations) == {}
    world.state.floatingips.popitem()
    assert find_missing(world.plugin, lease.reservations) == {}
    world.state.floatingips.clear()
    found = find_missing(world.plugin, lease.reservations)
    assert list(found) == [lease.reservations[0].id]
    assert world.asked() == ['GET'] * 3


def test_what_is_missing_is_asked_for_by_the_ids_of_the_leases_alone(world, monkeypatch):
    monkeypatch.setattr(neutron_calls, '_IDS_PER_REQUEST', 2)
    leases = [world.started(), world.started(amount=2)]
    made = {each['id'] for each in world.made()}
    neutron.add(world.state, floating_ip_address='203.0.113.99', project_id='other-id')
    world.state.queries.clear()
    reservations = [each for lease in leases for each in lease.reservations]
    assert find_missing(world.plugin, reservations) == {}
    asked = [query['id'] for path, query in world.state.queries if path.endswith('/floatingips')]
    assert [len(each) for each in asked] == [2, 1]
    assert {one for each in asked for one in each} == made


def test_service_that_does_not_see_every_project_misses_no_addresses(world):
    lease = world.started()
    world.state.users['climate-id']['roles'] = ['member']
    # With a new token.
    world.plugin.cloud = Cloud(world.cloud.conf)
    with pytest.raises(errors.Forbidden, match='does not see the floating IPs'):
        find_missing(world.plugin, lease.reservations)


def test_address_that_is_promised_is_not_given_back_to_neutron(world):
    lease = world.lease(amount=3)
    with pytest.raises(exceptions.FloatingIpInUse, match='1 reservation'):
        world.operations.delete_floatingip(world.operator, world.ids[0])
    world.engine.operations.delete_lease(world.owner, lease.id)
    world.engine.run_until_idle()
    world.operations.delete_floatingip(world.operator, world.ids[0])
    with pytest.raises(exceptions.NotEnough):
        world.lease(amount=3)
    with pytest.raises(exceptions.FloatingIpNotFound):
        world.operations.delete_floatingip(world.operator, world.ids[0])


def test_what_an_ended_reservation_has_left_is_found_and_deleted_by_repair(world):
    alive, ended = world.started(), world.ended(world.started())
    (reservation,) = ended.reservations
    others = {'project_id': 'demo-id', 'floating_ip_address': '203.0.113.200'}
    # Its mark may be changed by its owner; without it only what is known here is Climate's.
    left = [
        neutron.add(world.state, **{**others, **fields})['id']
        for fields in (
            {'description': mark(reservation.id)},
            {'tags': [tag(reservation.id)]},
            {'description': mark('of one that is purged')},
        )
    ]
    neutron.add(world.state, tags=[tag('of Blazar')], **others)
    neutron.add(world.state, **others)
    database = world.engine.database
    assert sorted(reconciliation.find_orphans(database, world.plugin)) == sorted(left)
    plugins = {world.plugin.resource_type: world.plugin}
    before = len(world.made())
    for yes in (False, True):
        found = [*OperatorRepair(database, plugins, yes).resources(NOON, 3600)]
        assert sorted(each.what for each in found) == sorted(left)
        assert {(each.done, each.trouble) for each in found} == {(yes, None)}
        assert 'reservation that has ended' in found[0].wrong
        assert len(world.made()) == before - len(left) * yes
    assert shown(alive)[0] in world.in_neutron()
    fresh = neutron.add(
        world.state, description=mark('x'), updated_at='2082-12-01T11:59:00Z', **others
    )
    (found,) = OperatorRepair(database, plugins, yes=True).resources(NOON, 3600)
    assert (found.what, found.action) == (fresh['id'], None)
