# SPDX-License-Identifier: Apache-2.0
"""Shared hosts are emptied for leases of the kind best_effort, on a whole nova."""

import dataclasses
import uuid
from unittest import mock

import pytest
import sqlalchemy as sa

from climate_common import lanes
from climate_core import exceptions
from climate_core.cloud import placement
from climate_core.db import calendar
from climate_core.db import usage as db_usage
from climate_core.delivery import usage
from climate_hosts.db import hosts as db
from climate_hosts.operations import evacuation, shared_hosts
from climate_hosts.operations.shared_hosts import SharedHostReturner
from climate_hosts.watch.refresh import HostRefresher
from tests.functional.nova.host_leases import HostLeasesTest
from tests.functional.nova.hosts import Crash
from tests.support import quotas
from tests.support.created import get_id
from tests.support.kinds import kind_cell
from tests.support.world import user

MIGRATE = 'nova.compute.api.API.live_migrate'


class BestEffortTest(HostLeasesTest):
    """host1 and host2 are shared; host3 is for everybody."""

    POOL = ()
    SHARED = ('host1',)

    def setUp(self):
        super().setUp()
        self.world.operations.host_evacuation.cloud = self.cloud
        self.conf.set_override('spare_servers', 0, group='queue')
        self.shared = SharedHostReturner(self.world.database, self.cloud)
        for host in self.SHARED:
            self.enrol(host, shared=True)

    def boot_on(self, host):
        """Boot an ordinary server that may be moved away again."""
        server = self.boot(networks='none', api=self.admin_api, host=host)
        assert self.host_of(server) == host
        return server

    def ask(self, **values):
        """Create a lease of the kind best_effort, and return it."""
        asked = {key: values.pop(key) for key in ('best_effort_timeout',) if key in values}
        body = {'name': 'lease', 'duration': '2h', 'kind': 'best_effort', **asked}
        body['reservations'] = [{'resource_type': self.TYPE, **values}]
        context = user(self.api.project_id)
        return self.world.lease(get_id(self.world.operations.creator.create_lease(context, body)))

    def went_on(self, lease, looks=20):
        """Look again and again; return the lease as it is when nothing is waited for."""
        for _ in range(looks):
            lease = self.settled(lease, seconds=3)
            if lease.status not in ('IN_PROGRESS', 'STARTING'):
                break
        return lease

    def host(self, name='host1'):
        return self.world.database.read(db.find, name)

    def assert_given_back(self, *names):
        self.shared.poll()
        for name in names or self.SHARED:
            host = self.host(name)
            assert (host.open_to_unreserved, host.available, host.disabled_reason) == (
                True,
                False,
                None,
            ), name
            assert lanes.POOL not in self.aggregates(name)


class TestBestEffort(BestEffortTest):
    @kind_cell('Hosts', 'best_effort')
    def test_host_is_emptied_and_serves_ordinary_servers_again_at_the_end(self):
        servers = [self.boot_on('host1') for _ in range(2)]
        lease = self.ask()
        assert (lease.status, lease.kind) == ('IN_PROGRESS', 'best_effort')
        assert 'host' in lease.status_reason
        assert self.host().emptied_for == lease.id
        self.shared.poll()
        assert self.host().emptied_for == lease.id
        lease = self.went_on(lease)
        assert (lease.status, lease.status_reason) == ('ACTIVE', None)
        assert {self.show(each)['status'] for each in servers} == {'ACTIVE'}
        assert 'host1' not in {self.host_of(each) for each in servers}
        assert self.inside(lease)[1] == 'host1'
        self.shared.poll()
        assert self.host().available
        assert 'lease.event.make_room' in self.world.told()
        self.world.operations.end_lease(self.world.owner(lease.id), lease.id)
        assert self.settled(lease, seconds=1).status == 'TERMINATED'
        self.assert_given_back()
        self.boot_on('host1')

    def test_free_host_is_given_at_once(self):
        self.enrol('host2')
        assert self.settled(self.ask()).status == 'ACTIVE'
        assert self.host().open_to_unreserved

    def test_too_few_hosts_are_refused_and_leave_nothing(self):
        server = self.boot_on('host1')
        self._suspend_server(server)
        for wanted, told in (
            ({}, '1 in the status SUSPENDED'),
            ({'min': 2}, 'drained for it, and 2 must be'),
        ):
            with pytest.raises(exceptions.NotEnough, match=told):
                self.ask(**wanted)
        assert self.host().open_to_unreserved
        assert self.world.trusts.present == set()

    def test_what_is_not_empty_in_time_is_given_back(self):
        self.conf.set_override('migrations', 1, group='queue')
        server, _ = (self.boot_on('host1') for _ in range(2))
        with mock.patch(MIGRATE) as migrate:
            lease = self.settled(self.ask(best_effort_timeout=2))
            assert (lease.status, migrate.call_count) == ('IN_PROGRESS', 1)
            assert lease.status_reason == 'Hosts are being drained for it: moved 0 of 2.'
            lease = self.went_on(lease)
        assert lease.status == 'TIMEDOUT'
        assert 'No hosts were drained for it by' in lease.status_reason
        assert 'lease.event.make_room.error' in self.world.told()
        assert not lease.reservations[0].amounts
        self.assert_given_back()
        assert self.host_of(server) == 'host1'
        self.world.operations.delete_lease(self.world.owner(lease.id), lease.id)
        assert self.settled(lease).status == 'TERMINATED'

    def test_host_is_given_back_as_soon_as_placement_is_there_again(self):
        lease = self.ask()
        self.settled(lease)
        assert lanes.POOL in self.aggregates('host1')
        self.world.operations.end_lease(self.world.owner(lease.id), lease.id)
        self.settled(lease, seconds=1)

        def away(method, _url):
            if method == 'PUT':
                raise exceptions.Transient('Placement is away')

        self.cloud.before = away
        assert self.shared.poll() == 5
        assert (self.host().is_returning, self.host().is_isolated) == (True, False)
        with pytest.raises(exceptions.HostChanging, match='returned to ordinary'):
            self.operations.update_host(self.context, self.host().id, {'available': False})
        refresher = HostRefresher(self.conf, self.world.database, self.cloud)
        with self.assertNoLogs('climate_hosts.watch.refresh', 'WARNING'):
            refresher.refresh()
        self.cloud.before = lambda method, url: None
        self.assert_given_back()

    def test_host_that_was_disabled_is_given_back_so(self):
        lease = self.went_on(self.ask())
        self.operations.update_host(
            self.context, self.host().id, {'available': False, 'disabled_reason': 'disk'}
        )
        self.world.operations.end_lease(self.world.owner(lease.id), lease.id)
        self.settled(lease, seconds=1)
        self.shared.poll()
        host = self.host()
        assert (host.open_to_unreserved, host.available, host.disabled_reason) == (
            True,
            False,
            'disk',
        )

    def test_end_of_a_lease_that_waits_for_hosts_has_them_given_back_at_once(self):
        lease, freed = self.ask(), []
        self.world.database.listen(calendar.FREED, lambda: freed.append(1))
        self.world.operations.end_lease(self.world.owner(lease.id), lease.id)
        assert freed

    def test_host_that_is_free_meanwhile_is_given_in_place_of_one_that_is_emptied(self):
        server = self.boot_on('host1')
        with mock.patch(MIGRATE):
            lease = self.settled(self.ask())
            assert lease.status == 'IN_PROGRESS'
            self.enrol('host2')
            lease = self.went_on(lease)
        assert lease.status == 'ACTIVE'
        assert self.inside(lease)[1] == 'host2'
        self.assert_given_back()
        assert self.host_of(server) == 'host1'

    def test_host_that_is_lost_to_the_lease_is_not_promised_to_it(self):
        self.boot_on('host1')
        lease, host = self.ask(), self.host()
        steps = self.world.operations.host_evacuation
        self.world.database.write(shared_hosts.release_from_lease, host.id, lease.id)
        with pytest.raises(exceptions.Transient):
            steps.grant(self.world.lease(lease.id), [host.id])
        assert self.world.lease(lease.id).status == 'IN_PROGRESS'
        self.assert_given_back()

    def test_hosts_that_are_emptied_count_for_limits_and_not_for_usage(self):
        self.world.operations.quota.project_limits = quotas.Keystone(reserved_hosts=1)
        self.boot_on('host1')
        lease = self.ask(best_effort_timeout=2)
        with pytest.raises(exceptions.LimitExceeded, match='reserved_hosts: 1 more'):
            self.ask()
        period = usage.Span(self.time.now, self.time.now + usage.DAY)
        (use,) = self.world.database.read(
            lambda session: list(db_usage.read_uses(session, period))
        )
        assert use.amounts == {'hosts': 0}
        with mock.patch(MIGRATE):
            assert self.went_on(lease).status == 'TIMEDOUT'
        self.shared.poll()
        assert self.went_on(self.ask()).status == 'ACTIVE'

    def test_cancelled_lease_gives_its_hosts_back(self):
        self.boot_on('host1')
        lease = self.ask()
        self.world.operations.end_lease(self.world.owner(lease.id), lease.id)
        assert self.settled(lease).status == 'TERMINATED'
        self.assert_given_back()

    def test_lease_of_emptied_hosts_is_changed_in_nothing_but_its_name(self):
        self.boot_on('host1')
        lease = self.ask()
        with pytest.raises(exceptions.InvalidState, match='being drained'):
            self.world.update(lease.id, end_date='2082-12-02 14:00')
        self.world.update(lease.id, name='other')
        with pytest.raises(exceptions.HostChanging, match='being drained'):
            self.operations.update_host(self.context, self.host().id, {'available': True})

    def test_host_that_is_being_emptied_stays_in_its_pool(self):
        lease = self.ask()
        with pytest.raises(exceptions.HostChanging, match='being drained'):
            self.operations.delete_host(self.context, self.host().id)
        assert self.host().emptied_for == lease.id

    def test_managers_that_die_have_the_host_emptied(self):
        servers = [self.boot_on('host1') for _ in range(2)]
        lease = self.ask()
        self.cloud.everywhere = True
        died = 0
        for answered in range(60):
            self.cloud.left = answered
            try:
                lease = self.went_on(lease)
            except Crash:
                died += 1
                self.time.forward(seconds=self.conf.engine.claim_ttl + 1)
                continue
            finally:
                self.cloud.left = None
            break
        assert died > 5
        assert lease.status == 'ACTIVE'
        assert 'host1' not in {self.host_of(each) for each in servers}


class TestTwoShared(BestEffortTest):
    SHARED = ('host1', 'host2')

    def test_other_host_is_emptied_if_a_server_appears_that_cannot_move(self):
        first = self.boot_on('host1')
        seconds = [self.boot_on('host2') for _ in range(2)]
        lease = self.ask()
        assert self.host('host1').emptied_for == lease.id
        self._suspend_server(first)
        lease = self.went_on(lease)
        assert (lease.status, self.hosts_of(lease)) == ('ACTIVE', {'host2'})
        self.assert_given_back('host1')
        assert 'host2' not in {self.host_of(each) for each in seconds}

    def test_other_host_is_emptied_if_placement_loses_one(self):
        lease = self.ask()
        assert self.host('host1').emptied_for == lease.id
        with self.world.database.writer() as session:
            row = sa.update(db.HOSTS.table).where(db.HOSTS.table.c.hypervisor_hostname == 'host1')
            session.execute(row.values(provider_id=str(uuid.uuid4())))
        self.world.run_until_idle()
        # Whose host it was is none of its user's business.
        assert self.world.lease(lease.id).status_reason == evacuation._HOST_REPLACED
        lease = self.went_on(lease)
        assert (lease.status, self.hosts_of(lease)) == ('ACTIVE', {'host2'})
        self.shared.poll()
        assert self.host('host1').open_to_unreserved

    def test_other_host_is_emptied_if_one_dies_when_it_is_empty(self):
        lease = self.ask()
        assert self.host('host1').emptied_for == lease.id
        self.lose('host1')
        lease = self.went_on(lease)
        assert (lease.status, self.hosts_of(lease)) == ('ACTIVE', {'host2'})
        self.assert_given_back('host1')

    def test_each_host_is_waited_for_from_when_it_was_closed(self):
        """A manager closed the second one much later, and died before it wrote that."""
        self.conf.set_override('enrol_seconds', 30, group='hosts')
        lease = self.ask(min=2)
        steps = self.world.operations.host_evacuation
        progress = steps.step(lease).progress
        self.time.forward(seconds=60)
        del progress['closed'][str(self.host('host2').id)]
        (reservation,) = lease.reservations
        reservation = dataclasses.replace(reservation, progress=progress)
        wait = steps.step(dataclasses.replace(lease, reservations=(reservation,)))
        assert wait.seconds == 30

    def test_leases_share_what_is_moved_at_once(self):
        for host in self.SHARED * 3:
            self.boot_on(host)
        self.ask(), self.ask()
        with mock.patch(MIGRATE) as migrate:
            self.world.run_until_idle()
        assert migrate.call_count == 4

    def test_younger_of_two_leases_yields_if_there_is_no_room_for_the_servers_of_both(self):
        """Both got their hosts at the same moment; the younger one would fit alone."""
        first = [self.boot_on('host1') for _ in range(2)]
        seconds = [self.boot_on('host2') for _ in range(2)]
        older = self.ask()
        self.time.forward(microseconds=1)
        younger = self.ask()
        assert self.host('host2').emptied_for == younger.id
        self.fill('host3', but_for=3 * 512)
        with mock.patch(MIGRATE) as migrate:
            self.world.run_until_idle()
        moved = {call.args[1].uuid for call in migrate.call_args_list}
        assert moved == {each['id'] for each in first}
        assert self.host('host1').emptied_for == older.id
        assert self.host('host2').is_returning
        assert self.world.lease(younger.id).status == 'IN_PROGRESS'
        assert {self.host_of(each) for each in seconds} == {'host2'}

    def test_hosts_whose_servers_find_no_room_beside_those_that_are_moved_are_not_emptied(self):
        for host in self.SHARED * 2:
            self.boot_on(host)
        self.fill('host3', but_for=3 * 512)
        self.ask()
        with pytest.raises(exceptions.NotEnough, match='Other hosts have no capacity'):
            self.ask()
        assert self.host('host2').open_to_unreserved

    def fill(self, host, but_for):
        """Have something take the memory of a host, but for some MB."""
        room = placement.read_ordinary_capacities(self.cloud.service())[self.provider(host)]
        free = room.capacity['MEMORY_MB'] - room.used['MEMORY_MB']
        self.claim(self.provider(host), {'MEMORY_MB': free - but_for})

    def test_two_leases_get_two_hosts(self):
        self.boot_on('host1')
        first, second = self.ask(), self.ask()
        assert {self.host(name).emptied_for for name in self.SHARED} == {first.id, second.id}
        with pytest.raises(exceptions.NotEnough):
            self.ask()
        assert {self.went_on(each).status for each in (first, second)} == {'ACTIVE'}
