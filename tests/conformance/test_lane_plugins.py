# SPDX-License-Identifier: Apache-2.0
"""What every plugin must do whose reservations the calendar promises on hosts.

A new one is a row of :data:`KINDS`. Placement is the real one.
"""

import datetime
import json

import pytest
import sqlalchemy as sa

from climate_common import lanes
from climate_core import exceptions
from climate_core.calendar.model import Order
from climate_core.db import tables
from climate_core.plugins.base import PollAgain
from climate_hosts import lane_providers
from climate_hosts.hosts import KIND
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_hosts.power import db as db_power
from tests.conformance.lane_world import FLAVOR, Kind, LaneWorld
from tests.support.fakes import cloud_server, flavors
from tests.support.fakes import placement as fake_placement
from tests.support.leases import is_found

SIZES = {'vcpus': 2, 'memory_mb': 1024, 'disk_gb': 10}
SHAPE = lanes.shape(2, 1024, 10, 0, 0, {})
#: Of room for servers.
NO_ROOM = [({'amount': 0}, 'amount'), ({'affinity': 'maybe'}, 'affinity')]
KINDS = {
    'hosts': Kind(
        HostPlugin,
        wanted={'min': 1},
        shape=None,
        slots=lane_providers.MAX_SLOTS,
        more={'min': 2},
        too_much={'min': 3},
        bad=[({'min': 0}, 'min'), ({'max': 0}, 'max'), ({'min': 2, 'max': 1}, 'max')],
    ),
    'flavor': Kind(
        CapacityPlugin,
        wanted={'flavor_id': FLAVOR['id'], 'amount': 3},
        shape=SHAPE,
        slots=3,
        more={'amount': 2, 'affinity': False},
        too_much={'amount': 100_000},
        bad=[({'flavor_id': 'unknown'}, 'flavor_id'), *NO_ROOM],
    ),
    'sizes': Kind(
        SizesPlugin,
        wanted={**SIZES, 'amount': 3},
        shape=SHAPE,
        slots=3,
        more={'amount': 2, 'affinity': False},
        too_much={'amount': 100_000},
        bad=[
            ({'vcpus': 0}, 'vcpus'),
            ({'disk_gb': -1}, 'disk_gb'),
            ({'ephemeral_gb': -1}, 'ephemeral_gb'),
            ({'extra_specs': {'quota:cpu_shares': '5'}}, 'extra_specs'),
            ({'extra_specs': {'trait:custom': 'required'}}, 'extra_specs'),
            ({'extra_specs': {'trait:CUSTOM_A': 1}}, 'extra_specs.trait:CUSTOM_A'),
            *NO_ROOM,
        ],
    ),
}
#: What none of them takes -> the field that is blamed.
BAD = [
    ({'resource_properties': '["~", "$a", "b"]'}, 'resource_properties'),
    ({'resource_properties': '["and"]'}, 'resource_properties'),
    ({'resource_properties': '["==", "rack", "7"]'}, 'resource_properties'),
    ({'resource_properties': '["==", "$unheard_of", "7"]'}, 'resource_properties'),
    ({'hypervisor_properties': '["=", '}, 'hypervisor_properties'),
    ({'hypervisor_properties': '{">=": ["$vcpus", 2]}'}, 'hypervisor_properties'),
    ({'resources': 'vcpus>>1'}, 'resources'),
    ({'resources': 'unheard_of==1'}, 'resources'),
    ({'traits': 'avx'}, 'traits'),
    ({'aggregates': ['!']}, 'aggregates'),
    ({'pool': 'none'}, 'pool'),
    ({'pool': LaneWorld.OTHERS}, 'pool'),
    ({'share_with': ['demo-id']}, 'share_with'),
]
#: What no host has -> the field that asks for it.
MISSING = [
    ({'names': 'nowhere'}, 'names'),
    ({'traits': 'CUSTOM_NONE'}, 'traits'),
    ({'resource_properties': '["==", "$traits", "CUSTOM_NONE"]'}, 'resource_properties'),
]


@pytest.fixture(autouse=True)
def room():
    """Each test has hosts of its own, which nobody has to clean."""


@pytest.fixture(params=sorted(KINDS))
def world(request, tmp_path):
    with cloud_server.running(tmp_path / 'journal') as server:
        flavors.add(server.state, **FLAVOR)
        made = LaneWorld(server, f'sqlite:///{tmp_path}/climate.sqlite', KINDS[request.param])
        yield made
        made.engine.database.dispose()


def rows(world):
    """Return how many leases and promises there are."""
    with world.engine.database.reader() as session:
        return [
            session.scalar(sa.select(sa.func.count()).select_from(each))
            for each in (tables.LEASES, tables.RESERVATIONS, tables.ALLOCATIONS)
        ]


def test_reserve_changes_nothing_and_says_the_same_again(world):
    first = world.plugin.reserve(world.user, world.ask())
    assert world.written(lambda: world.plugin.reserve(world.user, world.ask())) == 0
    second = world.plugin.reserve(world.user, world.ask())
    json.dumps(dict(first.params))
    assert (first.params, first.amounts) == (second.params, second.amounts)
    assert first.unit_kind == KIND
    assert first.resource_id != second.resource_id


def test_what_is_wanted_is_known_without_a_request_and_blames_a_field_of_the_schema(world):
    world.hosts.conf.set_override('cleaning_seconds', 60, group=world.plugin.resource_type)
    _, reservation = world.read(world.lease())
    world.state.requests.clear()
    wanted = world.plugin.read_demand(reservation)
    assert not world.state.requests
    assert wanted.field in world.plugin.schema
    assert (wanted.kind, wanted.after.total_seconds()) == (KIND, 60)
    assert is_found(world.plugin, reservation, world.ask())
    assert not is_found(world.plugin, reservation, world.ask(**world.kind.more))


def test_order_that_the_operator_chooses_is_wanted_of_the_calendar(world):
    _, reservation = world.read(world.lease())
    for order in Order:
        world.hosts.conf.set_override('order', str(order), group=world.plugin.resource_type)
        assert world.plugin.read_demand(reservation).order is order


def test_bad_input_names_its_field_and_leaves_nothing(world):
    world.restrict(1)
    too_much = (world.kind.too_much, world.plugin.amount_field)
    for values, field in (*BAD, *world.kind.bad, *MISSING, too_much):
        with pytest.raises(exceptions.ClimateError) as caught:
            world.lease(**values)
        assert 400 <= caught.value.status < 500, values
        assert caught.value.field == f'reservations[0].{field}', values
    assert rows(world) == [0, 0, 0]
    assert world.kept() == {}


def test_change_is_kept_and_refused_like_a_request(world):
    more = world.kind.more
    # As Blazar's clients send it.
    texts = {name: str(each) if isinstance(each, bool) else each for name, each in more.items()}
    assert world.plugin.normalize({**texts, 'hypervisor_properties': None}) == {
        **more,
        'hypervisor_properties': '',
    }
    longest = world.hosts.conf[world.plugin.resource_type].max_grace_seconds
    assert world.plugin.normalize({'grace': longest}) == {'grace': longest}
    for ask in (world.plugin.normalize, lambda values: world.lease(**values)):
        with pytest.raises(exceptions.BadRequest, match=str(longest)) as caught:
            ask({'grace': longest + 1})
        assert caught.value.field.endswith('grace')


@pytest.mark.parametrize(
    'asked',
    [
        '["==", "$id", "{}"]',
        '["and", ["=", "$id", {}], [">", "$vcpus", "0"]]',
        '["or", ["==", "$id", "{}"], ["==", "$vcpus", 0]]',
    ],
)
def test_filter_of_an_id_chooses_that_host(world, asked):
    host = world.hosts.read(1)
    lease = world.lease(resource_properties=asked.format(host.id))
    assert world.hosts_of(lease) == {host.hypervisor_hostname}
    with pytest.raises(exceptions.NotEnough, match='no host has id==99') as caught:
        world.lease(resource_properties='["==", "$id", "99"]')
    assert caught.value.field == 'reservations[0].resource_properties'


@pytest.mark.parametrize('empty', ['[]', 'null', ''])
def test_empty_filter_is_shown_as_it_was_sent(world, empty):
    lease = world.lease(hypervisor_properties=empty, resource_properties=empty)
    _, reservation = world.read(lease)
    shown = reservation.params
    assert (shown['hypervisor_properties'], shown['resource_properties']) == (empty, empty)


def test_wake_up_opens_one_lane_to_those_who_may_enter_and_does_so_once(world):
    lease = world.lease(share_with=['other-id'])
    _, reservation = world.read(lease)
    assert world.wake_up(lease) is None
    (host,) = world.hosts_of(lease)
    own = lanes.lane_aggregates(reservation.id, ['demo-id', 'other-id'], world.kind.shape)
    assert world.kept() == {host: frozenset(own)}
    assert world.open() == {host: world.kind.slots}
    assert world.written(lambda: world.wake_up(lease)) == 0


def test_capacity_has_a_flavor_from_the_preparation_to_the_end(world):
    lease = world.lease()
    present, name = set(world.state.flavors), lease.reservations[0].id
    own = {name} - ({name} if world.kind.plugin is HostPlugin else set())
    world.plugin.prepare(*world.read(lease))
    assert world.state.flavors.keys() == present | own
    world.state.flavors.pop(name, None)
    assert world.wake_up(lease) is None
    assert world.state.flavors.keys() == present | own
    assert world.end(lease) is None
    assert world.state.flavors.keys() == present


def test_wake_up_of_what_is_promised_nothing(world):
    lease = world.lease()
    with world.engine.database.writer() as session:
        session.execute(tables.ALLOCATIONS.delete())
    with pytest.raises(exceptions.Permanent):
        world.wake_up(lease)


def test_wake_up_waits_for_the_servers_and_the_end_of_the_earlier_lease(world):
    earlier = world.lease(end='2082-12-01 13:00', names='cn1')
    later = world.lease(start='2082-12-01 13:00', names='cn1')
    assert world.wake_up(earlier) is None
    before = world.kept()
    assert 'still open to an earlier lease' in world.wake_up(later).reason
    server = world.enter(earlier)
    assert world.kept() == before
    assert isinstance(world.end(earlier), PollAgain)
    assert 'still has servers of an earlier lease' in world.wake_up(later).reason
    while world.end(earlier):
        pass
    assert world.deletes(server) == 1
    assert world.wake_up(later) is None
    assert world.open() == {'cn1': world.kind.slots}
    # An end that is late, or repeated, leaves alone what is another one's by now.
    assert world.written(lambda: world.end(earlier)) == (world.kind.plugin is not HostPlugin)
    assert world.open() == {'cn1': world.kind.slots}


def test_wake_up_waits_for_a_host_that_placement_lost(world):
    lease = world.lease()
    fault = {'method': 'GET', 'path': 'aggregates', 'status': 404, 'count': 1}
    world.state.faults.append(fault)
    wait = world.wake_up(lease)
    assert isinstance(wait, PollAgain)
    assert 'is not in Placement any more' in wait.reason
    assert world.wake_up(lease) is None


def test_end_leaves_a_server_of_another_project_as_it_is(world):
    """A nova-compute can give the slot of a lane to any server, in Placement."""
    lease = world.lease(share_with=['shared-id'])
    world.wake_up(lease)
    foreign, shared = world.enter(lease), world.enter(lease)
    world.state.servers[foreign]['project_id'] = 'other-id'
    world.state.servers[shared]['project_id'] = 'shared-id'
    for _ in range(5):
        wait = look_at_end(world, lease)
    assert f'{foreign}: It belongs to another project' in wait.reason
    assert (world.deletes(foreign), world.deletes(shared)) == (0, 1)


def test_end_closes_at_once_and_waits_until_it_is_empty(world):
    lease = world.lease()
    world.wake_up(lease)
    server = world.enter(lease)
    assert isinstance(world.end(lease), PollAgain)
    assert (world.open(), len(world.kept())) == ({}, 1)
    while world.end(lease):
        pass
    assert (world.kept(), world.deletes(server)) == ({}, 1)
    assert server not in world.state.servers
    assert world.end(lease) is None


def look_at_end(world, lease, minutes=0):
    """Look at the end of a lease, so many minutes later than the last time."""
    world.time.forward(minutes=minutes)
    wait = world.end(lease)
    if wait and wait.progress != world.read(lease)[1].progress:
        world.keep(lease, wait.progress)
    return wait


def test_server_whose_move_is_lost_is_told_then_reset_and_leaves(world):
    lease = world.lease()
    world.wake_up(lease)
    server = world.enter(lease)
    world.state.servers[server]['task_state'] = 'migrating'
    minutes = world.hosts.conf[world.plugin.resource_type].lost_move_minutes
    look_at_end(world, lease)
    look_at_end(world, lease)
    assert 'migrating without a change' in look_at_end(world, lease, minutes / 2).reason
    # Its guest is still copied.
    world.state.servers[server]['updated'] = '2082-12-01T12:30:00Z'
    assert look_at_end(world, lease, minutes / 2).repair is None
    assert look_at_end(world, lease, minutes).repair == 'reset_state'
    while look_at_end(world, lease):
        pass
    assert (world.kept(), world.deletes(server)) == ({}, 1)


def test_slot_that_a_migration_has_left_is_told_with_the_command(world):
    lease = world.lease()
    world.wake_up(lease)
    migration = world.enter(lease)
    del world.state.servers[migration]
    minutes = world.hosts.conf[world.plugin.resource_type].lost_move_minutes
    look_at_end(world, lease)
    look_at_end(world, lease)
    told = look_at_end(world, lease, minutes).reason
    assert f'must run: openstack resource provider allocation delete {migration}' in told
    fake_placement.remove_server(world.state, migration)
    assert world.end(lease) is None


def test_end_of_what_never_began(world):
    assert world.end(world.lease()) is None
    assert world.kept() == {}


def test_failed_host_is_left_and_another_one_opened(world):
    lease = world.lease()
    world.wake_up(lease)
    server = world.enter(lease)
    failed = world.fail(lease)
    assert world.reallocate(lease) is None
    (other,) = {'cn1', 'cn2'} - {failed}
    _, reservation = world.read(lease)
    assert world.hosts_of(lease) == {other}
    assert world.open() == {other: world.kind.slots}
    # Its server is still there.
    assert world.kept()[failed] == {lanes.ended_aggregate(reservation.id)}
    assert world.written(lambda: world.reallocate(lease)) == 0
    while world.end(lease):
        pass
    assert (world.kept(), world.deletes(server)) == ({}, 1)


def test_trouble_in_the_middle_is_told_and_done_with_by_the_next_look(world):
    lease = world.lease(**world.kind.more)
    assert len(world.hosts_of(lease)) == 2
    for step in (world.wake_up, world.end):
        for path in ('/aggregates', '/inventories'):
            fault = {'method': 'PUT', 'path': path, 'status': 503, 'count': 1}
            world.state.faults.append(fault)
            with pytest.raises(exceptions.Transient):
                step(lease)
        assert step(lease) is None
        assert len(world.open()) == (2 if step == world.wake_up else 0)
    assert world.kept() == {}


def test_preempt_closes_and_shelves_and_the_next_start_wakes(world):
    lease = world.lease()
    world.wake_up(lease)
    server = world.enter(lease)
    while isinstance(done := world.preempt(lease), PollAgain):
        world.keep(lease, done.progress)
    assert (world.kept(), world.open()) == ({}, {})
    assert world.state.servers[server]['status'] == 'SHELVED_OFFLOADED'
    assert world.written(lambda: world.preempt(lease)) == 0
    world.keep(lease, done.progress)
    while isinstance(wait := world.wake_up(lease), PollAgain):
        world.keep(lease, wait.progress)
    assert world.state.servers[server]['status'] == 'ACTIVE'
    assert len(world.open()) == 1


def test_start_waits_for_a_host_that_is_not_awake(world):
    host = world.hosts.read()
    database = world.engine.database
    database.write(db_power.start_sleep, host.id, datetime.timedelta(0))
    database.write(db_power.start_sleep, world.hosts.ids[1], datetime.timedelta(0))
    lease = world.lease()
    (name,) = world.hosts_of(lease)
    wait = world.wake_up(lease)
    assert isinstance(wait, PollAgain)
    assert wait.reason == f'Host {name} is being powered on.'
    assert world.kept() == {}
    for each in world.hosts.ids:
        database.write(db_power.mark_asleep, each)
        database.write(db_power.mark_waking, each)
        database.write(db_power.mark_awake, each)
    assert world.wake_up(lease) is None
    assert set(world.kept()) == {name}


def test_host_that_is_awake_is_promised_first(world):
    database = world.engine.database
    database.write(db_power.start_sleep, world.hosts.ids[0], datetime.timedelta(0))
    lease = world.lease()
    assert world.hosts_of(lease) == {world.hosts.read(1).hypervisor_hostname}
