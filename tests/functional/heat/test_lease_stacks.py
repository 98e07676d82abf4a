# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: stacks among its reservations that the lease service makes."""

from tests.functional.heat.leased import LeaseTest


class TestTemplateStacks(LeaseTest):
    """The lease service never shows their templates."""

    def given(self, **changes):
        return {
            'resource_type': 'virtual:stack',
            'name': 'inner',
            'template': 'heat_template_version: 2021-04-16',
            'parameters': {'flavor': 'm1.tiny'},
            **changes,
        }

    def made(self):
        return [r for r in self.leases.lease.live if 'name' in r.params]

    def test_stack_is_created_once(self):
        stack = self.make(reservations=[self.given()])
        (before,) = self.made()
        (same,) = [*self.change(stack, name='lease2', reservations=[self.given()]).live][1:]
        assert same == before
        assert [each.method for each in self.leases.requests].count('POST') == 1
        assert before.params == {'name': 'inner', 'hold': 'now'}
        self.change(stack)
        assert self.made() == []

    def test_stack_added_later_is_changed_in_place(self):
        stack = self.make()
        self.change(stack, reservations=[self.given(on_end='delete')])
        (before,) = self.made()
        self.change(stack, reservations=[self.given(on_end='suspend')])
        (after,) = self.made()
        assert (after.id, after.params['on_end']) == (before.id, 'suspend')

    def test_other_template_or_parameters_are_refused(self):
        stack = self.make(reservations=[self.given()])
        for changes in (
            {'template': 'heat_template_version: 2018-08-31'},
            {'parameters': {'flavor': 'm1.large'}},
        ):
            reason = self.refused(stack, reservations=[self.given(**changes)])
            assert 'The template of stack inner cannot change' in reason
            self.refused(stack, reservations=[self.given(**changes)])
        self.change(stack, reservations=[self.given()])
        assert len(self.made()) == 1
        # Another name is another stack.
        self.change(stack, reservations=[self.given(name='other', template='')])
        assert [each.params['name'] for each in self.made()] == ['other']

    def test_failed_stack_has_to_be_removed_first(self):
        self.leases.stacks.room = False
        stack = self.make(reservations=[self.given()])
        (before,) = self.made()
        assert (before.status, self.leases.lease.status) == ('error', 'ERROR')
        self.leases.stacks.room = True
        smaller = self.given(parameters={'flavor': 'm1.nano'})
        for _ in range(2):
            reason = self.refused(stack, reservations=[smaller])
            assert 'remove it in one update and add it again in the next' in reason
            assert 'No valid host was found.' in reason
        assert self.change(stack).status == 'PENDING'
        assert self.made() == []
        assert self.change(stack, reservations=[smaller]).status == 'PENDING'
        (after,) = self.made()
        assert (after.id != before.id, after.status) == (True, 'pending')
        assert self.leases.stacks.count('prepare', after.resource_id) == 1

    def test_stack_removed_by_its_user_is_created_from_another_template(self):
        stack = self.make(reservations=[self.given()])
        (before,) = self.made()
        self.leases.leave(before)
        self.change(stack, reservations=[self.given(template='heat_template_version: pike')])
        (after,) = self.made()
        assert after.id != before.id
