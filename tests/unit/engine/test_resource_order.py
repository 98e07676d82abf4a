# SPDX-License-Identifier: Apache-2.0
"""What is used is woken before what uses it, and ended after it."""

from collections.abc import Iterator

import pytest

from climate_core import exceptions
from climate_core.engine import plugin_calls
from climate_core.lease import model
from climate_core.plugins.base import PollAgain
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_networks.plugins.floatingips import FloatingIpPlugin, HeldFloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin
from tests.support.world import NOON, TYPE, Things, Time, World, statuses

BASE, PARENT = 'test:base', 'test:parent'


class Bases(Things):
    """What things stand on."""

    resource_type = BASE
    rank = 10


class Parents(Things):
    """What wakes things, and ends them."""

    resource_type = PARENT
    rank = 5
    rank_at_end = 100


class SelectiveParents(Parents):
    """Keeps only those waiting whose name ends as its own does."""

    def blocks(self, own: model.Reservation, other: model.Reservation) -> bool:
        return own.resource_id[-1] == other.resource_id[-1]


class RankedWorld(World):
    """The beginning of a name is a type of a rank of its own; one journal for all.

    ``seen`` has the statuses of a lease's reservations as each wake-up and end saw them.
    """

    def __init__(self, url: str, time: Time) -> None:
        super().__init__(url, time)
        self.bases, self.parents = Bases(), Parents()
        self.bases.journal = self.parents.journal = self.things.journal
        self.plugins |= {BASE: self.bases, PARENT: self.parents}

    def wanted(self, thing: str) -> dict[str, str]:
        types = {'base': BASE, 'parent': PARENT}
        kind = next((types[name] for name in types if thing.startswith(name)), TYPE)
        return {'resource_type': kind, 'resource_id': thing}

    def watch(self) -> list[dict[str, str]]:
        """Note what things see from now on: the statuses of a lease, by thing."""
        seen: list[dict[str, str]] = []
        act = self.things._act

        def look(
            lease: model.Lease, reservation: model.Reservation, *rest: str
        ) -> PollAgain | None:
            seen.append({each.resource_id: each.status for each in lease.reservations})
            return act(rest[0], reservation.resource_id, rest[1])

        self.things.start = lambda *both: look(*both, 'wake', 'awake')  # type: ignore[method-assign]
        self.things.end = lambda *both: look(*both, 'end', 'gone')  # type: ignore[method-assign]
        return seen


@pytest.fixture
def time() -> Time:
    return Time(NOON)


@pytest.fixture
def world(time: Time) -> Iterator[RankedWorld]:
    made = RankedWorld('sqlite://', time)
    yield made
    made.database.dispose()


@pytest.mark.parametrize(
    ('things', 'woken', 'ended'),
    [
        (
            'server1 base1 server2 base2',
            'base1 base2 server1 server2',
            'server1 server2 base1 base2',
        ),
        ('server1 base1 parent1', 'parent1 base1 server1', 'parent1 server1 base1'),
    ],
)
def test_the_order_of_a_life(world: RankedWorld, things: str, woken: str, ended: str) -> None:
    lease_id = world.create(*things.split())
    world.run_until_idle()
    assert world.things.journal == [('wake', each) for each in woken.split()]
    world.things.journal.clear()
    assert world.settle(lease_id, hours=2).status == 'TERMINATED'
    assert world.things.journal == [('end', each) for each in ended.split()]


def test_hosts_are_open_before_a_stack_is_woken_or_filled() -> None:
    """Its servers may be those that enter them."""
    plugins = {each.resource_type: each for each in (HostPlugin, StackPlugin)}
    names = (StackPlugin.resource_type, HostPlugin.resource_type)
    both = [model.new_reservation('lease', each, each, {}, NOON) for each in names]
    for ascending, expected in ((True, names[::-1]), (False, names)):
        found = plugin_calls.order_by_rank(both, plugins, ascending)  # type: ignore[arg-type]
        assert [[each.resource_type for each in some] for some in found] == [[e] for e in expected]


@pytest.mark.parametrize('trouble', [PollAgain(7), exceptions.Transient('It is away.')])
def test_nobody_is_woken_before_what_it_stands_on(
    world: RankedWorld, time: Time, trouble: object
) -> None:
    world.bases.answers['wake', 'base2'] = [trouble]
    lease_id = world.create('server1', 'base1', 'base2')
    world.run_until_idle()
    assert world.things.journal == [('wake', 'base1')]
    assert world.things.calls == []
    assert statuses(world.lease(lease_id).reservations) == ['pending', 'active', 'pending']
    (start,) = (e for e in world.lease(lease_id).events if e.event_type == 'start_lease')
    # The server is looked at together with what it waits for: not at once, not later.
    assert start.next_at is not None
    assert start.next_at > time()
    time.now = start.next_at
    world.run_until_idle()
    assert world.things.journal[1:] == [('wake', 'base2'), ('wake', 'server1')]
    assert world.lease(lease_id).status == 'ACTIVE'


def test_what_failed_for_good_keeps_nobody_asleep(world: RankedWorld) -> None:
    world.bases.answers['wake', 'base1'] = [exceptions.Permanent('It never will.')]
    lease_id = world.create('server1', 'base1')
    world.run_until_idle()
    assert world.things.journal == [('wake', 'server1')]
    lease = world.lease(lease_id)
    assert lease.status == 'ERROR'
    assert lease.status_reason == f'{BASE} base1: It never will.'


def test_what_was_given_up_at_the_end_wakes_nobody(world: RankedWorld, time: Time) -> None:
    """A server that runs for its last second would be kept as if it had been used."""
    world.bases.answers['wake', 'base1'] = [exceptions.Transient('It is away.')] * 100
    lease_id = world.create('server1', 'base1')
    while world.lease(lease_id).status == 'STARTING' or world.lease(lease_id).status == 'PENDING':
        assert world.run()
        (start,) = (e for e in world.lease(lease_id).events if e.event_type == 'start_lease')
        time.now = start.next_at or time.now
    lease = world.lease(lease_id)
    assert time() < lease.end_date
    assert statuses(lease.reservations) == ['error', 'error']
    assert world.things.journal == []
    reasons = [each.status_reason for each in lease.reservations]
    assert all('before the end of the lease' in str(each) for each in reasons)
    assert 'A resource that it may use is missing.' in str(reasons)
    time.now = lease.end_date
    world.run_until_idle()
    assert world.things.journal == [('end', 'server1'), ('end', 'base1')]


@pytest.mark.parametrize('trouble', [PollAgain(7), exceptions.Transient('It is away.')])
def test_nobody_loses_what_it_stands_on(world: RankedWorld, trouble: object) -> None:
    lease_id = world.create('base1', 'server1', 'server2')
    world.run_until_idle()
    world.things.answers['end', 'server2'] = [trouble]
    world.run_until_idle(hours=2)
    assert world.bases.calls == [('wake', 'base1')]
    assert world.things.state == {'server1': 'gone', 'server2': 'awake'}
    world.run_until_idle(hours=1)
    assert world.things.journal[-2:] == [('end', 'server2'), ('end', 'base1')]
    assert world.lease(lease_id).status == 'TERMINATED'


def test_one_that_joins_stands_on_what_is_awake(world: RankedWorld) -> None:
    lease_id = world.create('base1')
    world.run_until_idle()
    world.join(lease_id, 'server1')
    world.join(lease_id, 'base2')
    world.run_until_idle()
    assert world.things.journal == [
        ('wake', 'base1'),
        ('wake', 'base2'),
        ('wake', 'server1'),
    ]


def test_one_that_is_given_back_waits_for_nobody(world: RankedWorld) -> None:
    lease_id = world.create('base1', 'server1')
    world.run_until_idle()
    world.remove(lease_id, 'base1')
    world.run_until_idle()
    assert world.things.journal[-1] == ('end', 'base1')
    assert world.things.state == {'server1': 'awake'}


@pytest.mark.parametrize('trouble', [PollAgain(7), exceptions.Transient('It is away.')])
def test_everybody_waits_for_the_end_of_a_parent(world: RankedWorld, trouble: object) -> None:
    lease_id = world.create('base1', 'parent1', 'server1')
    world.run_until_idle()
    world.parents.answers['end', 'parent1'] = [trouble]
    world.run_until_idle(hours=2)
    assert set(world.things.state.values()) == {'awake'}
    assert world.settle(lease_id, hours=1).status == 'TERMINATED'


def test_those_that_come_later_see_what_became_of_the_others(world: RankedWorld) -> None:
    seen = world.watch()
    world.parents.answers['wake', 'parent1'] = [exceptions.Permanent('It never will.')]
    lease_id = world.create('parent1', 'parent2', 'server1')
    world.run_until_idle()
    world.run_until_idle(hours=2)
    assert seen == [
        {'parent1': 'error', 'parent2': 'active', 'server1': 'pending'},
        {'parent1': 'deleted', 'parent2': 'deleted', 'server1': 'active'},
    ]
    (one, two, _) = world.lease(lease_id).reservations
    assert (one.woken_at, two.woken_at is None) == (None, False)


@pytest.fixture
def selective(world: RankedWorld) -> RankedWorld:
    """Return a world in which each parent has members of its own."""
    parents = SelectiveParents()
    parents.journal = world.things.journal
    world.parents = world.plugins[PARENT] = parents
    return world


@pytest.mark.parametrize('trouble', [PollAgain(7), exceptions.Transient('It is away.')])
def test_a_parent_keeps_only_its_own_asleep(selective: RankedWorld, trouble: object) -> None:
    """Nor does what waits for the parent keep anybody else asleep."""
    selective.parents.answers['wake', 'parent1'] = [trouble]
    lease_id = selective.create('parent1', 'base1', 'base2', 'server1', 'server2')
    selective.run_until_idle()
    assert selective.things.journal == [('wake', 'base2'), ('wake', 'server2')]
    assert selective.lease(lease_id).status == 'STARTING'
    selective.run_until_idle(minutes=1)
    assert selective.things.journal[2:] == [
        ('wake', 'parent1'),
        ('wake', 'base1'),
        ('wake', 'server1'),
    ]
    assert selective.lease(lease_id).status == 'ACTIVE'


@pytest.mark.parametrize('trouble', [PollAgain(7), exceptions.Transient('It is away.')])
def test_a_parent_keeps_only_its_own_from_ending(selective: RankedWorld, trouble: object) -> None:
    lease_id = selective.create('parent1', 'base1', 'base2', 'server1', 'server2')
    selective.run_until_idle()
    selective.things.journal.clear()
    selective.parents.answers['end', 'parent1'] = [trouble]
    selective.run_until_idle(hours=2)
    assert selective.things.journal == [('end', 'server2'), ('end', 'base2')]
    assert selective.settle(lease_id, minutes=10).status == 'TERMINATED'


def test_one_that_others_than_its_parent_keep_waiting(selective: RankedWorld) -> None:
    selective.parents.answers['wake', 'parent1'] = [PollAgain(7)]
    selective.bases.answers['wake', 'base2'] = [PollAgain(9)]
    selective.create('parent1', 'base1', 'base2', 'server3')
    selective.run_until_idle()
    assert selective.things.journal == []


def test_a_parent_that_is_given_up_keeps_its_own_asleep(selective: RankedWorld) -> None:
    """Only its own have lost what they may use."""
    selective.parents.answers['wake', 'parent1'] = [exceptions.Permanent('It never will.')]
    lease_id = selective.create('parent1', 'server1', 'server2', end='2082-12-01 12:00:01')
    selective.run_until_idle()
    assert statuses(selective.lease(lease_id).reservations) == ['error', 'error', 'active']
    assert selective.things.journal == [('wake', 'server2')]


def test_addresses_and_networks_are_there_before_what_uses_them() -> None:
    for each in (FloatingIpPlugin, HeldFloatingIpPlugin, NetworkPlugin):
        assert all(each.rank < other.rank for other in (StackPlugin, ServerPlugin))
