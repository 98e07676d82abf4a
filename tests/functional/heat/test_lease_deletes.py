# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: how it ends, with its stack or without it, in every phase."""

from climate_core.plugins.base import Wait
from tests.functional.heat import leases
from tests.functional.heat.leased import SERVER, LeaseTest

EMPTY = {'heat_template_version': '2018-08-31'}


def server(hints):
    """A server with these hints."""
    properties = {'flavor': 'm1', 'image': 'cirros', 'networks': [{'allocate_network': 'none'}]}
    if hints:
        properties['scheduler_hints'] = hints
    return {'type': 'OS::Nova::Server', 'properties': properties}


class TestWithTheStack(LeaseTest):
    """Its user deletes the stack."""

    def gone(self, stack, lease):
        self.delete(stack)
        assert not self.exists(stack), self.reason(stack)
        # The stack's own reservation ends when the service looks again.
        self.leases.forward(minutes=1)
        assert not self.leases.get(lease).live
        assert self.leases.get(lease).deleted_at is not None

    def test_before_the_start(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.gone(stack, self.leases.lease.id)
        assert self.leases.servers.state[SERVER] == 'gone'

    def test_in_a_lease_that_runs(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.start(self.leases.lease.id)
        self.gone(stack, self.leases.lease.id)
        assert self.leases.servers.state[SERVER] == 'gone'

    def test_in_the_middle_of_the_start(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.servers.answers['wake', SERVER] = [Wait(60)]
        self.leases.start(self.leases.lease.id)
        assert self.leases.lease.status == 'STARTING'
        self.gone(stack, self.leases.lease.id)

    def test_whose_start_failed(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.start(self.leases.lease.id)
        self.gone(stack, self.leases.lease.id)

    def test_that_keeps_it_otherwise(self):
        stack = self.make(on_end='suspend')
        self.leases.start(self.leases.lease.id)
        self.gone(stack, self.leases.lease.id)
        # Nothing of the lease is changed for that.
        assert 'PUT' not in {each.method for each in self.leases.requests}

    def test_that_leaves_it_otherwise(self):
        stack = self.make(on_end='nothing')
        self.leases.start(self.leases.lease.id)
        self.gone(stack, self.leases.lease.id)

    def test_that_is_over(self):
        stack = self.make(on_end='nothing')
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.leases.end(lease)
        assert self.leases.get(lease).status == 'TERMINATED'
        self.gone(stack, lease)

    def test_that_is_gone(self):
        stack = self.make()
        self.leases.lose(self.leases.lease.id)
        self.delete(stack)
        assert not self.exists(stack)

    def test_that_was_never_made(self):
        self.leases.answers = [leases.refusal(403, 'The project may have 3 leases.')]
        stack = self.create(self.template())
        self.delete(stack)
        assert not self.exists(stack)

    def test_in_a_nested_stack(self):
        outer = {**EMPTY, 'resources': {'inner': {'type': 'inner.yaml'}}}
        stack = self.create(outer, files={'inner.yaml': leases.text(self.template())})
        self.gone(stack, self.leases.lease.id)


class TestWaiting(LeaseTest):
    def test_until_nothing_is_held(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        lease = self.leases.lease.id
        self.leases.servers.answers['end', SERVER] = [Wait(5)] * 3
        seen = []

        def meanwhile():
            seen.append(self.leases.servers.state[SERVER])
            self.leases.forward(seconds=5)

        self.bus.meanwhile = meanwhile
        self.update(stack, EMPTY)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        # Heat looked again and again before it let the lease go.
        assert seen.count('asleep') >= 3
        assert self.leases.servers.state[SERVER] == 'gone'
        assert self.leases.get(lease).deleted_at is not None

    def test_for_what_was_taken_out_before(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.servers.answers['end', SERVER] = [Wait(5)] * 3
        template = self.template()
        template['resources']['lease']['properties'].update(
            start_date=self.leases.lease.start_date.isoformat(),
            end_date=self.leases.lease.end_date.isoformat(),
        )
        self.update(stack, template)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.lease.reservations[1].status == 'deleting'
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)
        self.update(stack, EMPTY)
        assert self.leases.servers.state[SERVER] == 'gone'

    def test_not_for_what_waits_for_the_stack(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        lease = self.leases.lease.id
        self.delete(stack)
        assert not self.exists(stack)
        assert self.leases.servers.state[SERVER] == 'asleep'
        self.leases.forward(minutes=1)
        assert self.leases.servers.state[SERVER] == 'gone'
        assert self.leases.get(lease).deleted_at is not None

    def test_service_that_does_not_answer_for_a_while(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.servers.answers['end', SERVER] = [Wait(5)]

        def meanwhile():
            self.leases.after = [leases.refusal(500, 'The database is away.')]
            self.bus.meanwhile = lambda: self.leases.forward(seconds=5)

        self.bus.meanwhile = meanwhile
        self.update(stack, EMPTY)
        assert not self.leases.after
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert not self.leases.all()

    def test_service_that_refuses(self):
        stack = self.make()
        self.leases.answers = [leases.refusal(403, 'It is not yours.')]
        self.delete(stack)
        self.assert_stack(stack, 'DELETE_FAILED')
        assert 'It is not yours.' in self.reason(stack)
        self.delete(stack)
        assert not self.exists(stack)


class TestByTheService(LeaseTest):
    """The lease ends, and the service deletes the stack."""

    def test_stack_goes_at_the_end(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.leases.end(lease)
        assert self.leases.stacks.journal == [('wake', stack), ('delete', stack)]
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)
        self.bus.run()
        assert not self.exists(stack)
        self.leases.forward(minutes=1)
        assert not self.leases.get(lease).live

    def test_lease_that_its_user_deletes_takes_the_stack_with_it(self):
        stack = self.make()
        self.leases.start(self.leases.lease.id)
        self.leases.world.delete(self.leases.lease.id)
        self.leases.run()
        self.bus.run()
        assert not self.exists(stack)


class TestTakenOut(LeaseTest):
    """The lease is taken out of a template, and the stack goes on."""

    def taken_out(self, stack, lease, after=EMPTY):
        self.update(stack, after)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.leases.forward(minutes=1)
        self.bus.run()
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.get(lease).deleted_at is not None
        assert ('delete', stack) not in self.leases.stacks.journal

    def test_before_the_start(self):
        stack = self.make()
        self.taken_out(stack, self.leases.lease.id)

    def test_before_the_start_by_a_slow_service(self):
        """It lets the stack go on only as long as heat takes the lease out of it."""
        stack = self.make()
        self.leases.stacks.answers['end', stack] = [Wait(5)] * 3
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)
        self.taken_out(stack, self.leases.lease.id)
        assert not self.leases.stacks.answers['end', stack]

    def test_in_a_lease_that_runs(self):
        stack = self.make()
        self.leases.start(self.leases.lease.id)
        self.taken_out(stack, self.leases.lease.id)

    def test_whose_start_failed(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        lease = self.leases.lease.id
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.fail(stack, 'Heat does not let us.')
        self.leases.start(lease)
        assert [each.status for each in self.leases.lease.live] == ['error', 'error']
        self.leases.servers.answers['end', SERVER] = [Wait(5)]
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)
        self.taken_out(stack, lease)
        assert self.leases.servers.state[SERVER] == 'gone'

    def test_whose_end_has_begun(self):
        stack = self.make(reservations=[leases.of_server(SERVER)], on_end='nothing')
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.leases.servers.answers['end', SERVER] = [Wait(5)]
        self.leases.end(lease)
        assert self.leases.lease.status == 'TERMINATING'
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)
        self.taken_out(stack, lease)

    def test_whose_end_waits_for_the_stack(self):
        stack = self.make(on_end='suspend')
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.leases.stacks.answers['end', stack] = [Wait(1)]
        self.leases.end(lease)
        assert self.leases.lease.status == 'TERMINATING'
        self.bus.meanwhile = lambda: self.leases.forward(seconds=5)
        self.taken_out(stack, lease)

    def with_server(self, **hints):
        """A template of the lease and a server, which joins it."""
        template = self.template()
        template['resources']['server'] = server(hints)
        return template

    def test_with_a_member_before_the_start(self):
        joins = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}
        stack = self.create(self.with_server(**joins))
        lease = self.leases.lease.id
        assert self.cloud.nova.statuses() == ['RESERVED']
        self.taken_out(stack, lease, {**EMPTY, 'resources': {'server': server({})}})
        # Another one, which is not reserved.
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert len(self.cloud.nova.changed('delete')) == 1

    def test_with_a_member_that_runs(self):
        joins = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}
        stack = self.create(self.with_server(**joins))
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.patch_stack(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']
        self.taken_out(stack, lease, {**EMPTY, 'resources': {'server': server({})}})
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert not self.cloud.nova.changed('delete')

    def test_nested_stack_that_is_taken_out(self):
        outer = {**EMPTY, 'resources': {'inner': {'type': 'inner.yaml'}}}
        stack = self.create(outer, files={'inner.yaml': leases.text(self.template())})
        self.taken_out(stack, self.leases.lease.id)

    def test_stack_that_cannot_be_taken_out_is_not_put_at_risk(self):
        stack = self.make()
        lease = self.leases.lease.id
        self.leases.answers = [None, leases.refusal(500, 'The database is away.')]
        self.update(stack, EMPTY)
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert self.leases.get(lease).status == 'PENDING'
        self.update(stack, EMPTY)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.get(lease).deleted_at is not None

    def test_stack_of_a_creation_that_is_rolled_back(self):
        template = self.template()
        self.cloud.nova.full = True
        template['resources']['server'] = {**server({}), 'depends_on': 'lease'}
        stack = self.create(template, args={'disable_rollback': False})
        self.assert_stack(stack, 'ROLLBACK_COMPLETE')
        assert not self.leases.all()
        assert ('delete', stack) not in self.leases.stacks.journal


class TestAbandoned(LeaseTest):
    def test_lease_goes_on(self):
        stack = self.make()
        found = self.abandon(stack)
        lease = self.leases.lease
        assert found['resources']['lease']['resource_id'] == lease.id
        assert lease.status == 'PENDING'
        self.leases.start(lease.id)
        self.leases.end(lease.id)
        assert not self.leases.get(lease.id).live
