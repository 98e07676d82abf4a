# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: everything is changed in place, or refused with the reason."""

import datetime
import uuid

import fixtures
import pytest
from heat.common import exception
from oslo_utils import fixture as timeutils_fixture
from oslo_utils import timeutils

from climate_core.plugins.base import PollAgain
from tests.functional.heat import leases
from tests.functional.heat.leased import OF_SERVER, OF_VOLUME, SERVER, VOLUME, LeaseTest
from tests.support.stacks import added, server

OTHER = str(uuid.uuid4())
OF_OTHER = leases.of_server(OTHER)


class TestProperties(LeaseTest):
    def test_same_template_and_preview_change_nothing(self):
        stack = self.make()
        before = self.leases.lease
        self.change(stack)
        self.patch_stack(stack)
        template = self.template(name='lease2', end_date=self.leases.later(hours=7))
        assert self.preview_update(stack, template) == {'lease': 'updated'}
        assert self.leases.lease == before

    def test_both_dates_change_before_the_start(self):
        stack = self.make()
        start, end = self.leases.later(hours=3), self.leases.later(hours=5)
        lease = self.change(stack, start_date=start, end_date=end)
        assert (lease.start_date.isoformat(), lease.end_date.isoformat()) == (start, end)

    def test_duration_sets_the_end_and_keeps_it_with_the_start(self):
        stack = self.make()
        start = self.leases.later(hours=10)
        for given, begins in (
            ({}, self.dates['start_date']),
            ({'start_date': start}, start),
            ({'start_date': 'now'}, self.leases.now.isoformat()),
        ):
            lease = self.change(stack, duration='3h', **given)
            assert lease.start_date.isoformat() == begins
            assert (lease.end_date - lease.start_date).total_seconds() == 3 * 3600
        assert lease.status == 'ACTIVE'

    def test_now_of_the_creation_stays(self):
        stack = self.make(start_date='now')
        start = self.leases.lease.start_date
        self.leases.forward(minutes=10)
        assert self.change(stack, start_date='now', name='lease2').start_date == start

    def test_property_changes_and_goes_back_to_its_default(self):
        stack = self.make(name='lease1')
        time = self.leases.later(minutes=100)
        webhook = {'url': 'https://example.org/told', 'secret': 'sixteen letters!'}
        some = {**webhook, 'events': ['lease.event.*']}
        lease = self.change(
            stack,
            name='lease2',
            before_end_date=time,
            before_start=[60, 600],
            start_policy='manual',
            webhook=webhook,
        )
        assert (lease.name, lease.start_policy) == ('lease2', 'manual')
        assert lease.before_end_date.isoformat() == time
        assert lease.before_start == (600, 60)
        assert lease.webhook['url'] == webhook['url']
        assert self.change(stack, webhook=some).webhook['events'] == ['lease.event.*']
        lease = self.change(stack)
        assert lease.name.startswith('stack1-lease-')
        assert (lease.before_start, lease.start_policy, lease.webhook) == ((), 'auto', None)
        for on_end in ('snapshot', 'nothing', 'delete'):
            (own,) = self.change(stack, on_end=on_end).live
            assert (own.resource_id, own.params['on_end']) == (stack, on_end)

    def test_events_change_and_past_ones_stay(self):
        stack = self.make()
        given = [
            {'event_type': 'take_backup', 'time': self.leases.later(minutes=80)},
            {'event_type': 'look', 'time': self.leases.later(minutes=90)},
        ]
        assert self.change(stack, events=given).event('look')
        self.leases.forward(minutes=85)
        lease = self.change(stack, events=given[:1])
        assert lease.event('take_backup').status == 'DONE'
        assert not lease.event('look')


class TestReservations(LeaseTest):
    def test_reservations_are_added_changed_in_place_and_removed(self):
        of_server = leases.of_server(SERVER, on_end='delete')
        stack = self.make(reservations=[of_server])
        lease = self.change(stack, reservations=[of_server, OF_VOLUME])
        assert self.held() == {SERVER: {'on_end': 'delete'}, VOLUME: {}}
        before = [each.id for each in lease.live]
        given = [OF_VOLUME, leases.of_server(SERVER, on_end='shelve')]
        lease = self.change(stack, reservations=given)
        assert self.held() == {SERVER: {'on_end': 'shelve'}, VOLUME: {}}
        assert [each.id for each in lease.live] == before
        self.change(stack, reservations=[OF_VOLUME])
        assert self.held() == {VOLUME: {}}
        assert self.leases.servers.state[SERVER] == 'gone'
        # One of no template stays.
        self.leases.join(lease.id, OF_OTHER)
        self.change(stack)
        assert self.held() == {OTHER: {}}

    def test_failed_reservation_is_changed_in_place(self):
        stack, _ = self.make_failed()
        self.change(stack, reservations=[leases.of_server(SERVER, on_end='shelve')])
        assert self.held() == {SERVER: {'on_end': 'shelve'}}
        self.change(stack)
        assert self.held() == {}

    def test_reservations_are_added_all_or_none(self):
        self.leases.make(leases.ALICE, OF_OTHER)
        there = OF_SERVER
        stack = self.create(self.template(reservations=[there]), name='stack2')
        lease = self.leases.get(self.resource(stack, 'lease').resource_id)
        given = [there, OF_VOLUME, OF_OTHER]
        self.update(stack, self.template(reservations=given), status='UPDATE_FAILED')
        assert 'already reserved by lease' in self.reason(stack)
        assert 'resources.lease: reservations[2].resource_id: ' in self.reason(stack)
        assert self.leases.get(lease.id).live == lease.live

    def test_reservation_added_after_the_start_is_woken_up(self):
        stack = self.make(start_date='now')
        self.change(stack, start_date='now', reservations=[OF_VOLUME])
        self.leases.run()
        assert self.leases.volumes.state[VOLUME] == 'awake'

    def test_reservation_of_the_stack_that_was_removed_is_added_again(self):
        stack, _ = self.make_started(on_end='nothing')
        (own,) = self.leases.lease.live
        self.leases.leave(own)
        assert not self.leases.lease.live
        self.change(stack, name='lease2', on_end='nothing')
        assert self.leases.members(self.leases.lease.id) == {('virtual:stack', stack)}


class TestRefused(LeaseTest):
    def test_new_start_of_a_started_lease_is_refused(self):
        stack, _ = self.make_started()
        reason = self.refused(
            stack, start_date=self.leases.later(hours=1), end_date=self.leases.later(hours=3)
        )
        assert 'start_date' in reason
        end = self.leases.later(hours=5)
        assert self.change(stack, end_date=end).end_date.isoformat() == end

    def test_failed_update_is_undone_by_the_next(self):
        running = {'start_date': 'now', 'before_start': [60], 'start_policy': 'auto'}
        for number, given in enumerate(({}, running)):
            stack = self.create(self.template(name='lease1', **given), f's{number}')
            mine = self.leases.get(self.resource(stack, 'lease').resource_id)
            other = leases.of_server(str(uuid.uuid4()))
            self.leases.make(leases.ALICE, other)
            self.leases.forward(minutes=10)
            template = self.template(name='lease2', reservations=[other], **given)
            self.update(stack, template, status='UPDATE_FAILED')
            assert self.leases.get(mine.id).name == 'lease2'
            self.update(stack, self.template(name='lease1', **given))
            after = self.leases.get(mine.id)
            assert (after.name, after.start_date) == ('lease1', mine.start_date)

    def test_outage_or_wrong_date_changes_nothing_and_changes_of_others_stay(self):
        stack = self.make(name='lease1')
        for count in (1, 2):
            assert self.fail_requests(count) in self.refused(stack, name='lease2')
        assert self.change(stack, name='lease2').name == 'lease2'
        end = self.leases.later(hours=9)
        self.leases.world.update(self.leases.lease.id, end_date=end)
        before = self.leases.lease
        with pytest.raises(exception.StackValidationFailed, match='must be'):
            self.update(stack, self.template(end_date='soon'))
        assert self.leases.lease == before
        assert self.change(stack, name='lease3').end_date.isoformat() == end


class TestLaterUpdates(LeaseTest):
    def test_stack_of_a_lease_long_over_can_be_updated(self):
        given = {'start_date': 'now', 'on_end': 'nothing', 'end_date': self.leases.later(hours=1)}
        template = {**self.template(**given), 'parameters': {'size': {'type': 'number'}}}
        stack = self.create(template, size=1)
        lease = self.leases.lease.id
        self.leases.end(lease)
        self.useFixture(Later(days=2))
        self.update(stack, template, size=2)
        assert self.outputs(stack)['id'] == lease

    def test_rolled_back_update_restores_the_lease(self):
        stack = self.create(self.template(name='lease1'), rollback=True)
        before = self.leases.lease
        template = added(
            self.template(name='lease2', reservations=[OF_VOLUME]),
            server=server('lease', networks=[{'allocate_network': 'none'}]),
        )
        self.cloud.nova.full = True
        self.update(stack, template, status='ROLLBACK_COMPLETE')
        assert self.leases.lease.name == 'lease1'
        assert self.leases.lease.live == before.live


class Later(fixtures.Fixture):
    """Heat's clock is put forward."""

    def __init__(self, **delta):
        super().__init__()
        self._delta = datetime.timedelta(**delta)

    def _setUp(self):
        fixture = timeutils_fixture.TimeFixture(timeutils.utcnow() + self._delta)
        self.useFixture(fixture)


class TestReplaced(LeaseTest):
    """Only a lease that is gone or over is replaced."""

    def assert_replaced(self, stack, before):
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        lease = self.leases.get(self.outputs(stack)['id'])
        assert lease.id != before
        assert lease.deleted_at is None
        assert self.leases.members(lease.id) == {('virtual:stack', stack)}
        assert list(self.resources(stack)) == ['lease']

    def test_lease_that_is_over_is_replaced_by_a_change_and_by_nothing_else(self):
        stack, before = self.make_over()
        self.patch_stack(stack)
        assert self.outputs(stack)['id'] == before
        end = self.leases.later(hours=5)
        self.update(stack, self.template(start_date='now', end_date=end))
        self.assert_replaced(stack, before)

    def test_lease_that_is_ending_is_not_replaced(self):
        stack, lease = self.make_started(reservations=[OF_SERVER], on_end='nothing')
        self.leases.servers.answers['end', SERVER] = [PollAgain(5)]
        self.leases.end(lease)
        self.check(stack, status='CHECK_FAILED')
        self.update(
            stack, self.template(end_date=self.leases.later(hours=5)), status='UPDATE_FAILED'
        )
        assert 'is TERMINATING' in self.reason(stack)
        assert self.leases.lease.id == lease == self.resource(stack, 'lease').resource_id

    def test_only_a_deleted_lease_is_replaced_also_by_a_converging_update(self):
        stack = self.make()
        before = self.leases.lease.id
        self.leases.lose(before)
        self.update(stack, self.template(name='lease1'))
        self.assert_replaced(stack, before)
        before = self.leases.lease
        self.update(stack, self.template(name='lease1'), args={'converge': True})
        assert self.leases.lease == before
        self.leases.lose(before.id)
        self.update(stack, self.template(name='lease1'), args={'converge': True})
        self.assert_replaced(stack, before.id)
