# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: everything is changed in place, or refused with the reason."""

import datetime
import uuid

import fixtures
import pytest
from heat.common import exception
from oslo_utils import fixture as timeutils_fixture
from oslo_utils import timeutils

from climate_core.plugins.base import Wait
from tests.functional.heat import leases
from tests.functional.heat.leased import SERVER, VOLUME, UpdateTest

OTHER = str(uuid.uuid4())
OF_VOLUME = {'resource_type': 'virtual:volume', 'resource_id': VOLUME}


class TestTerms(UpdateTest):
    def test_nothing(self):
        stack = self.make()
        before = self.leases.lease
        self.change(stack)
        self.patch_stack(stack)
        assert self.leases.lease == before

    def test_name(self):
        stack = self.make(name='lease1')
        assert self.change(stack, name='lease2').name == 'lease2'
        assert self.change(stack).name.startswith('stack1-lease-')

    def test_both_dates_before_the_start(self):
        stack = self.make()
        start, end = self.leases.later(hours=3), self.leases.later(hours=5)
        lease = self.change(stack, start_date=start, end_date=end)
        assert (lease.start_date.isoformat(), lease.end_date.isoformat()) == (start, end)

    def test_end_after_the_start(self):
        stack = self.make()
        self.leases.start(self.leases.lease.id)
        end = self.leases.later(hours=5)
        assert self.change(stack, end_date=end).end_date.isoformat() == end

    def test_end_becomes_a_duration(self):
        stack = self.make()
        lease = self.change(stack, duration='3h')
        assert (lease.end_date - lease.start_date).total_seconds() == 3 * 3600

    def test_duration_goes_with_the_start(self):
        stack = self.make(duration='3h')
        start = self.leases.later(hours=10)
        lease = self.change(stack, duration='3h', start_date=start)
        assert lease.start_date.isoformat() == start
        assert (lease.end_date - lease.start_date).total_seconds() == 3 * 3600

    def test_start_becomes_now(self):
        stack = self.make(duration='3h')
        lease = self.change(stack, duration='3h', start_date='now')
        assert lease.start_date == self.leases.now
        assert lease.status == 'ACTIVE'

    def test_now_of_the_creation_stays(self):
        stack = self.make(start_date='now')
        start = self.leases.lease.start_date
        self.leases.forward(minutes=10)
        assert self.change(stack, start_date='now', name='lease2').start_date == start

    def test_what_is_told_before(self):
        stack = self.make()
        time = self.leases.later(minutes=100)
        lease = self.change(stack, before_end_date=time, before_start=[60, 600])
        assert lease.before_end_date.isoformat() == time
        assert lease.before_start == (600, 60)
        assert self.change(stack).before_start == ()

    def test_start_policy(self):
        stack = self.make()
        assert self.change(stack, start_policy='manual').start_policy == 'manual'
        assert self.change(stack).start_policy == 'auto'

    def test_events(self):
        stack = self.make()
        given = [
            {'event_type': 'take_backup', 'time': self.leases.later(minutes=80)},
            {'event_type': 'look', 'time': self.leases.later(minutes=90)},
        ]
        assert self.change(stack, events=given).event('look')
        self.leases.forward(minutes=85)
        # One that has come stays as it is.
        lease = self.change(stack, events=given[:1])
        assert lease.event('take_backup').status == 'DONE'
        assert not lease.event('look')

    def test_webhook(self):
        stack = self.make()
        webhook = {'url': 'https://example.org/told', 'secret': 'sixteen letters!'}
        assert self.change(stack, webhook=webhook).webhook['url'] == webhook['url']
        some = {**webhook, 'events': ['lease.event.*']}
        assert self.change(stack, webhook=some).webhook['events'] == ['lease.event.*']
        assert self.change(stack).webhook is None

    def test_end_action_of_the_stack(self):
        stack = self.make()
        for on_end in ('snapshot', 'nothing', 'delete'):
            (own,) = self.change(stack, on_end=on_end).live
            assert (own.resource_id, own.params['on_end']) == (stack, on_end)


class TestReservations(UpdateTest):
    def test_they_come_and_go(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.change(stack, reservations=[leases.of_server(SERVER), OF_VOLUME])
        assert self.held() == {SERVER: {}, VOLUME: {}}
        self.change(stack, reservations=[OF_VOLUME])
        assert self.held() == {VOLUME: {}}
        assert self.leases.servers.state[SERVER] == 'gone'
        self.change(stack)
        assert self.held() == {}

    def test_one_is_changed(self):
        stack = self.make(reservations=[leases.of_server(SERVER, on_end='delete'), OF_VOLUME])
        before = [each.id for each in self.leases.lease.live]
        given = [OF_VOLUME, leases.of_server(SERVER, on_end='shelve')]
        lease = self.change(stack, reservations=given)
        assert self.held() == {SERVER: {'on_end': 'shelve'}, VOLUME: {}}
        assert [each.id for each in lease.live] == before

    def test_one_that_could_not_be_woken_is_there(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.start(self.leases.lease.id)
        self.change(stack, reservations=[leases.of_server(SERVER, on_end='shelve')])
        assert self.held() == {SERVER: {'on_end': 'shelve'}}
        self.change(stack)
        assert self.held() == {}

    def test_what_joined_otherwise_stays(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.join(self.leases.lease.id, leases.of_server(OTHER))
        self.change(stack)
        assert self.held() == {OTHER: {}}

    def test_all_or_none(self):
        self.leases.make(leases.ALICE, leases.of_server(OTHER))
        there = leases.of_server(SERVER)
        stack = self.create(self.template(reservations=[there]), name='stack2')
        lease = self.leases.get(self.resource(stack, 'lease').resource_id)
        given = [there, OF_VOLUME, leases.of_server(OTHER)]
        self.update(stack, self.template(reservations=given))
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'already reserved by lease' in self.reason(stack)
        assert 'resources.lease: reservations[2].resource_id: ' in self.reason(stack)
        assert self.leases.get(lease.id).live == lease.live

    def test_in_a_lease_that_has_started(self):
        stack = self.make(start_date='now')
        self.change(stack, start_date='now', reservations=[OF_VOLUME])
        self.leases.run()
        assert self.leases.volumes.state[VOLUME] == 'awake'

    def test_stack_that_was_taken_out_is_put_back(self):
        stack = self.make(on_end='nothing')
        self.leases.start(self.leases.lease.id)
        (own,) = self.leases.lease.live
        self.leases.leave(own)
        assert not self.leases.lease.live
        self.change(stack, name='lease2', on_end='nothing')
        assert self.leases.members(self.leases.lease.id) == {('virtual:stack', stack)}


class TestRefused(UpdateTest):
    def test_start_of_a_lease_that_has_started(self):
        stack = self.make()
        self.leases.start(self.leases.lease.id)
        reason = self.refused(
            stack, start_date=self.leases.later(hours=1), end_date=self.leases.later(hours=3)
        )
        assert 'start_date' in reason
        # The lease goes on, and so does the next update.
        end = self.leases.later(hours=5)
        assert self.change(stack, end_date=end).end_date.isoformat() == end

    def test_half_of_an_update_is_put_right_by_the_next(self):
        stack = self.make(name='lease1')
        self.leases.make(leases.ALICE, leases.of_server(OTHER), name='lease0')
        mine = self.resource(stack, 'lease').resource_id
        template = self.template(name='lease2', reservations=[leases.of_server(OTHER)])
        self.update(stack, template)
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert self.leases.get(mine).name == 'lease2'
        self.update(stack, self.template(name='lease1'))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.get(mine).name == 'lease1'

    def test_half_of_an_update_of_a_lease_that_runs(self):
        given = {'start_date': 'now', 'before_start': [60], 'start_policy': 'auto'}
        stack = self.make(name='lease1', **given)
        self.leases.make(leases.ALICE, leases.of_server(OTHER))
        mine = self.leases.get(self.resource(stack, 'lease').resource_id)
        self.leases.forward(minutes=10)
        taken = [leases.of_server(OTHER)]
        self.update(stack, self.template(name='lease2', reservations=taken, **given))
        self.assert_stack(stack, 'UPDATE_FAILED')
        self.update(stack, self.template(name='lease1', **given))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        after = self.leases.get(mine.id)
        assert (after.name, after.start_date) == ('lease1', mine.start_date)

    def test_what_others_changed_stays_if_nothing_failed(self):
        stack = self.make()
        end = self.leases.later(hours=9)
        self.leases.world.update(self.leases.lease.id, end_date=end)
        assert self.change(stack, name='lease2').end_date.isoformat() == end

    def test_service_that_does_not_answer(self):
        stack = self.make(name='lease1')
        self.leases.answers = [leases.refusal(500, 'The database is away.')]
        assert 'The database is away.' in self.refused(stack, name='lease2')
        self.leases.answers = [leases.refusal(500, 'The database is away.')] * 2
        assert 'The database is away.' in self.refused(stack, name='lease2')
        assert self.change(stack, name='lease2').name == 'lease2'

    def test_validation_comes_first(self):
        stack = self.make()
        before = self.leases.lease
        with pytest.raises(exception.StackValidationFailed, match='must be'):
            self.update(stack, self.template(end_date='soon'))
        assert self.leases.lease == before


class TestLater(UpdateTest):
    def test_stack_can_be_updated_when_its_lease_is_long_over(self):
        given = {'start_date': 'now', 'on_end': 'nothing', 'end_date': self.leases.later(hours=1)}
        template = {**self.template(**given), 'parameters': {'size': {'type': 'number'}}}
        stack = self.create(template, size=1)
        lease = self.leases.lease.id
        self.leases.end(lease)
        self.useFixture(Later(days=2))
        self.update(stack, template, size=2)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.outputs(stack)['id'] == lease

    def test_update_that_is_rolled_back_takes_the_lease_back(self):
        stack = self.create(self.template(name='lease1'), args={'disable_rollback': False})
        before = self.leases.lease
        template = self.template(name='lease2', reservations=[OF_VOLUME])
        server = {'flavor': 'm1', 'image': 'cirros', 'networks': [{'allocate_network': 'none'}]}
        template['resources']['server'] = {
            'type': 'OS::Nova::Server',
            'depends_on': 'lease',
            'properties': server,
        }
        self.cloud.nova.full = True
        self.update(stack, template)
        self.assert_stack(stack, 'ROLLBACK_COMPLETE')
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


class TestReplaced(UpdateTest):
    """Only a lease that is not there any more has another one put in its place."""

    def replaced(self, stack, before):
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        lease = self.leases.get(self.outputs(stack)['id'])
        assert lease.id != before
        assert lease.deleted_at is None
        assert self.leases.members(lease.id) == {('virtual:stack', stack)}
        assert list(self.resources(stack)) == ['lease']

    def test_lease_that_somebody_deleted(self):
        stack = self.make()
        before = self.leases.lease.id
        self.leases.lose(before)
        self.update(stack, self.template(name='lease2'))
        self.replaced(stack, before)

    def test_lease_that_is_over(self):
        stack = self.make(on_end='nothing')
        before = self.leases.lease.id
        self.leases.start(before)
        self.leases.end(before)
        end = self.leases.later(hours=5)
        self.update(stack, self.template(start_date='now', end_date=end))
        self.replaced(stack, before)

    def test_lease_that_is_over_is_left_alone_by_other_updates(self):
        stack = self.make(on_end='nothing')
        before = self.leases.lease.id
        self.leases.start(before)
        self.leases.end(before)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.outputs(stack)['id'] == before

    def test_lease_that_is_just_ending_is_not(self):
        stack = self.make(reservations=[leases.of_server(SERVER)], on_end='nothing')
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.leases.servers.answers['end', SERVER] = [Wait(5)]
        self.leases.end(lease)
        self.check(stack)
        self.assert_stack(stack, 'CHECK_FAILED')
        self.update(stack, self.template(end_date=self.leases.later(hours=5)))
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'is TERMINATING' in self.reason(stack)
        assert self.leases.lease.id == lease == self.resource(stack, 'lease').resource_id

    def test_heat_is_asked_to_compare_with_what_there_is(self):
        stack = self.make(name='lease1')
        before = self.leases.lease
        self.update(stack, self.template(name='lease1'), args={'converge': True})
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.lease == before
        self.leases.lose(before.id)
        self.update(stack, self.template(name='lease1'), args={'converge': True})
        self.replaced(stack, before.id)

    def test_preview_replaces_nothing(self):
        stack = self.make()
        found = self.ask(
            'preview_update_stack',
            leases.ALICE,
            self._identity(stack),
            self.template(name='lease2', end_date=self.leases.later(hours=7)),
            params={},
            files={},
            args={},
        )
        assert [each['resource_name'] for each in found['updated']] == ['lease']
        assert not found['replaced']
