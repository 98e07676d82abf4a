# SPDX-License-Identifier: Apache-2.0
"""Who wakes: others than heat, or heat without a token of its own or with one that runs out."""

from oslo_config import cfg

from tests.functional.heat.clouds import Refusal
from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import CHAIN, PAIR, UNLINKED, changed, stack_level
from tests.functional.heat.updated import ported
from tests.functional.heat.users import ALICE


class TestOthers(ReservedTest):
    def test_somebody_is_faster(self):
        stack = self.reserve_all(CHAIN)
        act = self.cloud.nova._act

        def faster(request, key):
            del self.cloud.nova._act
            act(request, key)
            raise Refusal(409, 'Somebody was faster.')

        self.cloud.nova._act = faster
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        assert self.wakes() == self.ids(stack, 'first', 'second')

    def test_it_is_just_being_started(self):
        stack = self.reserve_all(CHAIN)
        first, second = self.ids(stack, 'first', 'second')
        self.cloud.nova.servers[first]['OS-EXT-STS:task_state'] = 'scheduling'
        self.leases.start(self.lease)
        self.cloud.nova.requests.clear()
        self.bus.meanwhile = lambda: self.finish(first)
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == [second]

    def finish(self, server):
        """Let another's start come to its end after some looks."""
        if self.cloud.nova.requests.count(('GET', f'/servers/{server}')) > 10:
            found = self.cloud.nova.servers[server]
            found.update({'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'})

    def test_a_refusal_that_is_no_hurry_fails(self):
        stack = self.reserve_all(CHAIN)
        self.leases.start(self.lease)
        self.cloud.nova.faults.append(('POST', '/action', 409))
        self.patch_stack(stack)
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'A fault that the test ordered.' in found.status_reason

    def test_what_others_have_woken_is_completed(self):
        template = changed(PAIR, 'disk', read_only=True)
        template = changed(template, 'server', tags=['a'])
        stack = self.reserve_all(template)
        disk, server = self.ids(stack, 'disk', 'server')
        self.cloud.cinder.volumes[disk].update(status='available', broken=False)
        self.cloud.nova.servers[server]['status'] = 'ACTIVE'
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == []
        assert self.cloud.nova.servers[server]['tags'] == ['a']
        assert self.cloud.cinder.changed('os-update_readonly_flag') == [disk]
        assert self.outputs(stack)['status'] == 'available'
        assert 'climate_lease' not in self.resource(stack, 'server').data()

    def test_what_others_have_woken_gives_its_port_to_the_one_in_its_place(self):
        template = ported(UNLINKED, server='first')
        stack = self.reserve_all(template)
        port, old = self.ids(stack, 'port', 'first')
        self.cloud.nova.servers[old].update(
            {'status': 'ACTIVE', 'OS-SRV-USG:launched_at': '2026-01-01T00:00:00.000000'}
        )
        policy = {'image_update_policy': 'REPLACE'}
        template = changed(template, 'first', image='fedora', **policy)
        self.update(stack, template, environment=stack_level(self.lease))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        (new,) = self.ids(stack, 'first')
        assert new != old
        assert self.cloud.neutron.records['ports'][port]['device_id'] == new

    def test_what_is_thrown_away_is_not_awake(self):
        stack = self.reserve_all(CHAIN)
        (first,) = self.ids(stack, 'first')
        self.cloud.nova.servers[first]['status'] = 'SOFT_DELETED'
        self.start(stack, 'UPDATE_FAILED')
        assert 'SOFT_DELETED' in self.load(stack).status_reason
        assert self.cloud.nova.changed('wake_up') == []

    def test_what_is_thrown_away_with_its_port_can_be_restored(self):
        stack = self.reserve_all(ported(UNLINKED, server='first'))
        (first,) = self.ids(stack, 'first')
        self.cloud.nova.servers[first]['status'] = 'SOFT_DELETED'
        self.start(stack, 'UPDATE_FAILED')
        self.patch_stack(stack)
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'vm_state SOFT_DELETED' in found.status_reason
        assert self.cloud.nova.changed('delete') == []
        self.cloud.nova.servers[first]['status'] = 'ACTIVE'
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, 'first') == [first]

    def test_one_whose_host_is_out_of_reach_is_waited_for(self):
        stack = self.reserve_all(CHAIN)
        first, second = self.ids(stack, 'first', 'second')
        self.cloud.nova.servers[first]['next'] = ['UNKNOWN'] * 12 + ['RESERVED']
        self.start(stack)
        assert self.wakes() == [first, second]

    def test_what_others_have_woken_and_used(self):
        stack = self.reserve_all()
        disk, server = self.ids(stack, 'disk', 'server')
        self.cloud.cinder.volumes[disk]['status'] = 'in-use'
        self.cloud.nova.servers[server]['status'] = 'SHUTOFF'
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.changes()[2:] == []


class TestWithoutServiceUser(ReservedTest):
    SERVICE_USER = False

    def test_nova_says_why(self):
        stack = self.reserve_all(CHAIN)
        self.start(stack, 'UPDATE_FAILED')
        assert "Policy doesn't allow wake_up" in self.load(stack).status_reason
        assert self.cloud.nova.statuses() == ['RESERVED', 'RESERVED']


class TestTokens(ReservedTest):
    """The token of the update runs out while the stack is woken."""

    def test_the_next_update_goes_on_with_a_new_one(self):
        stack = self.woken_with_a_token_that_runs_out()
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'HTTP 401' in found.status_reason
        self.keystone.users[ALICE.token] = ALICE
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.wakes() == self.ids(stack, 'first', 'second')

    def test_heat_takes_new_ones_if_it_may(self):
        cfg.CONF.set_override('reauthentication_auth_method', 'trusts')
        stack = self.woken_with_a_token_that_runs_out()
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.keystone.users[ALICE.token] = ALICE
        assert self.wakes() == self.ids(stack, 'first', 'second')

    def woken_with_a_token_that_runs_out(self):
        stack = self.reserve_all(CHAIN)
        self.leases.start(self.lease)

        def meanwhile():
            self.leases.run()
            if self.wakes():
                self.keystone.users.pop(ALICE.token, None)

        self.bus.meanwhile = meanwhile
        self.patch_stack(stack)
        self.bus.meanwhile = self.leases.run
        return stack
