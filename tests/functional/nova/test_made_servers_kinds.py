# SPDX-License-Identifier: Apache-2.0
"""Servers that are made for leases of the kinds scheduled and retry, in a real nova."""

import datetime
import itertools
from unittest import mock

import pytest

from climate_core import exceptions
from climate_core.cloud import servers
from tests.functional.nova.made_servers import END, HOUR, IMAGE, START, SmallHostTest
from tests.support.kinds import kind_cell
from tests.support.world import NOON, user


class TestScheduled(SmallHostTest):
    def scheduled(self, start=START, end=END, **server):
        return self.lease(start, more={'kind': 'scheduled', 'end_date': end}, **server)

    @kind_cell('New servers', 'scheduled')
    def test_made_shortly_before_the_start_and_woken_at_it(self):
        lease_id = self.scheduled(count=2)
        self.world.run_until_idle(minutes=54)
        assert self.state(lease_id) == ('PENDING', ['pending'] * 2)
        self.assert_nothing_left()
        self.world.run_until_idle(minutes=1)
        self.look_around()
        assert self.servers() == [('web-1', 'RESERVED'), ('web-2', 'RESERVED')]
        self.world.run_until_idle(minutes=5)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert self.held_at() == {NOON + datetime.timedelta(hours=1)}

    def test_room_that_another_user_took_is_told_and_nothing_left(self):
        lease_id = self.scheduled(count=2)
        self.others(1)
        self.world.run_until_idle(minutes=55)
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        reason = self.world.lease(lease_id).status_reason
        assert 'No valid host was found' in reason
        assert 'there is too little VCPU on 1 host for one of the servers.' in reason
        assert self.servers() == [('other', 'ACTIVE')]
        assert self.used() == 1
        self.world.run_until_idle(minutes=10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        self.world.operations.delete_lease(user(self.api.project_id, 'fake'), lease_id)
        self.look_around(2)
        assert self.state(lease_id)[0] == 'TERMINATED'

    def test_without_room_it_is_refused_until_a_lease_frees_some(self):
        self.lease(count=2)
        self.look_around()
        with pytest.raises(exceptions.NotEnough, match='too little VCPU on 1 host') as caught:
            self.scheduled(end='2082-12-01 13:30')
        assert caught.value.available_from == '2082-12-01T14:00:00.000000'
        assert caught.value.field == 'reservations[0].server'
        self.scheduled('2082-12-01 14:00', '2082-12-01 15:00')

    def test_other_scheduled_leases_take_their_room(self):
        self.scheduled(count=2)
        with pytest.raises(exceptions.NotEnough) as caught:
            self.scheduled('2082-12-01 13:30', '2082-12-01 14:30')
        assert caught.value.available_from == '2082-12-01T14:00:00.000000'
        self.scheduled('2082-12-01 14:00', '2082-12-01 15:00', count=2)

    def test_dates_change_only_if_they_will_find_room_then(self):
        owner = user(self.api.project_id, 'fake')
        lease_id, _ = self.scheduled(count=2), self.scheduled(END, '2082-12-01 15:00', count=2)
        for field, start, end in (
            ('end_date', START, '2082-12-01 14:30'),
            ('start_date', '2082-12-01 13:30', '2082-12-01 14:30'),
        ):
            with pytest.raises(exceptions.NotEnough, match='too little') as caught:
                self.world.operations.update_lease(
                    owner, lease_id, {'start_date': start, 'end_date': end}
                )
            assert caught.value.field == field
            assert caught.value.available_from == '2082-12-01T15:00:00.000000'
        earlier = {'start_date': '2082-12-01 12:30', 'end_date': '2082-12-01 13:30'}
        self.world.operations.update_lease(owner, lease_id, earlier)
        assert self.world.lease(lease_id).start_date == NOON + datetime.timedelta(minutes=30)

    def test_dry_run_says_whether_they_are_expected_to_find_room(self):
        self.others(1)
        kinds = ('immediate', 'scheduled', 'retry')
        for kind, (count, granted) in itertools.product(kinds, ((1, True), (2, False))):
            server = {'name': 'web', 'flavorRef': self.flavor['id'], 'imageRef': IMAGE}
            found = self.world.operations.check_lease(
                user(self.api.project_id, 'fake'),
                {
                    'name': 'lease',
                    'start_date': START,
                    'end_date': END,
                    'kind': kind,
                    'reservations': [
                        {'resource_type': 'virtual:instance', 'server': {**server, 'count': count}}
                    ],
                },
            )
            assert (found['granted'], found['waits']) == (granted, kind == 'retry' and not granted)
            assert granted or 'do not fit together' in found['refusals'][0]['error_message']
        assert self.servers() == [('other', 'ACTIVE')]


class TestRetry(SmallHostTest):
    def retry(self, more=None, **server):
        more = {'kind': 'retry', 'end_date': None, 'duration': '1h', **(more or {})}
        return self.lease(more=more, **server)

    def granted_too_late(self, **more):
        """Ask for two servers while there is room; return the lease and who is faster."""
        lease_id = self.retry(more, count=2)
        assert self.world.lease(lease_id).status == 'PENDING'
        return lease_id, self.others(1)[0]

    @kind_cell('New servers', 'retry')
    def test_waits_until_there_is_room_and_is_made_then(self):
        first, _ = self.others(2)
        lease_id = self.retry(count=1)
        lease = self.world.lease(lease_id)
        assert (lease.status, {str(each.amounts) for each in lease.reservations}) == (
            'WAITING',
            {'{}'},
        )
        assert 'too little VCPU on 1 host' in lease.status_reason
        self.world.run_until_idle(minutes=5)
        assert self.world.lease(lease_id).status == 'WAITING'
        assert self.servers() == [('other', 'ACTIVE')] * 2
        self.delete(first)
        self.world.operations.queue.grant_waiting()
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'])
        assert self.servers() == [('other', 'ACTIVE'), ('web', 'ACTIVE')]
        lease = self.world.lease(lease_id)
        assert lease.end_date - lease.start_date == datetime.timedelta(hours=1)
        assert lease.reservations[0].amounts['vcpus'] == 1
        assert self.held_at() == {lease.start_date}
        assert lease.start_date > lease.created_at

    def test_what_is_made_long_before_the_start_is_billed_from_when_it_is_made(self):
        lease_id = self.lease(START, more={'kind': 'retry', 'end_date': END}, count=1)
        self.look_around()
        assert (self.state(lease_id), self.servers()) == (
            ('PENDING', ['pending']),
            [('web', 'RESERVED')],
        )
        assert self.held_at() == {NOON}

    def test_with_room_it_does_not_wait(self):
        lease_id = self.retry(count=2)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)

    def test_what_finds_no_room_after_the_grant_waits_again(self):
        lease_id, other = self.granted_too_late()
        self.look_around(6)
        lease = self.world.lease(lease_id)
        assert self.state(lease_id) == ('WAITING', ['pending'] * 2)
        assert 'No valid host was found' in lease.status_reason
        assert lease.retries_left == self.world.conf.queue.max_retries - 1
        assert not any(each.amounts for each in lease.reservations)
        assert self.servers() == [('other', 'ACTIVE')]
        assert self.used() == 1
        self.delete(other)
        self.world.run_until_idle(minutes=1)
        self.look_around()
        lease = self.world.lease(lease_id)
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert (lease.end_date - lease.start_date, lease.retries_left) == (HOUR, None)
        assert lease.start_date > lease.created_at
        self.world.run_until_idle(hours=1)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_it_waits_as_often_as_it_may_be_tried(self):
        lease_id, _ = self.granted_too_late(max_retries=1)
        self.look_around(6)
        assert self.state(lease_id)[0] == 'WAITING'
        self.world.run_until_idle(minutes=1)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        assert 'insufficient in every retry' in self.world.lease(lease_id).status_reason
        assert self.servers() == [('other', 'ACTIVE')]

    def test_it_fails_for_another_reason_at_once(self):
        lease_id = self.retry(count=2)
        with mock.patch.object(servers, 'create', side_effect=exceptions.Permanent('Quota.')):
            self.look_around(6)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        self.assert_nothing_left()

    def test_it_ends_while_what_was_made_is_freed(self):
        for looks in range(1, 8):
            lease_id, other = self.granted_too_late()
            for _ in range(looks):
                self.world.run()
            self.world.operations.end_lease(user(self.api.project_id, 'fake'), lease_id)
            self.look_around(20)
            assert self.state(lease_id)[0] == 'TERMINATED'
            assert self.servers() == [('other', 'ACTIVE')]
            self.delete(other)
            self.assert_nothing_left()

    def test_manager_that_dies_frees_what_it_made_and_waits_again(self):
        others = []

        def begin():
            lease_id = self.retry()
            others.extend(self.others(2))
            return lease_id

        def make_room():
            assert self.servers() == [('other', 'ACTIVE')] * 2
            while others:
                self.delete(others.pop())
            self.world.run_until_idle(minutes=5)
            self.look_around()

        self.die_at_each_request(begin, looks=6, make_room=make_room, step=4)

    def test_those_that_wait_are_granted_no_more_than_there_is(self):
        """A small one may pass a large one."""
        first, _ = self.others(2)
        waiting = []
        for count in (2, 1, 1):
            waiting.append(self.retry(count=count))
            self.time.forward(seconds=1)
        self.delete(first)
        self.world.operations.queue.grant_waiting()
        self.look_around()
        found = [self.world.lease(each).status for each in waiting]
        assert found == ['WAITING', 'ACTIVE', 'WAITING']

    def test_a_small_one_passes_a_large_one_only_if_that_makes_it_no_later(self):
        """The large one has its room when a lease ends in an hour."""
        self.lease(more={'end_date': '2082-12-01 13:00'})
        self.look_around()
        waiting = []
        for count, lasts in ((2, '1h'), (1, '2h'), (1, '30m')):
            waiting.append(self.retry({'duration': lasts}, count=count))
            self.time.forward(seconds=1)
        self.world.operations.queue.grant_waiting()
        self.look_around()
        found = [self.world.lease(each).status for each in waiting]
        assert found == ['WAITING', 'WAITING', 'ACTIVE']

    def test_cancelled_while_it_waits(self):
        self.others(2)
        lease_id = self.retry()
        self.world.operations.end_lease(user(self.api.project_id, 'fake'), lease_id)
        self.look_around(1)
        assert self.state(lease_id)[0] == 'TERMINATED'
        assert self.servers() == [('other', 'ACTIVE')] * 2
