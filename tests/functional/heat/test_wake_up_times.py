# SPDX-License-Identifier: Apache-2.0
"""The wake-up by an update: before the start of a lease, at it, and near its end."""

import datetime

import sqlalchemy as sa
from oslo_utils import fixture

from climate_core.db import tables
from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.users import ALICE
from tests.support.stacks import CHAIN, PAIR, added, changed, hinted, volume, without

ONE = without(CHAIN, 'second')


class TestTime(ReservedTest):
    """A lease has started or not, by its status and its start."""

    def test_failed_lease_starts_at_its_start_date_and_what_it_holds(self):
        self.assert_status_after('ERROR', -1, 'RESERVED')
        self.assert_status_after('ERROR', 1, 'RESERVED', reservations='deleted')
        self.assert_status_after('ERROR', 1, 'ACTIVE')

    def test_failed_reservation_is_woken_up_by_the_next_update(self):
        self.assert_status_after('ERROR', 1, 'ACTIVE', reservations='error')

    def test_ending_lease_wakes_up_nothing(self):
        self.assert_status_after('TERMINATING', 1, 'RESERVED')

    def assert_status_after(self, lease, minutes, server, reservations='pending'):
        """Update a stack some minutes after the start of a lease in a status."""
        self.stack = getattr(self, 'stack', None) or self.reserve_all(ONE)
        now = self.leases.get(self.lease).start_date + datetime.timedelta(minutes=minutes)
        self.useFixture(fixture.TimeFixture(now.replace(tzinfo=None)))
        with self.leases.world.database.writer() as session:
            session.execute(sa.update(tables.LEASES).values(status=lease))
            session.execute(sa.update(tables.RESERVATIONS).values(status=reservations))
        self.patch_stack(self.stack)
        assert self.cloud.nova.statuses() == [server]

    def test_lease_that_starts_during_the_creation_wakes_up_everything(self):
        self.while_waiting(
            lambda: self.leases.start(self.lease),
            until=lambda: self.cloud.nova.statuses() == ['BUILD'],
        )
        stack = self.reserve_all()
        assert self.statuses() == ['ACTIVE', 'available']
        for _ in range(2):
            assert self.wakes() == self.ids(stack, 'disk', 'server')
            self.patch_stack(stack)
        assert self.outputs(stack)['status'] == 'available'

    def test_volume_of_a_later_lease_is_not_woken_up_for_a_server(self):
        later = self.leases.make(ALICE, start_date=self.leases.later(minutes=90))
        other = self.create(hinted(without(PAIR, 'server', 'net'), later), name='other')
        boots = [{'volume_id': self.ids(other, 'disk')[0], 'boot_index': 0}]
        template = changed(without(PAIR, 'disk'), 'server', block_device_mapping_v2=boots)
        stack = self.reserve(template)
        self.start(stack, 'UPDATE_FAILED')
        assert self.wakes() == []
        assert self.cloud.cinder.statuses() == ['lease-reserved']

    def test_volume_of_a_backup_is_reserved_and_restored_at_the_start(self):
        template = added(without(PAIR, 'disk', 'server'), disk=volume(backup_id='backup1'))
        self.cloud.cinder.backups['backup1'] = {'id': 'backup1', 'size': 7}
        stack = self.reserve(template)
        found = self.record(stack, 'disk')
        assert found['body']['volume']['backup_id'] == 'backup1'
        assert (found['size'], found['status']) == (7, 'lease-reserved')
        self.start(stack)
        assert found['status'] == 'available'

    def test_new_lease_of_a_server_wakes_it_up_by_an_update(self):
        params = {'start': self.leases.later(hours=3), 'length': '1h'}
        hints = {'reserved': True, 'lease_params': params}
        template = changed(ONE, 'first', scheduler_hints=hints)
        stack = self.create(template)
        assert self.cloud.nova.statuses() == ['RESERVED']
        lease = self.data(stack, 'first')['climate_lease']
        before = self.ids(stack, 'first')
        assert self.leases.members(lease) == {('virtual:instance', *before)}
        self.update(stack, changed(template, 'first', name='web'))
        assert self.ids(stack, 'first') == before
        self.leases.start(lease)
        self.patch_stack(stack)
        assert self.wakes() == before

    def test_new_lease_of_a_server_that_is_over_is_not_created_again(self):
        hints = {'lease_params': {'start': self.leases.later(hours=1)}}
        stack = self.reserve_all(changed(ONE, 'first', scheduler_hints=hints))
        (server,) = self.ids(stack, 'first')
        self.leases.end(self.data(stack, 'first')['climate_lease'])
        if server in self.cloud.nova.servers:
            self.cloud.nova.forget(server)
        before = self.changes()
        self.patch_stack(stack)
        assert self.changes() == before
