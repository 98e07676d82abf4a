# SPDX-License-Identifier: Apache-2.0
"""Volumes that the lease service makes for a lease, by a real engine in a real cinder."""

import pathlib
from urllib.parse import quote

import fixtures
import pytest
import webob
from cinder import policy
from cinder.db import api as db
from cinder.scheduler.filters.capacity_filter import CapacityFilter
from cinder.volume import volume_types

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.plugins.pool_capacity import BackendCapacity
from climate_core.plugins.volume import VolumePlugin
from tests.functional.cinder.base import HOST, CinderTest
from tests.functional.cinder.lease_service import LeaseServiceTest
from tests.functional.cinder.users import ADMIN, ALICE, BOB, CLIMATE
from tests.functional.lease_service import refusal
from tests.functional.made import MadeLeases
from tests.support.kinds import kind_cell
from tests.support.world import Time, World, user

KEY = 'climate_reservation'
RESERVATION = 'b5a3a0fd-4b62-4dd5-8a25-5d5c4d6cbb01'


class TestFind(CinderTest):
    def test_metadata_is_found_before_the_lease_service_is_asked(self):
        seen = []
        self.lease_service.on_post = lambda _: seen.append(self.find())
        volume = self.reserve(metadata={KEY: RESERVATION})
        assert seen == [[volume['id']]]
        assert self.find(user=BOB) == []

    def test_owner_can_take_away_the_metadata_and_it_is_not_found(self):
        volume = self.reserve(metadata={KEY: RESERVATION})
        self.request('DELETE', f'/volumes/{volume["id"]}/metadata/{KEY}', status=200)
        assert self.find() == []

    def test_owner_finds_by_a_marker_that_the_owner_does_not_see_and_cannot_change(self):
        volume = self.reserve()
        db.volume_admin_metadata_update(self.ctxt, volume['id'], {KEY: RESERVATION}, False)
        assert self.show(volume)['metadata'] == {}
        self.request('DELETE', f'/volumes/{volume["id"]}/metadata/{KEY}', status=404)
        assert self.find() == [volume['id']]
        assert self.find(user=BOB) == []

    def test_wake_up_takes_the_marker_away(self):
        volume = self.reserve()
        db.volume_admin_metadata_update(self.ctxt, volume['id'], {KEY: RESERVATION}, False)
        self.wake_up(volume)
        assert self.find() == []

    def test_volume_without_room_is_found_in_error_and_on_the_quota(self):
        volume = self.reserve(size=999, metadata={KEY: RESERVATION})
        self.assert_status(volume, 'error')
        assert self.quota_usage() == (1, 999)
        assert self.find() == [volume['id']]

    def test_hint_says_for_which_reservation_it_is(self):
        self.reserve()
        join = {'reserved': 'True', 'lease_id': self.lease_service.lease['id'], KEY: RESERVATION}
        self.volume_create(join)
        assert self.lease_service.requests[-1].json['made_for'] == RESERVATION

    def find(self, user=ALICE):
        wanted = quote(str({KEY: RESERVATION}))
        return [each['id'] for each in self.get(f'/volumes?metadata={wanted}', user)['volumes']]


class Crash(BaseException):
    """The process is gone: nothing catches it, and nothing it would do afterwards is done."""


class Cloud:
    """The connections of the lease service, for which users stand."""

    def service(self):
        return ADMIN

    def user(self, _context):
        return ALICE

    def owner(self, _trust_id):
        return CLIMATE


class MadeVolumes(MadeLeases, LeaseServiceTest):
    """Leases of volumes that are to be made, one manager, and one cinder-volume."""

    def setUp(self):
        super().setUp()
        self.time, self.left = Time(), None
        path = self.useFixture(fixtures.TempDir()).join('climate.db')
        self.world = World(f'sqlite:///{path}', self.time)
        self.world.requester = self.world.owner
        self.addCleanup(self.world.database.dispose)
        self.world.conf.register_opts(VolumePlugin.options, group=VolumePlugin.resource_type)
        plugin = VolumePlugin(self.world.conf, Cloud())
        plugin.now = self.time
        self.world.plugins[VolumePlugin.resource_type] = plugin
        self.world.operations.services.cloud = plugin.cloud
        self.lease_service._join = self.join

    def join(self, lease_id, body):
        """Answer a join of cinder-api as the lease service does."""
        context = RequestContext(
            project_id=ALICE.project_id,
            user_id=ALICE.name,
            service_roles=['service'],
            trust_id=self.world.lease(lease_id).trust_id,
        )
        try:
            self.world.operations.creator.add_reservation(context, lease_id, body)
        except exceptions.ClimateError as exc:
            return refusal(exc.status, exc.message)
        return webob.Response(status=201, json_body={'reservation': {'id': lease_id, **body}})

    def _client(self, user):
        client = super()._client(user)
        send = client.request

        def request(*args, **kwargs):
            if self.left == 0:
                raise Crash
            if self.left is not None:
                self.left -= 1
            return send(*args, **kwargs)

        client.request = request
        return client

    def lease(self, start='2082-12-01 13:00', more=None, ending=None, **volume):
        """Create a lease of volumes that are to be made; return its id."""
        wanted = {'name': 'data', 'size': 3, **volume}
        body = {'name': 'lease', 'start_date': start, 'end_date': '2082-12-01 14:00'}
        reservation = {'resource_type': 'virtual:volume', 'volume': wanted, **(ending or {})}
        body['reservations'] = [reservation]
        return self.create_lease(ALICE.project_id, ALICE.name, {**body, **(more or {})})

    def volumes_there(self):
        found = self.get('/volumes/detail')['volumes']
        return sorted((each['name'], each['status']) for each in found)

    def assert_nothing_left(self):
        assert self.volumes_there() == []
        assert (self.quota_usage(), self.allocated()) == ((0, 0), 0)


class TestMadeVolumes(MadeVolumes):
    @kind_cell('New volumes', 'immediate')
    def test_made_now_created_at_the_start_and_deleted_at_the_end(self):
        lease_id = self.lease(count=2, metadata={'a': 'b'}, volume_type='tests')
        self.look_around()
        assert self.volumes_there() == [('data-1', 'lease-reserved'), ('data-2', 'lease-reserved')]
        assert self.state(lease_id) == ('PENDING', ['pending'] * 2)
        assert (self.array.calls, self.quota_usage(), self.allocated()) == ([], (2, 6), 6)
        for each in self.world.lease(lease_id).reservations:
            metadata = self.show({'id': each.resource_id})['metadata']
            assert metadata == {'a': 'b', KEY: each.id}
        self.time.forward(hours=1)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert self.volumes_there() == [('data-1', 'available'), ('data-2', 'available')]
        self.time.forward(hours=1)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_start_waits_for_all_of_them(self):
        lease_id = self.lease('now', count=2)
        self.look_around(8)
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)

    def test_without_room_for_one_none_is_left_and_the_reason_is_told(self):
        lease_id = self.lease(size=60, count=2)
        self.look_around(10)
        lease = self.world.lease(lease_id)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        assert '(60 GiB) could not be created' in lease.status_reason
        assert 'backend' in lease.status_reason
        self.assert_nothing_left()

    def test_without_quota_for_one_none_is_left_and_the_reason_is_told(self):
        path, body = f'/os-quota-sets/{ALICE.project_id}', {'quota_set': {'volumes': 1}}
        self.request('PUT', path, body, user=ADMIN, status=200)
        lease_id = self.lease(count=2)
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        assert 'Cinder answered 413' in self.world.lease(lease_id).status_reason
        self.assert_nothing_left()

    def test_volume_whose_backup_the_policy_of_cinder_forbids_is_deleted_at_its_end(self):
        path = self.useFixture(fixtures.TempDir()).join('policy.yaml')
        pathlib.Path(path).write_text('"backup:create": "!"\n')
        self.flags(policy_file=path, group='oslo_policy')
        policy.reset()
        lease_id = self.lease('now', ending={'on_end': 'backup'})
        self.look_around(8)
        self.world.run_until_idle(hours=2)
        assert self.state(lease_id)[0] == 'TERMINATING'
        assert 'Cinder answered 403' in self.world.lease(lease_id).status_reason
        self.world.run_until_idle(hours=2)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_what_is_not_there_is_refused_and_nothing_written(self):
        for name in ('volume_type', 'snapshot_id', 'source_volid', 'availability_zone'):
            answer = self.request('POST', '/volumes', {'volume': {'size': 3, name: RESERVATION}})
            assert answer.status_int in (400, 404)
            with pytest.raises(exceptions.ClimateError) as caught:
                self.lease(**{name: RESERVATION})
            assert caught.value.field == f'reservations[0].volume.{name}'
        assert not self.world.trusts.present

    def test_request_that_is_repeated_makes_no_more(self):
        ours = {'id': RESERVATION}
        assert self.lease(more=ours) == self.lease(more=ours)
        self.look_around()
        assert self.lease(more=ours) == RESERVATION
        assert self.volumes_there() == [('data', 'lease-reserved')]

    def test_manager_that_dies_after_any_request_leaves_one_volume(self):
        for answered in range(40):
            lease_id = self.lease()
            self.left = answered
            try:
                self.look_around()
            except Crash:
                pass
            finally:
                died, self.left = self.left == 0, None
            self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)
            self.look_around()
            assert self.volumes_there() == [('data', 'lease-reserved')]
            self.world.operations.delete_lease(user(ALICE.project_id, ALICE.name), lease_id)
            self.look_around()
            self.assert_nothing_left()
            if not died:
                break
        assert 2 < answered < 39

    def test_lease_that_is_deleted_before_the_answer_is_known_leaves_no_volume(self):
        lease_id = self.lease()
        # The look for what is there, and the request.
        self.left = 2
        with pytest.raises(Crash):
            self.look_around()
        self.left = None
        assert self.volumes_there() == [('data', 'lease-reserved')]
        self.world.operations.delete_lease(user(ALICE.project_id, ALICE.name), lease_id)
        self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)
        self.look_around(10)
        self.assert_nothing_left()

    def test_lost_message_has_the_volume_deleted_and_made_again(self):
        self.bus.lost.add(('cinder-scheduler', 'create_volume'))
        lease_id = self.lease()
        self.look_around()
        assert self.volumes_there() == [('data', 'creating')]
        first = self.world.lease(lease_id).reservations[0].resource_id
        self.bus.lost.clear()
        self.time.forward(minutes=11)
        self.look_around(10)
        assert self.volumes_there() == [('data', 'lease-reserved')]
        assert self.state(lease_id) == ('PENDING', ['pending'])
        self.assert_gone({'id': first})
        assert self.quota_usage() == (1, 3)


class TestScheduledVolumes(MadeVolumes):
    """The pool has 100 GiB."""

    @kind_cell('New volumes', 'scheduled')
    def test_made_shortly_before_the_start(self):
        lease_id = self.lease(more={'kind': 'scheduled'}, count=2, size=50)
        self.look_around()
        assert self.state(lease_id) == ('PENDING', ['pending'] * 2)
        assert self.volumes_there() == []
        self.time.forward(minutes=55)
        self.look_around()
        assert self.volumes_there() == [('data-1', 'lease-reserved'), ('data-2', 'lease-reserved')]
        self.time.forward(minutes=5)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)

    def test_what_is_not_expected_to_find_room_is_refused_with_the_time_that_would_do(self):
        self.lease(more={'kind': 'scheduled'}, size=60)
        with pytest.raises(exceptions.NotEnough) as refused:
            self.lease(more={'kind': 'scheduled'}, size=60, volume_type='tests')
        assert 'Of 1 storage pool 1 matches by kind' in refused.value.message
        assert 'too little GiB on 1 storage pool' in refused.value.message
        assert refused.value.available_from == '2082-12-01T14:00:00.000000'
        assert refused.value.message.endswith('Capacity is expected from 2082-12-01 14:00 UTC on.')
        self.lease(more={'kind': 'scheduled'}, size=40)

    def test_type_that_no_pool_serves_is_refused(self):
        volume_types.create(self.ctxt, 'ssd', {'volume_backend_name': 'ssd'})
        with pytest.raises(exceptions.NotEnough, match='do not serve its volume type'):
            self.lease(more={'kind': 'scheduled'}, volume_type='ssd')

    def test_room_that_another_took_is_named_in_the_error(self):
        lease_id = self.lease(more={'kind': 'scheduled'}, size=60)
        self.reserve(size=60)
        self.time.forward(minutes=55)
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'])
        assert '(60 GiB) could not be created' in self.world.lease(lease_id).status_reason


class TestRetriedVolumes(MadeVolumes):
    """The pool has 100 GiB."""

    def retry(self, **volume):
        return self.lease('now', {'kind': 'retry'}, size=60, **volume)

    @kind_cell('New volumes', 'retry')
    def test_waits_until_there_is_room_and_is_made_then(self):
        other = self.reserve(size=60)
        self.report()
        lease_id = self.retry()
        assert self.state(lease_id)[0] == 'WAITING'
        assert 'too little GiB' in self.world.lease(lease_id).status_reason
        self.delete(other)
        self.report()
        self.world.operations.queue.grant_waiting()
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'])

    def test_what_finds_no_room_after_the_grant_waits_again(self):
        lease_id = self.retry()
        other = self.reserve(size=60)
        assert self.state(lease_id)[0] == 'PENDING'
        self.look_around(6)
        lease = self.world.lease(lease_id)
        assert self.state(lease_id) == ('WAITING', ['pending'])
        assert 'Could not find any available weighted backend' in lease.status_reason
        assert lease.retries_left == self.world.conf.queue.max_retries - 1
        assert [status for _, status in self.volumes_there()] == ['lease-reserved']
        self.delete(other)
        self.report()
        self.world.run_until_idle(minutes=1)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'])

    def test_without_quota_it_fails_at_once(self):
        path, body = f'/os-quota-sets/{ALICE.project_id}', {'quota_set': {'volumes': 0}}
        self.request('PUT', path, body, user=ADMIN, status=200)
        lease_id = self.retry()
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'])
        self.assert_nothing_left()


class TestRoom(LeaseServiceTest):
    POOLS = (
        {},
        {'reserved_percentage': 7, 'total_capacity_gb': 33, 'free_capacity_gb': 33},
        {'free_capacity_gb': 12.5},
        {'provisioned_capacity_gb': 70},
        {'thin_provisioning_support': True, 'max_over_subscription_ratio': '1.5'},
        {
            'thin_provisioning_support': True,
            'max_over_subscription_ratio': 'auto',
            'provisioned_capacity_gb': 90,
            'free_capacity_gb': 60,
            'reserved_percentage': 10,
        },
        {'thin_provisioning_support': True, 'max_over_subscription_ratio': 'auto'},
    )

    def test_what_is_free_is_what_the_capacity_filter_takes(self):
        for pool in self.POOLS:
            self.array.pools[HOST] = {'pool': pool}
            self.report()
            (found,) = BackendCapacity(ADMIN).hosts
            free = found.free['GiB']
            assert free > 0
            passes = [self.takes(size) for size in (free, free + 1)]
            assert passes == [True, False], (pool, free)

    def test_pool_without_a_limit_takes_the_largest_volume(self):
        for unused in ('infinite', 'unknown'):
            self.array.pools[HOST] = {'pool': {'free_capacity_gb': unused}}
            self.report()
            (found,) = BackendCapacity(ADMIN).hosts
            assert found.free['GiB'] == 2**31 - 1
            assert self.takes(2**31 - 1)

    def takes(self, size):
        return CapacityFilter().backend_passes(self.pool(), {'size': size})
