# SPDX-License-Identifier: Apache-2.0
"""The wake-up: what goes wrong on the way, who else may do it, and when it is not done."""

import datetime

import sqlalchemy as sa
from oslo_utils import fixture

from climate_core.db import tables
from tests.functional.heat.bus import Killed
from tests.functional.heat.leases import refusal
from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import (
    CHAIN,
    PAIR,
    UNLINKED,
    added,
    changed,
    hinted,
    stack_level,
    without,
)
from tests.functional.heat.updated import ported
from tests.functional.heat.users import ALICE


class TestFailure(ReservedTest):
    def test_what_is_awake_stays_and_the_rest_is_tried_again(self):
        stack = self.reserve_all(CHAIN)
        first, second = self.ids(stack, 'first', 'second')
        self.cloud.nova.servers[second].update(failures=1, sleeps_on=True)
        self.start(stack, 'UPDATE_FAILED')
        reason = self.load(stack).status_reason
        assert 'The server could not be started: No valid host was found.' in reason
        assert self.cloud.nova.statuses() == ['ACTIVE', 'RESERVED']
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == [first, second, second]
        assert self.ids(stack, 'first', 'second') == [first, second]

    def test_server_in_error_is_replaced_by_the_next_update(self):
        stack = self.reserve_all(CHAIN)
        first, second = self.ids(stack, 'first', 'second')
        self.cloud.nova.servers[second]['failures'] = 1
        self.start(stack, 'UPDATE_FAILED')
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ERROR']
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        assert self.ids(stack, 'first') == [first]
        assert self.held() == set(self.ids(stack, 'first', 'second'))
        assert second not in self.held()

    def test_server_in_error_gives_its_volume_and_port_to_the_next(self):
        template = ported(PAIR)
        stack = self.reserve_all(template)
        (old,) = self.ids(stack, 'server')
        self.cloud.nova.servers[old]['failures'] = 1
        self.start(stack, 'UPDATE_FAILED')
        assert self.cloud.nova.statuses() == ['ERROR']
        self.cloud.nova.full = True
        for _ in range(2):
            self.patch_stack(stack)
            found = self.assert_stack(stack, 'UPDATE_FAILED')
            assert 'No valid host was found.' in found.status_reason
        self.cloud.nova.full = False
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        (server,) = self.cloud.nova.servers.values()
        disk, port, new = self.ids(stack, 'disk', 'port', 'server')
        assert (server['id'], server['status'], server['volumes']) == (new, 'ACTIVE', [disk])
        assert self.cloud.neutron.records['ports'][port]['device_id'] == new
        assert self.held() == {disk, new}

    def test_server_that_ran_before_it_was_in_error_is_deleted_last(self):
        """Its disk may be all that is left of it."""
        stack = self.reserve_all(without(CHAIN, 'second'))
        (old,) = self.ids(stack, 'first')
        self.cloud.nova.servers[old].update(
            {'status': 'ERROR', 'OS-SRV-USG:launched_at': '2026-01-01T00:00:00.000000'}
        )
        self.start(stack, 'UPDATE_FAILED')
        self.cloud.nova.full = True
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert old in self.cloud.nova.servers

    def test_volume_in_error_is_asked_for_again(self):
        stack = self.reserve_all()
        disk, server = self.ids(stack, 'disk', 'server')
        self.cloud.cinder.volumes[disk]['failures'] = 1
        self.start(stack, 'UPDATE_FAILED')
        assert 'The volume could not be created' in self.load(stack).status_reason
        assert self.cloud.nova.statuses() == ['RESERVED']
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, 'disk', 'server') == [disk, server]
        assert self.wakes() == [disk, disk, server]

    def test_volume_that_was_never_reserved_is_replaced(self):
        self.cloud.cinder.full = True
        stack = self.create(PAIR, environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_FAILED')
        self.cloud.cinder.full = False
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.cinder.statuses() == ['lease-reserved']
        assert self.wakes() == []
        self.start(stack)
        assert self.wakes() == self.ids(stack, 'disk', 'server')

    def test_volume_that_was_never_reserved_is_replaced_after_the_start(self):
        self.leases.start(self.lease)
        self.cloud.cinder.full = True
        stack = self.create(PAIR, environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_FAILED')
        self.cloud.cinder.full = False
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == self.ids(stack, 'disk', 'server')

    def test_volume_in_error_is_not_woken_early(self):
        stack = self.reserve_all()
        (disk,) = self.ids(stack, 'disk')
        # An administrator may write this; cinder then takes a wake_up as well.
        self.cloud.cinder.volumes[disk].update(status='error', broken=True)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == []
        self.start(stack)
        assert self.wakes() == self.ids(stack, 'disk', 'server')
        assert self.ids(stack, 'disk') == [disk]

    def test_outage_of_nova(self):
        stack = self.reserve_all(CHAIN)
        self.leases.start(self.lease)
        self.cloud.nova.faults.append(('POST', '/action', 503))
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_FAILED')
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']

    def test_outage_between_two_looks_is_waited_for(self):
        stack = self.reserve_all(CHAIN)
        self.leases.start(self.lease)
        first = self.ids(stack, 'first')[0]
        self.bus.meanwhile = lambda: self.once_woken(('GET', f'/servers/{first}', 503))
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.done

    done = False

    def once_woken(self, fault):
        self.leases.run()
        if self.wakes() and not self.done:
            self.done = True
            self.cloud.nova.faults.append(fault)

    def test_outage_of_the_lease_service(self):
        stack = self.reserve_all(CHAIN)
        self.leases.start(self.lease)
        outage = [self.unavailable() for _ in range(4)]
        self.leases.answers[:] = outage
        self.patch_stack(stack)
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'resources.first' in found.status_reason
        self.leases.answers.clear()
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']

    def unavailable(self):
        return refusal(503, 'Later.')

    def test_engine_is_stopped_while_a_server_is_reserved(self):
        self.stop_while_reserving('first', self.cloud.nova)
        assert self.cloud.nova.statuses() == ['RESERVED']

    def test_engine_is_stopped_while_a_volume_is_reserved(self):
        self.stop_while_reserving('disk', self.cloud.cinder)
        assert self.cloud.cinder.statuses() == ['lease-reserved']

    def stop_while_reserving(self, name, service):
        service.looks = 12
        service.faults.append(('GET', '/(servers|volumes)/', Killed()))
        stack = self.create(UNLINKED, environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_FAILED')
        before = self.ids(stack, name)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, name) == before
        assert self.wakes() == []

    def test_engine_is_stopped_while_a_volume_is_reserved_that_then_fails(self):
        self.cloud.cinder.looks, self.cloud.cinder.full = 12, True
        self.cloud.cinder.faults.append(('GET', '/volumes/', Killed()))
        stack = self.create(UNLINKED, environment=stack_level(self.lease))
        self.patch_stack(stack)
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'The volume could not be created' in found.status_reason
        assert self.wakes() == []

    def test_engine_is_stopped_after_it_has_asked(self):
        stack = self.reserve_all(CHAIN)
        self.leases.start(self.lease)
        first = self.ids(stack, 'first')[0]
        self.bus.meanwhile = lambda: self.once_woken(('GET', f'/servers/{first}', Killed()))
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert self.wakes() == [first]
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == self.ids(stack, 'first', 'second')


class TestTheTime(ReservedTest):
    def test_a_lease_that_failed_after_its_start_has_started(self):
        self.see('ERROR', datetime.timedelta(minutes=-1), 'ACTIVE')

    def test_what_the_lease_could_not_wake_is_woken_by_the_next_update(self):
        self.see('ERROR', datetime.timedelta(minutes=-1), 'ACTIVE', reservations='error')

    def test_what_has_left_the_lease_is_not_woken(self):
        self.see('ERROR', datetime.timedelta(minutes=-1), 'RESERVED', reservations='deleted')

    def test_a_lease_that_failed_before_its_start_has_not(self):
        self.see('ERROR', datetime.timedelta(minutes=1), 'RESERVED')

    def test_a_lease_that_ends_wakes_nothing(self):
        self.see('TERMINATING', datetime.timedelta(minutes=-1), 'RESERVED')

    def see(self, status, start, result, reservations='pending'):
        stack = self.reserve_all(without(CHAIN, 'second'))
        now = self.leases.get(self.lease).start_date - start
        self.useFixture(fixture.TimeFixture(now.replace(tzinfo=None)))
        with self.leases.world.database.writer() as session:
            session.execute(sa.update(tables.LEASES).values(status=status))
            session.execute(sa.update(tables.RESERVATIONS).values(status=reservations))
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.statuses() == [result]

    def test_lease_starts_while_the_stack_is_created(self):
        self.bus.meanwhile = self.start_once_the_volume_sleeps
        stack = self.create(PAIR, environment=stack_level(self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.cloud.cinder.statuses() == ['available']
        assert self.wakes() == self.ids(stack, 'disk', 'server')
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert len(self.wakes()) == 2
        assert self.outputs(stack)['status'] == 'available'

    def start_once_the_volume_sleeps(self):
        if self.cloud.nova.statuses() == ['BUILD']:
            self.leases.start(self.lease)

    def test_a_volume_of_a_later_lease_is_not_woken_for_a_server(self):
        later = self.leases.make(ALICE, start_date=self.leases.later(minutes=90))
        other = self.create(hinted(without(PAIR, 'server', 'net'), later), name='other')
        boots = [{'volume_id': self.ids(other, 'disk')[0], 'boot_index': 0}]
        template = changed(without(PAIR, 'disk'), 'server', block_device_mapping_v2=boots)
        stack = self.reserve(template)
        self.start(stack, 'UPDATE_FAILED')
        assert self.wakes() == []
        assert self.cloud.cinder.statuses() == ['lease-reserved']

    def test_a_volume_of_a_backup_is_made_of_it_at_the_start(self):
        template = added(
            without(PAIR, 'disk', 'server'), 'disk', 'OS::Cinder::Volume', backup_id='backup1'
        )
        self.cloud.cinder.backups['backup1'] = {'id': 'backup1', 'size': 7}
        stack = self.create(hinted(template, self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        (volume,) = self.cloud.cinder.volumes.values()
        assert volume['body']['volume']['backup_id'] == 'backup1'
        assert volume['size'] == 7
        assert volume['status'] == 'lease-reserved'
        self.start(stack)
        assert volume['status'] == 'available'

    def test_own_new_lease(self):
        params = {'start': self.leases.later(hours=3), 'length': '1h'}
        template = changed(
            CHAIN, 'first', scheduler_hints={'reserved': True, 'lease_params': params}
        )
        stack = self.create(without(template, 'second'))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['RESERVED']
        lease_id = self.resource(stack, 'first').data()['climate_lease']
        members = self.leases.members(lease_id)
        before = self.ids(stack, 'first')
        assert members == {('virtual:instance', *before)}
        self.update(stack, without(changed(template, 'first', name='web'), 'second'))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, 'first') == before
        self.leases.start(lease_id)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == self.ids(stack, 'first')

    def test_own_lease_that_is_over_is_not_made_again(self):
        template = changed(
            CHAIN, 'first', scheduler_hints={'lease_params': {'start': self.leases.later(hours=1)}}
        )
        stack = self.reserve_all(without(template, 'second'))
        (server,) = self.ids(stack, 'first')
        lease_id = self.resource(stack, 'first').data()['climate_lease']
        self.leases.end(lease_id)
        if server in self.cloud.nova.servers:
            self.cloud.nova.forget(server)
        before = self.changes()
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.changes() == before
