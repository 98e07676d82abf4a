# SPDX-License-Identifier: Apache-2.0
"""Leases of whole hosts, from the request to the end, against a whole nova and its placement."""

import pytest

from climate_common import lanes
from climate_core import exceptions
from climate_core.cloud import servers
from climate_core.db import usage as db_usage
from climate_core.delivery import usage
from climate_core.lease import views
from climate_core.operations import shrink as operations
from climate_hosts import lane_providers, placement
from climate_hosts.db import hosts as db
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_hosts.plugins.lane_plugin import lane_of
from climate_hosts.watch.refresh import HostRefresher
from climate_hosts.watch.repair import HostRepair
from tests.functional.nova.host_leases import OTHERS, HostLeasesTest
from tests.functional.nova.hosts import Crash
from tests.support import quotas
from tests.support.created import get_id
from tests.support.world import NOON, user


class TestHostLeases(HostLeasesTest):
    def test_hosts_are_entered_by_the_project_from_the_start_to_the_end(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=1)
        (reservation,) = lease.reservations
        assert (lease.status, reservation.unit_kind) == ('PENDING', 'host')
        (host,) = self.hosts_of(lease)
        assert views.common_reservation(reservation)['hosts'] == [host]
        assert self.refused(lease)

        lease = self.settled(lease, hours=1)
        assert lease.status == 'ACTIVE'
        server, found = self.inside(lease)
        assert found == host
        assert self.inside(lease, api=self.others_api)[1] is None
        assert self.host_of(self.boot()) == 'host3'

        lease = self.settled(lease, hours=1)
        assert (lease.status, lease.status_reason) == ('TERMINATED', None)
        self._wait_until_deleted(server)
        assert self.refused(lease)
        assert placement.list_consumers(self.cloud.service(), self.provider(host)) == []

    def test_two_of_three_hosts_if_no_more_are_free_but_not_less_than_the_least(self):
        many = self.lease_hosts(min=1, max=3)
        assert self.hosts_of(many) == {'host1', 'host2'}
        trusts = set(self.world.trusts.present)
        with pytest.raises(exceptions.NotEnough, match='from 2082-12-01 14:00 UTC on') as caught:
            self.lease_hosts(min=1, name='one more')
        assert caught.value.field == 'reservations[0].min'
        assert self.world.trusts.present == trusts
        self.lease_hosts('2082-12-01 14:00', '2082-12-01 15:00', min=2, name='next')
        # Only those that it got count, in its own time.
        day = usage.Span(NOON, NOON + usage.DAY)
        uses = self.world.database.read(lambda session: [*db_usage.read_uses(session, day)])
        assert [(each.amounts, each.held_at.hour) for each in uses] == [
            ({'hosts': 2}, 12),
            ({'hosts': 2}, 14),
        ]

    def test_deleted_lease_gives_its_hosts_back_at_once(self):
        first = self.lease_hosts('2082-12-01 13:00', min=2)
        self.world.operations.delete_lease(self.world.owner(first.id), first.id)
        self.settled(first)
        second = self.lease_hosts('2082-12-01 13:00', min=2, name='second')
        assert self.hosts_of(second) == {'host1', 'host2'}

    def test_lease_that_ends_early_gives_its_hosts_back(self):
        first = self.settled(self.lease_hosts(min=2))
        assert first.status == 'ACTIVE'
        self.world.operations.end_lease(self.world.owner(first.id), first.id)
        assert self.settled(first, seconds=1).status == 'TERMINATED'
        second = self.settled(self.lease_hosts(min=2, project=OTHERS, name='second'))
        (reservation,) = second.reservations
        server = self.boot({'reservation': reservation.id}, api=self.others_api)
        assert self.host_of(server) in self.POOL

    def test_hosts_are_kept_free_after_a_lease_while_they_are_cleaned(self):
        self.conf.set_override('cleaning_seconds', 600, group='physical:host')
        first = self.settled(self.lease_hosts(end='2082-12-01 13:00', min=2))
        assert self.settled(first, hours=1).status == 'TERMINATED'
        with pytest.raises(exceptions.NotEnough, match='from 2082-12-01 13:10 UTC on') as caught:
            self.lease_hosts('2082-12-01 13:05', min=1, name='second')
        self.lease_hosts(caught.value.available_from, min=1, name='third')

    def test_start_waits_until_a_host_is_empty(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=1, names='host1')
        consumer = self.claim(self.provider(), {'VCPU': 1})
        lease = self.settled(lease, hours=1, looks=2)
        assert lease.status == 'STARTING'
        assert 'Host host1 still has servers of an earlier lease' in lease.status_reason
        self.placement.delete(f'/allocations/{consumer}', version='1.39')
        assert self.settled(lease, seconds=2).status == 'ACTIVE'

    def test_lane_that_a_manager_opens_after_the_end_is_closed(self):
        """It stood still on the way of the start."""
        old = self.settled(self.lease_hosts(min=1, names='host1', end='2082-12-01 13:00'))
        assert self.settled(old, hours=1).status == 'TERMINATED'
        first = self.settled(self.lease_hosts(min=1, names='host1'))
        assert self.settled(first, hours=2).status == 'TERMINATED'
        self.world.plugins[self.TYPE].start(first, first.reservations[0])
        assert self.inside(first)[1] == 'host1'
        self.cloud.requests.clear()
        HostRefresher(self.conf, self.world.database, self.cloud).refresh()
        assert self.refused(first)
        # However many leases have had the lane, it is looked at once, and written twice.
        lane_id = lane_of(first.reservations[0].allocations[0])
        asked = [method for method, path in self.cloud.requests if lane_id in path]
        assert asked == ['GET', 'GET', 'PUT', 'PUT']

    def test_start_says_how_it_can_go_on_and_does_so(self):
        """The lane is open to a lease that was purged."""
        lane_id = self.world.database.read(db.find, 'host1').lane_ids[0]
        conn = self.cloud.service()
        lane_providers.set_lane_aggregates(conn, lane_id, [lanes.reservation_aggregate('purged')])
        lane_providers.set_slots(conn, lane_id, 3, is_open=True)
        lease = self.settled(self.lease_hosts(min=1, names='host1'))
        assert lease.status == 'STARTING'
        assert 'climate-manage repair --yes' in lease.status_reason
        (found,) = HostRepair(self.world.database, conn, True).run()
        assert found.done
        lease = self.settled(lease, seconds=1)
        assert (lease.status, lease.status_reason) == ('ACTIVE', None)
        assert self.inside(lease)[1] == 'host1'

    def test_lane_of_a_lease_that_runs_is_made_anew_and_open_again(self):
        lease = self.settled(self.lease_hosts(min=1, names='host1'))
        lane_id = lane_of(lease.reservations[0].allocations[0])
        self.placement.delete(f'/resource_providers/{lane_id}', version='1.39')
        assert self.refused(lease)
        (found,) = HostRepair(self.world.database, self.cloud.service(), True).run()
        assert found.done
        lease = self.settled(lease)
        assert (lease.status, lease.status_reason) == ('ACTIVE', None)
        assert self.inside(lease)[1] == 'host1'

    def test_end_that_looks_again_leaves_the_next_lease_on_the_host_alone(self):
        first = self.settled(self.lease_hosts(end='2082-12-01 13:00', names='host1'))
        server, host = self.inside(first)
        assert host == 'host1'
        second = self.lease_hosts('2082-12-01 13:00', names='host1', name='second')
        assert self.settled(first, hours=1).status == 'TERMINATED'
        self._wait_until_deleted(server)
        assert self.settled(second).status == 'ACTIVE'
        assert self.inside(second)[1] == 'host1'

    def test_lease_that_runs_gets_more_hosts_at_once(self):
        lease = self.settled(self.lease_hosts(min=1))
        (host,) = self.open_to(lease)
        self.change(lease, min=2, max=2)
        assert self.open_to(lease) == {host}
        lease = self.settled(lease)
        assert (lease.status, self.open_to(lease)) == ('ACTIVE', {'host1', 'host2'})
        requests = len(self.cloud.requests)
        self.world.update(lease.id, end_date='2082-12-01 15:00')
        self.settled(lease)
        assert len(self.cloud.requests) == requests

    def test_lease_that_runs_gives_a_host_back_that_has_no_servers(self):
        self.conf.set_override('cleaning_seconds', 600, group='physical:host')
        lease = self.settled(self.lease_hosts(min=2))
        server, used = self.inside(lease)
        free = {'host1', 'host2'} - {used}
        self.cloud.requests.clear()
        self.change(lease, min=1, max=1)
        # Both are looked at, then the one that is closed; never all hosts of the pools.
        looks = [url for _, url in self.cloud.requests if 'allocation_candidates' in url]
        assert len(looks) == 3
        # It is closed before it is anybody else's.
        assert self.open_to(lease) == {used}
        lease = self.settled(lease)
        assert (lease.status, self.hosts_of(lease), self.open_to(lease)) == (
            'ACTIVE',
            {used},
            {used},
        )
        with pytest.raises(exceptions.NotEnough, match='from 2082-12-01 12:10 UTC on'):
            self.lease_hosts(min=1, project=OTHERS, name='too early')
        self.time.forward(seconds=600)
        other = self.settled(self.lease_hosts(min=1, project=OTHERS, name='other'))
        assert self.open_to(other) == free
        assert self.inside(lease)[1] == used
        assert self.settled(lease, hours=2).status == 'TERMINATED'
        self._wait_until_deleted(server)

    def test_hosts_with_servers_are_not_given_back(self):
        lease = self.settled(self.lease_hosts(min=2))
        both = {'host1', 'host2'}
        servers = [self.inside(lease) for _ in range(4)]
        assert {host for _, host in servers} == both
        before = lease.reservations[0]
        asked = len(self.cloud.requests)
        with pytest.raises(exceptions.InvalidState, match='servers on host1, host2') as caught:
            self.change(lease, min=1, max=1)
        assert caught.value.field == 'max'
        assert [method for method, _ in self.cloud.requests[asked:]] == ['GET', 'GET']
        assert self.open_to(lease) == both
        assert self.world.lease(lease.id).reservations[0] == before
        for server, host in servers:
            if host == 'host2':
                self.delete(server)
        self.change(lease, min=1, max=1)
        assert self.hosts_of(self.world.lease(lease.id)) == {'host1'}

    def test_host_to_which_a_server_comes_while_it_is_closed_is_opened_again(self):
        lease = self.settled(self.lease_hosts(min=2))
        both = {'host1', 'host2'}

        def enter(method, _path):
            if method == 'PUT':
                self.cloud.before = lambda *_: None
                assert {self.inside(lease)[1] for _ in range(2)} == both

        self.cloud.before = enter
        with pytest.raises(exceptions.InvalidState, match='Servers entered'):
            self.change(lease, min=1, max=1)
        lease = self.settled(lease)
        assert (lease.status, lease.status_reason) == ('ACTIVE', None)
        assert (self.hosts_of(lease), self.open_to(lease)) == (both, both)
        assert lease.reservations[0].params['max'] == 2

    def test_equal_reservations_of_a_lease_join_it_once_each(self):
        lease_id = '6f1c2d90-3b7e-4a58-9c04-d1e27b85f3a6'
        body = {'id': lease_id, 'name': 'lease', 'start_date': '2082-12-01 13:00'}
        body |= {'end_date': '2082-12-01 14:00', 'may_join': True}
        create = self.world.operations.creator.create_lease
        for asked, had in ((1, 1), (2, 2), (2, 2), (1, 2)):
            hosts = [{'resource_type': self.TYPE, 'min': 1}] * asked
            assert get_id(create(user(), {**body, 'reservations': hosts})) == lease_id
            reservations = self.world.lease(lease_id).reservations
            units = {each.allocations[0].unit_id for each in reservations}
            assert (len(reservations), len(units)) == (had, had)

    def test_change_of_a_lease_is_judged_by_the_calendar(self):
        first = self.lease_hosts('2082-12-01 13:00', '2082-12-01 14:00', min=2)
        self.lease_hosts('2082-12-01 15:00', '2082-12-01 16:00', min=1, name='second')
        self.world.update(first.id, end_date='2082-12-01 15:00')
        with pytest.raises(exceptions.NotEnough) as caught:
            self.world.update(first.id, end_date='2082-12-01 15:01')
        assert caught.value.field == 'end_date'
        (reservation,) = first.reservations
        shorter = {'id': reservation.id, 'min': 1, 'max': 1}
        self.world.update(first.id, end_date='2082-12-01 15:01', reservations=[shorter])
        assert len(self.hosts_of(self.world.lease(first.id))) == 1

    def test_more_hosts_are_counted_and_limited(self):
        self.world.operations.quota.project_limits = keystone = quotas.Keystone(reserved_hosts=1)
        lease = self.lease_hosts('2082-12-01 13:00', min=1)
        (reservation,) = lease.reservations
        more = {'id': reservation.id, 'min': 2, 'max': 2}
        with pytest.raises(exceptions.LimitExceeded):
            self.world.update(lease.id, reservations=[more])
        keystone.most['reserved_hosts'] = 2
        self.world.update(lease.id, reservations=[more])
        (reservation,) = self.world.lease(lease.id).reservations
        assert (reservation.amounts, len(reservation.allocations)) == ({'hosts': 2}, 2)

    def test_bad_requests_name_the_field_and_leave_nothing(self):
        for wanted, field in (
            ({'min': 2, 'max': 1}, 'max'),
            ({'min': 3}, 'min'),
            ({'resources': 'gpus>=1'}, 'resources'),
            ({'traits': 'ssd'}, 'traits'),
            ({'pool': 'other'}, 'pool'),
        ):
            with pytest.raises(exceptions.ClimateError) as caught:
                self.lease_hosts(**wanted)
            assert caught.value.field == f'reservations[0].{field}', wanted
            assert caught.value.status in (400, 404, 409)
        assert not self.world.trusts.present


class TestCapacityLeases(HostLeasesTest):
    TYPE = CapacityPlugin.resource_type

    def lease_room(self, amount, **wanted):
        """Lease room for servers of the flavor of the tests now, and return the ACTIVE lease."""
        wanted = {'flavor_id': self.flavor['id'], 'amount': amount, **wanted}
        lease = self.settled(self.lease_hosts(**wanted))
        assert lease.status == 'ACTIVE', lease.status_reason
        return lease

    def test_so_many_servers_of_the_flavor_get_in_and_no_more(self):
        lease = self.lease_room(2, names='host1')
        others = self.lease_room(1, project=OTHERS, name='others', names='host1')
        big = self.admin_api.get_flavors()[1]['id']
        assert self.inside(lease, flavorRef=big)[1] is None
        first, _ = self.inside(lease)
        assert [self.inside(lease)[1] for _ in range(2)] == ['host1', None]
        self.delete(first)
        assert self.inside(lease)[1] == 'host1'
        assert self.inside(others, api=self.others_api)[1] == 'host1'
        # That of the others stays.
        assert self.settled(lease, hours=2).status == 'TERMINATED'
        found = placement.list_consumers(self.cloud.service(), self.provider())
        assert found == []

    def test_room_that_no_servers_have_is_given_back(self):
        lease = self.lease_room(4, affinity=True)
        for _ in range(2):
            server, host = self.inside(lease)
        with pytest.raises(exceptions.InvalidState, match='2 servers of the') as caught:
            self.change(lease, amount=1)
        assert caught.value.field == 'amount'
        self.change(lease, amount=2)
        (reservation,) = self.settled(lease).reservations
        assert (reservation.allocations[0].pieces, reservation.amounts['servers']) == (2, 2)
        assert self.inside(lease)[1] is None
        self.delete(server)
        assert [self.inside(lease)[1] for _ in range(2)] == [host, None]

    def test_lease_that_runs_gets_room_for_more_servers_at_once(self):
        lease = self.lease_room(1, names='host1')
        for amount in (1, 2):
            self.change(lease, amount=amount)
            self.settled(lease)
            assert [self.inside(lease)[1] for _ in range(2)] == ['host1', None]

    def test_room_on_a_host_without_servers_is_given_back_first(self):
        lease = self.lease_room(2, affinity=False)
        _, used = self.inside(lease)
        self.change(lease, amount=1)
        assert self.hosts_of(self.settled(lease)) == {used}
        assert self.inside(lease)[1] is None

    def test_affinity_puts_servers_on_one_host_or_on_several(self):
        apart = self.lease_room(2, affinity=False)
        assert self.hosts_of(apart) == {'host1', 'host2'}
        together = self.lease_room(2, affinity='True', name='together')
        assert len(self.hosts_of(together)) == 1
        with pytest.raises(exceptions.NotEnough):
            self.lease_room(3, affinity=False, name='three')

    def test_what_a_host_has_is_promised_once(self):
        host = self.world.database.read(db.find, 'host1')
        piece = servers.read_flavor_sizes(
            servers.get_flavor(self.cloud.service(), self.flavor['id'])
        )
        room = min(host.capacity[unit] // size for unit, size in piece.items() if size)
        self.lease_room(room, affinity=True, names='host1')
        with pytest.raises(exceptions.NotEnough) as caught:
            self.lease_room(1, name='one more', names='host1')
        assert caught.value.field == 'reservations[0].amount'
        self.TYPE = HostPlugin.resource_type
        with pytest.raises(exceptions.NotEnough):
            self.lease_hosts(names='host1')

    def test_flavor_that_is_not_there_is_refused(self):
        with pytest.raises(exceptions.ResourceNotFound) as caught:
            self.lease_hosts(flavor_id='nothing')
        assert caught.value.field == 'reservations[0].flavor_id'

    def test_shared_with_another_project(self):
        lease = self.lease_room(2, share_with=[OTHERS])
        assert self.inside(lease, api=self.others_api)[1] in self.POOL

    def test_open_matching_takes_servers_that_name_no_reservation_until_it_is_full(self):
        self.lease_room(1, matching='open', names='host1')
        assert [self.host_of(self.boot()) for _ in range(2)] == ['host1', 'host3']

    def test_open_matching_leaves_servers_of_others_alone_who_may_enter(self):
        """They do not see the lease, at whose end their servers would be deleted."""
        lease = self.lease_room(2, matching='open', share_with=[OTHERS], names='host1')
        assert self.host_of(self.boot(api=self.others_api)) == 'host3'
        assert self.inside(lease, api=self.others_api)[1] == 'host1'


class TestGivingBackIsCutOff(HostLeasesTest):
    def test_what_was_not_given_back_is_open_again(self):
        """It dies after each request, until nothing is left to do."""
        lease = self.settled(self.lease_hosts(min=2))
        both = {'host1', 'host2'}
        for answered in range(20):
            self.cloud.left = answered
            try:
                self.change(lease, min=1, max=1)
            except Crash:
                self.cloud.left = None
                lease = self.settled(lease, seconds=operations.UNDO_SECONDS + 10)
                assert (lease.status, self.hosts_of(lease)) == ('ACTIVE', both)
                assert self.open_to(lease) == both
            else:
                break
        self.cloud.left = None
        assert answered > 4
        assert self.open_to(lease) == self.hosts_of(self.world.lease(lease.id)) < both


class TestManagerDies(HostLeasesTest):
    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)

    def test_start_and_end_are_finished_by_the_next_manager(self):
        lease = self.lease_hosts('2082-12-01 13:00', min=1)
        self.time.forward(hours=1)
        assert self.die_and_go_on(lease) > 2
        assert self.world.lease(lease.id).status == 'ACTIVE'
        server, host = self.inside(lease)
        assert host == 'host1'
        self.time.forward(hours=1)
        assert self.die_and_go_on(lease) > 2
        assert self.world.lease(lease.id).status == 'TERMINATED'
        self._wait_until_deleted(server)
