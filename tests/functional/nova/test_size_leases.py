# SPDX-License-Identifier: Apache-2.0
"""Leases of room for servers by sizes, whose flavor the lease service makes, on a whole nova."""

from unittest import mock

import pytest
import webob.exc
from nova.tests.functional.api import client

from climate_common import lanes
from climate_core import exceptions
from climate_core.lease import views
from climate_hosts import nova
from climate_hosts.plugins.capacity import SizesPlugin
from climate_hosts.watch import repair
from tests.functional.nova.host_leases import OTHERS, HostLeasesTest

SIZES = {'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}


def _verify(context, project_id):
    if project_id == 'nobody':
        raise webob.exc.HTTPBadRequest(explanation=f'{project_id} is not a valid project.')


class SizesTest(HostLeasesTest):
    COMPUTES = ('host1', 'host2')
    POOL = ('host1',)
    TYPE = SizesPlugin.resource_type

    def setUp(self):
        super().setUp()
        # There is no Keystone that nova could ask for projects.
        self.enterContext(mock.patch('nova.api.openstack.identity.verify_project_id', _verify))

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
        nova.create_private_flavor(
            conn, nova.PrivateFlavor(gone, 1, 512, 1), {lanes.EXTRA_SPEC: gone}, ()
        )
        (told,) = repair.repair_flavors(self.world.database, conn, False)
        assert (told.what, told.done) == (f'flavor {gone}', False)
        (done,) = repair.repair_flavors(self.world.database, conn, True)
        assert done.done
        assert self.flavor_ids() == {lease.reservations[0].id}

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


class TestManagerDies(SizesTest):
    def test_start_and_end_are_finished_by_the_next_manager(self):
        lease = self.lease_hosts('2082-12-01 13:00', **SIZES)
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
