# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: how it ends, with its stack or without it, in every phase."""

from climate_core.plugins.base import PollAgain
from tests.functional.heat import leases
from tests.functional.heat.leased import OF_SERVER, SERVER, LeaseTest
from tests.support.stacks import EMPTY, added, server, stack

OUTER = stack({'inner': {'type': 'inner.yaml'}})
JOINS = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}


def alone(**properties):
    """Return the definition of a server without networks."""
    return server(networks=[{'allocate_network': 'none'}], **properties)


class DeleteTest(LeaseTest):
    def let_time_pass(self):
        """Let five seconds pass in the lease service whenever heat waits."""
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)

    def make_nested(self):
        """Create a stack with a lease in a nested stack; gives the ids of stack and lease."""
        stack = self.create(OUTER, files={'inner.yaml': self.template()})
        return stack, self.leases.lease.id

    def make_with_server(self):
        """Create a stack with a lease and a server that joins it; gives the ids of both."""
        stack = self.create(added(self.template(), server=alone(scheduler_hints=JOINS)))
        return stack, self.leases.lease.id


class TestWithTheStack(DeleteTest):
    """Its user deletes the stack."""

    def assert_deleted_with(self, stack, lease):
        self.delete(stack)
        # The stack's own reservation ends when the service looks again.
        self.leases.forward(minutes=1)
        assert not self.leases.get(lease).live
        assert self.leases.get(lease).deleted_at is not None

    def test_lease_in_any_status_is_deleted(self):
        self.leases.servers.answers['wake', SERVER] = [PollAgain(60)]
        for make, given, status in (
            (self.make_started, {'reservations': [OF_SERVER]}, 'STARTING'),
            (self.make_started, {}, 'ACTIVE'),
            (self.make_failed, {}, 'ERROR'),
            # The end of the stack in the lease is not changed for that.
            (self.make_started, {'on_end': 'suspend'}, 'ACTIVE'),
            (self.make_started, {'on_end': 'nothing'}, 'ACTIVE'),
            (self.make_over, {}, 'TERMINATED'),
        ):
            with self.subTest(status=status, **given):
                self.set_dates()
                self.leases.servers.state.clear()
                stack, lease = make(**given)
                assert self.leases.get(lease).status == status
                self.assert_deleted_with(stack, lease)
        assert 'PUT' not in {each.method for each in self.leases.requests}

    def test_reservation_of_a_lease_ends_with_the_stack_before_and_after_the_start(self):
        for started in (False, True):
            self.set_dates()
            self.leases.servers.state.clear()
            stack = self.make(reservations=[OF_SERVER])
            lease = self.leases.lease.id
            if started:
                self.leases.start(lease)
            self.delete(stack)
            # It waits for the stack.
            assert self.leases.servers.state[SERVER] == ('awake' if started else 'asleep')
            self.leases.forward(minutes=1)
            assert self.leases.servers.state[SERVER] == 'gone'
            assert self.leases.get(lease).deleted_at is not None

    def test_lease_that_is_gone_or_was_never_created_is_no_failure(self):
        stack = self.make()
        self.leases.lose(self.leases.lease.id)
        self.delete(stack)
        self.leases.answers = [leases.refusal(403, 'The project may have 3 leases.')]
        self.delete(self.create(self.template(), status='CREATE_FAILED'))

    def test_lease_in_a_nested_stack_is_deleted(self):
        self.assert_deleted_with(*self.make_nested())


class TestWaiting(DeleteTest):
    def test_removed_lease_is_waited_for_until_it_holds_nothing(self):
        stack = self.make(reservations=[OF_SERVER])
        lease = self.leases.lease.id
        self.leases.servers.answers['end', SERVER] = [PollAgain(5)] * 3
        seen = []

        def meanwhile():
            seen.append(self.leases.servers.state[SERVER])
            self.leases.forward(seconds=5)

        self.bus.meanwhile = meanwhile
        self.update(stack, EMPTY)
        # Heat looked again and again before it let the lease go.
        assert seen.count('asleep') >= 3
        assert self.leases.servers.state[SERVER] == 'gone'
        assert self.leases.get(lease).deleted_at is not None

    def test_removed_lease_is_waited_for_until_removed_reservations_are_gone(self):
        stack = self.make(reservations=[OF_SERVER])
        self.leases.servers.answers['end', SERVER] = [PollAgain(5)] * 3
        self.change(stack)
        assert self.leases.lease.reservations[1].status == 'deleting'
        self.let_time_pass()
        self.update(stack, EMPTY)
        assert self.leases.servers.state[SERVER] == 'gone'

    def test_outage_of_the_lease_service_is_waited_for(self):
        stack = self.make(reservations=[OF_SERVER])
        self.leases.servers.answers['end', SERVER] = [PollAgain(5)]

        def meanwhile():
            self.leases.after = [leases.refusal(500, 'The database is away.')]
            self.let_time_pass()

        self.bus.meanwhile = meanwhile
        self.update(stack, EMPTY)
        assert not self.leases.after
        assert not self.leases.all()

    def test_refused_deletion_fails_and_can_be_repeated(self):
        stack = self.make()
        self.leases.answers = [leases.refusal(403, 'It is not yours.')]
        self.delete(stack, status='DELETE_FAILED')
        assert 'It is not yours.' in self.reason(stack)
        self.delete(stack)


class TestByTheService(DeleteTest):
    """The lease ends, and the service deletes the stack."""

    def test_stack_is_deleted_at_the_end(self):
        stack, lease = self.make_started(reservations=[OF_SERVER])
        self.leases.end(lease)
        assert self.leases.stacks.journal == [('wake', stack), ('delete', stack)]
        self.let_time_pass()
        self.bus.run()
        assert not self.exists(stack)
        self.leases.forward(minutes=1)
        assert not self.leases.get(lease).live

    def test_stack_is_deleted_with_a_lease_that_its_user_deletes(self):
        stack, lease = self.make_started()
        self.leases.world.delete(lease)
        self.leases.run()
        self.bus.run()
        assert not self.exists(stack)

    def test_lease_of_an_abandoned_stack_goes_on(self):
        stack = self.make()
        found = self.abandon(stack)
        lease = self.leases.lease
        assert found['resources']['lease']['resource_id'] == lease.id
        assert lease.status == 'PENDING'
        self.leases.start(lease.id)
        self.leases.end(lease.id)
        assert not self.leases.get(lease.id).live


class TestRemoved(DeleteTest):
    """The lease is removed from a template, and the stack goes on."""

    def assert_stack_goes_on(self, stack, lease, after=EMPTY):
        self.update(stack, after)
        self.leases.forward(minutes=1)
        self.bus.run()
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.get(lease).deleted_at is not None
        assert ('delete', stack) not in self.leases.stacks.journal

    def test_stack_goes_on_before_the_start_and_in_a_lease_that_runs(self):
        stack = self.make()
        self.assert_stack_goes_on(stack, self.leases.lease.id)
        self.delete(stack)
        self.assert_stack_goes_on(*self.make_started())

    def test_stack_goes_on_with_a_slow_lease_service(self):
        """It lets the stack go on only while heat removes the lease from it."""
        stack = self.make()
        self.leases.stacks.answers['end', stack] = [PollAgain(5)] * 3
        self.let_time_pass()
        self.assert_stack_goes_on(stack, self.leases.lease.id)
        assert not self.leases.stacks.answers['end', stack]

    def test_stack_goes_on_after_a_failed_start(self):
        stack = self.make(reservations=[OF_SERVER])
        lease = self.leases.lease.id
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.fail(stack, 'Heat does not let us.')
        self.leases.start(lease)
        assert [each.status for each in self.leases.lease.live] == ['error', 'error']
        self.leases.servers.answers['end', SERVER] = [PollAgain(5)]
        self.let_time_pass()
        self.assert_stack_goes_on(stack, lease)
        assert self.leases.servers.state[SERVER] == 'gone'

    def test_stack_goes_on_while_its_lease_ends_or_suspends_it(self):
        answers = self.leases.servers.answers, self.leases.stacks.answers
        for given, plugin, wait in (
            ({'reservations': [OF_SERVER], 'on_end': 'nothing'}, 0, PollAgain(5)),
            ({'on_end': 'suspend'}, 1, PollAgain(1)),
        ):
            self.set_dates()
            self.bus.meanwhile = self.leases.run
            stack, lease = self.make_started(**given)
            answers[plugin]['end', (SERVER, stack)[plugin]] = [wait]
            self.leases.end(lease)
            assert self.leases.lease.status == 'TERMINATING'
            self.let_time_pass()
            self.assert_stack_goes_on(stack, lease)
            self.delete(stack)

    def test_member_before_the_start_is_replaced_by_an_ordinary_server(self):
        made = self.make_with_server()
        assert self.cloud.nova.statuses() == ['RESERVED']
        self.assert_stack_goes_on(*made, stack({'server': alone()}))
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert len(self.cloud.nova.changed('delete')) == 1

    def test_member_that_runs_keeps_running(self):
        made = self.make_with_server()
        self.leases.start(made[1])
        self.patch_stack(made[0])
        assert self.cloud.nova.statuses() == ['ACTIVE']
        self.assert_stack_goes_on(*made, stack({'server': alone()}))
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert not self.cloud.nova.changed('delete')

    def test_stack_goes_on_without_a_nested_stack_of_the_lease(self):
        self.assert_stack_goes_on(*self.make_nested())

    def test_lease_stays_if_the_stack_cannot_be_kept(self):
        stack = self.make()
        lease = self.leases.lease.id
        self.leases.answers = [None, leases.refusal(500, 'The database is away.')]
        self.update(stack, EMPTY, status='UPDATE_FAILED')
        assert self.leases.get(lease).status == 'PENDING'
        self.update(stack, EMPTY)
        assert self.leases.get(lease).deleted_at is not None

    def test_creation_that_is_rolled_back_leaves_no_lease(self):
        self.cloud.nova.full = True
        template = added(self.template(), server=alone(depends_on='lease'))
        stack = self.create(template, rollback=True, status='ROLLBACK_COMPLETE')
        assert not self.leases.all()
        assert ('delete', stack) not in self.leases.stacks.journal
