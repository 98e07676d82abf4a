# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease with a kind: its stack waits with it, and is not in it."""

import pytest

from tests.functional.heat import leases, users
from tests.functional.heat.leased import OF_SERVER, LeaseTest

OF_HOSTS = {'resource_type': 'physical:host', 'min': 1}
ADMIN = users.User('admin', users.ALICES, 'admin', 'member', 'reader')


class TestKinds(LeaseTest):
    def make_waiting(self, status='CREATE_COMPLETE', **properties):
        """Create a stack of a lease that waits for a host at first."""
        values = {'kind': 'retry', 'reservations': [OF_HOSTS], **properties}
        return self.create(self.template(**values), status=status)

    def test_stack_is_in_progress_until_its_lease_is_granted(self):
        seen = []

        def meanwhile():
            seen.append(self.leases.lease.status)
            if len(seen) == 2:
                self.leases.build_host()
            self.leases.forward(minutes=5)

        self.bus.meanwhile = meanwhile
        stack = self.make_waiting()
        assert seen[:2] == ['WAITING', 'WAITING']
        lease = self.leases.lease
        assert (lease.kind, lease.status) == ('retry', 'PENDING')
        # Its members could not join a lease that waits, and it holds hosts alone.
        assert {each.resource_type for each in lease.live} == {'physical:host'}
        self.leases.start(lease.id)
        assert self.outputs(stack)['status'] == 'ACTIVE'
        self.delete(stack)
        self.leases.forward(minutes=1)
        assert not self.leases.all()

    def test_stack_fails_with_the_reason_when_its_lease_is_given_up(self):
        self.bus.meanwhile = lambda: self.leases.forward(minutes=5)
        stack = self.make_waiting('CREATE_FAILED', max_retries=1)
        assert 'is ERROR: Capacity was insufficient' in self.reason(stack)
        self.delete(stack)
        assert not self.leases.all()

    def test_stack_that_is_deleted_while_its_lease_waits_leaves_nothing(self):
        stack = self.create(
            self.template(kind='retry', reservations=[OF_HOSTS]), run=False, status=None
        )
        self.bus.meanwhile = lambda: self.delete_once(stack)
        self.bus.run()
        self.leases.forward(minutes=1)
        assert not self.leases.all()

    def delete_once(self, stack):
        self.bus.meanwhile = lambda: self.leases.forward(minutes=1)
        self.delete(stack, run=False)

    def test_lease_service_that_is_away_is_asked_again(self):
        self.leases.build_host()
        self.leases.after = [None, leases.refusal(503, 'The database is away.')]
        self.make_waiting()
        assert [each.method for each in self.leases.requests][:3] == ['POST', 'GET', 'GET']

    def test_scheduled_is_promised_at_once_or_refused(self):
        self.leases.build_host()
        self.make_waiting(kind='scheduled')
        assert (self.leases.lease.kind, self.leases.lease.status) == ('scheduled', 'PENDING')
        stack = self.create(
            self.template(kind='scheduled', reservations=[OF_HOSTS]),
            name='stack2',
            status='CREATE_FAILED',
        )
        assert 'reservations[0]' in self.reason(stack)

    def test_lease_that_gives_way_to_others(self):
        self.leases.build_host()
        stack = self.make_waiting(kind='scheduled', preemptible=True)
        assert self.leases.lease.preemptible
        refused = self.refused(stack, kind='scheduled', reservations=[OF_HOSTS])
        assert 'cannot be changed' in refused

    def test_kind_is_not_changed(self):
        self.leases.build_host()
        stack = self.make_waiting()
        for changes in ({'kind': 'scheduled'}, {'max_retries': 5}):
            refused = self.refused(stack, reservations=[OF_HOSTS], **{'kind': 'retry', **changes})
            assert 'cannot be changed' in refused
        self.update(stack, self.template(kind='retry', reservations=[OF_HOSTS], name='other'))
        assert self.leases.lease.name == 'other'

    def template_of(self, priority):
        return self.template(kind='retry', reservations=[OF_HOSTS], priority=priority)

    def test_lease_with_a_higher_priority_is_granted_first(self):
        self.keystone.users[ADMIN.token] = ADMIN
        first = self.leases.make(users.ALICE, OF_HOSTS, kind='retry', **self.dates)
        self.bus.meanwhile = self.build_once
        stack = self.create(self.template_of(3), user=ADMIN)
        lease = self.outputs(stack)['id']
        assert (self.leases.get(lease).priority, self.leases.get(lease).status) == (3, 'PENDING')
        assert self.leases.get(first).status == 'WAITING'
        # A user may not change the priority, but there is nothing left that it could do.
        self.update(stack, self.template_of(5))
        assert self.leases.get(lease).priority == 3

    def build_once(self):
        self.bus.meanwhile = lambda: self.leases.forward(minutes=5)
        self.leases.build_host()

    def test_priority_is_for_those_whom_the_policy_lets_set_it(self):
        stack = self.create(self.template_of(3), status='CREATE_FAILED')
        assert 'priority: ' in self.reason(stack)
        assert 'climate:leases:set_priority' in self.reason(stack)
        assert not self.leases.all()

    def test_priority_is_changed_while_the_lease_waits(self):
        """The creation has failed, as when the timeout of the stack is over."""
        self.keystone.users[ADMIN.token] = ADMIN
        self.leases.after = [None, leases.refusal(403, 'It is not yours.')]
        stack = self.make_waiting('CREATE_FAILED')
        for priority in (3, None):
            template = self.template_of(priority)
            self.update(stack, template, user=ADMIN)
            assert self.leases.lease.status == 'WAITING'
            assert self.leases.lease.priority == (priority or 0)
        assert 'climate:leases:set_priority' in self.refused(
            stack, kind='retry', reservations=[OF_HOSTS], priority=5
        )
        assert self.leases.lease.priority == 0

    def test_wrong_templates_are_refused(self):
        for wrong, told in (
            ({'kind': 'soon'}, 'kind'),
            ({'kind': 'retry'}, 'reservations: a lease of the kind retry needs hosts'),
            ({'max_retries': 3}, 'max_retries: is for a lease of the kind retry'),
            ({'priority': 3}, 'priority: is for a lease of the kind retry'),
            ({'kind': 'retry', 'priority': 10, 'reservations': [OF_HOSTS]}, 'priority'),
            ({'preemptible': True}, 'preemptible: is for a lease of the kind scheduled'),
            ({'best_effort_timeout': 3}, 'best_effort_timeout: is for a lease of the kind best'),
            (
                {'kind': 'retry', 'on_end': 'suspend', 'reservations': [OF_HOSTS]},
                'on_end: must be left out',
            ),
        ):
            with pytest.raises(Exception, match=told):
                self.create(self.template(**wrong))
        stack = self.create(
            self.template(kind='retry', reservations=[OF_SERVER]), status='CREATE_FAILED'
        )
        assert 'reservations[0]' in self.reason(stack)
