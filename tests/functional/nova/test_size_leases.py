# SPDX-License-Identifier: Apache-2.0
"""Leases of room for servers, whose flavor the lease service makes, on a whole nova."""

import json

import pytest
from nova.tests.functional.api import client

from climate_common import lanes
from climate_core import exceptions
from climate_core.lease import views
from climate_hosts import flavors, nova
from climate_hosts.plugins.capacity import CapacityPlugin, SizesPlugin
from climate_hosts.watch import repair
from tests.functional.nova.host_leases import OTHERS, HostLeasesTest

SIZES = {'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}
#: A flavor with all that the flavor of a reservation takes over. Nova accepted the last extra spec
#: before it validated any.
SOURCE = {
    'id': 'source',
    'name': 'm1.source',
    'vcpus': 1,
    'ram': 512,
    'disk': 1,
    'swap': 64,
    'OS-FLV-EXT-DATA:ephemeral': 1,
}
SPECS = {'quota:cpu_shares': '5', 'hw:unheard_of': 'x'}


class SizesTest(HostLeasesTest):
    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)
    TYPE = SizesPlugin.resource_type
    WANTED = SIZES

    def flavor_ids(self):
        """Return the ids of all private flavors."""
        found = self.admin_api.api_get('/flavors?is_public=False').body['flavors']
        return {each['id'] for each in found}


class TestLeasesBySizes(SizesTest):
    def test_servers_boot_with_the_flavor_of_the_reservation(self):
        lease = self.lease_hosts('2082-12-01 13:00', amount=2, **SIZES)
        (reservation,) = lease.reservations
        shown = views.common_reservation(reservation)
        assert shown['resource_type'] == 'virtual:instance'
        assert shown['flavor_id'] == reservation.id
        assert reservation.amounts == {'servers': 2, **SIZES, 'vcpus': 2} | {
            'memory_mb': 1024,
            'disk_gb': 2,
        }
        self.world.run_until_idle(minutes=58)
        assert self.flavor_ids() == {reservation.id}
        own = {'flavorRef': reservation.id}
        assert self.host_of(self.boot(**own)) is None

        lease = self.settled(lease, hours=1)
        assert (lease.status, lease.status_reason) == ('ACTIVE', None)
        servers = [self.boot(**own) for _ in range(3)]
        assert [self.host_of(each) for each in servers] == ['host1', 'host1', None]
        with pytest.raises(client.OpenStackApiException, match='could not be found'):
            self.boot(api=self.others_api, **own)

        lease = self.settled(lease, hours=1)
        assert (lease.status, lease.status_reason) == ('TERMINATED', None)
        for each in servers[:2]:
            self._wait_until_deleted(each)
        assert self.flavor_ids() == set()

    def test_shared_with_another_project(self):
        lease = self.settled(self.lease_hosts(share_with=[OTHERS], **SIZES))
        (reservation,) = lease.reservations
        server = self.boot(api=self.others_api, flavorRef=reservation.id)
        assert self.host_of(server) == 'host1'

    def test_project_that_nobody_has_is_told(self):
        lease = self.lease_hosts('2082-12-01 13:00', share_with=['nobody'], **SIZES)
        lease = self.settled(lease, minutes=58)
        assert (lease.status, lease.reservations[0].status) == ('ERROR', 'error')
        assert self.flavor_ids() == set()

    def test_lease_that_is_deleted_before_its_start_leaves_no_flavor(self):
        lease = self.lease_hosts('2082-12-01 13:00', **SIZES)
        self.world.run_until_idle(minutes=58)
        assert len(self.flavor_ids()) == 1
        self.world.operations.delete_lease(self.world.owner(lease.id), lease.id)
        self.settled(lease)
        assert self.flavor_ids() == set()

    def test_flavor_without_a_reservation_is_found_and_deleted(self):
        lease = self.settled(self.lease_hosts(**SIZES))
        conn, gone = self.cloud.service(), '7b1f3c1e-58f6-4a3b-9d51-0d1c70a6c1aa'
        nova.create_reservation_flavor(conn, gone, flavors.by_sizes(SIZES), ())
        (told,) = repair.repair_flavors(self.world.database, conn, False)
        assert (told.what, told.done) == (f'flavor {gone}', False)
        (done,) = repair.repair_flavors(self.world.database, conn, True)
        assert done.done
        assert self.flavor_ids() == {lease.reservations[0].id}

    def test_ephemeral_disk_and_extra_specs_are_in_the_flavor(self):
        specs = {'trait:HW_CPU_X86_AVX512F': 'forbidden'}
        lease = self.lease_hosts(ephemeral_gb=2, extra_specs=specs, **SIZES)
        (reservation,) = self.settled(lease).reservations
        assert reservation.amounts['disk_gb'] == 3
        demand = self.world.plugins[self.TYPE].read_demand(reservation)
        assert demand.piece == SIZES | {'disk_gb': 3}
        own = self.admin_api.get_flavor(reservation.id)
        assert (own['disk'], own['OS-FLV-EXT-DATA:ephemeral']) == (1, 2)
        assert own['extra_specs'] == specs | dict.fromkeys(lanes.MARKS, reservation.id)
        assert self.host_of(self.boot(flavorRef=reservation.id)) == 'host1'

    def test_operator_allows_more_extra_specs(self):
        wanted = {'extra_specs': {'quota:cpu_shares': '5'}, **SIZES}
        with pytest.raises(exceptions.BadRequest, match='quota:cpu_shares is not allowed here'):
            self.lease_hosts(**wanted)
        self.conf.set_override('extra_specs', ['trait:*', 'quota:*'], group=self.TYPE)
        (reservation,) = self.settled(self.lease_hosts(**wanted)).reservations
        own = self.admin_api.get_flavor(reservation.id)
        assert own['extra_specs'].items() >= wanted['extra_specs'].items()

    def test_sizes_of_no_host_are_refused(self):
        with pytest.raises(exceptions.NotEnough) as caught:
            self.lease_hosts(**{**SIZES, 'vcpus': 10_000})
        assert caught.value.field == 'reservations[0].amount'

    def test_start_of_what_is_prepared_needs_two_requests(self):
        lease = self.lease_hosts('2082-12-01 13:00', **SIZES)
        self.world.run_until_idle(minutes=59)
        self.cloud.requests.clear()
        assert self.settled(lease, minutes=1).status == 'ACTIVE'
        assert [method for method, _ in self.cloud.requests] == ['GET', 'PUT']

    def test_flavor_that_was_deleted_before_the_start_is_made_again(self):
        lease = self.lease_hosts('2082-12-01 13:00', **SIZES)
        (reservation,) = lease.reservations
        self.world.run_until_idle(minutes=59)
        nova.delete_flavor(self.cloud.service(), reservation.id)
        assert self.settled(lease, minutes=1).status == 'ACTIVE'
        assert self.host_of(self.boot(flavorRef=reservation.id)) == 'host1'

    def test_own_project_is_not_shared_with(self):
        with pytest.raises(exceptions.BadRequest, match='must name other projects') as caught:
            self.lease_hosts(share_with=[OTHERS, self.api.project_id], **SIZES)
        assert caught.value.field == 'reservations[0].share_with'


class FlavorsTest(SizesTest):
    TYPE = CapacityPlugin.resource_type
    WANTED = {'flavor_id': SOURCE['id']}

    def setUp(self):
        super().setUp()
        self.admin_api.post_flavor({'flavor': SOURCE})
        self.admin_api.microversion = '2.85'
        self.admin_api.post_extra_spec(SOURCE['id'], {'extra_specs': SPECS})
        self.admin_api.microversion = self.microversion


class TestLeasesByFlavor(FlavorsTest):
    def test_reservation_has_a_flavor_like_the_source(self):
        lease = self.lease_hosts('2082-12-01 13:00', amount=2, **self.WANTED)
        (reservation,) = lease.reservations
        self.world.run_until_idle(minutes=58)
        own = self.admin_api.get_flavor(reservation.id)
        marks = dict.fromkeys(
            ('climate:reservation', 'aggregate_instance_extra_specs:reservation'), reservation.id
        )
        assert {name: own[name] for name in SOURCE} == {
            **SOURCE,
            'id': reservation.id,
            'name': f'reservation:{reservation.id}',
        }
        assert own['extra_specs'] == SPECS | marks
        assert own['os-flavor-access:is_public'] is False
        access = self.admin_api.api_get(f'/flavors/{reservation.id}/os-flavor-access').body
        assert [each['tenant_id'] for each in access['flavor_access']] == [lease.project_id]

        shown = views.common_reservation(reservation)
        source = json.loads(shown['resource_properties'])
        assert source.pop('extra_specs') == SPECS
        assert source.items() >= SOURCE.items()
        assert 'links' not in source
        assert {name: shown[name] for name in ('flavor_id', *SIZES)} == {
            'flavor_id': reservation.id,
            **SIZES,
        }
        assert reservation.amounts == {'servers': 2, 'vcpus': 2, 'memory_mb': 1024, 'disk_gb': 6}

    def test_servers_boot_with_the_flavor_with_the_hint_and_with_both(self):
        lease = self.lease_hosts('2082-12-01 13:00', amount=3, **self.WANTED)
        (reservation,) = lease.reservations
        own, hint = {'flavorRef': reservation.id}, {'reservation': reservation.id}
        source = {'flavorRef': SOURCE['id']}
        assert self.visible(self.api) == set()
        assert self.settled(lease, hours=1).status == 'ACTIVE'
        assert self.visible(self.api) == {reservation.id}
        assert self.visible(self.others_api) == set()
        tried = [({}, own), (hint, source), (hint, own), ({}, own)]
        inside = [self.boot(hints, **flavor) for hints, flavor in tried]
        assert [self.host_of(each) for each in inside] == ['host1'] * 3 + [None]
        with pytest.raises(client.OpenStackApiException, match='could not be found'):
            self.boot(api=self.others_api, **own)
        assert self.settled(lease, hours=1).status == 'TERMINATED'
        for each in inside[:3]:
            self._wait_until_deleted(each)
        assert self.flavor_ids() == set()

    def visible(self, api):
        """Return the ids of the flavors of reservations that a user sees."""
        found = api.api_get('/flavors').body['flavors']
        return {each['id'] for each in found if each['name'].startswith('reservation:')}

    def test_source_that_is_deleted_before_the_start_is_not_needed(self):
        lease = self.lease_hosts('2082-12-01 13:00', **self.WANTED)
        (reservation,) = lease.reservations
        nova.delete_flavor(self.cloud.service(), SOURCE['id'])
        assert self.settled(lease, hours=1).status == 'ACTIVE'
        assert self.host_of(self.boot(flavorRef=reservation.id)) == 'host1'

    def test_project_that_nobody_has_leaves_no_flavor(self):
        lease = self.lease_hosts('2082-12-01 13:00', share_with=['nobody'], **self.WANTED)
        lease = self.settled(lease, minutes=58)
        assert (lease.status, lease.reservations[0].status) == ('ERROR', 'error')
        assert self.flavor_ids() == set()


class TestManagerDies(SizesTest):
    def test_start_and_end_are_finished_by_the_next_manager(self):
        lease = self.lease_hosts('2082-12-01 13:00', **self.WANTED)
        (reservation,) = lease.reservations
        self.cloud.everywhere = True
        self.time.forward(minutes=58)
        assert self.die_and_go_on(lease) > 2
        assert self.flavor_ids() == {reservation.id}
        self.time.forward(minutes=5)
        self.die_and_go_on(lease)
        assert self.world.lease(lease.id).status == 'ACTIVE'
        assert self.host_of(self.boot(flavorRef=reservation.id)) == 'host1'
        self.time.forward(hours=1)
        self.die_and_go_on(lease)
        assert self.world.lease(lease.id).status == 'TERMINATED'
        assert self.flavor_ids() == set()


class TestManagerOfFlavorsDies(FlavorsTest, TestManagerDies):
    """The same with the flavor of the request."""
