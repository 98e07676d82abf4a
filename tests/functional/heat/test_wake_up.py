# SPDX-License-Identifier: Apache-2.0
"""The wake-up: failures on the way, others that wake up, and when nothing is woken up."""

import itertools
import types

import fixtures
from heat.engine import translation
from oslo_config import cfg

from tests.functional.heat.bus import Killed
from tests.functional.heat.clouds import Refusal
from tests.functional.heat.leases import refusal
from tests.functional.heat.reserved import HAS_RUN, ReservedTest, guide_row
from tests.functional.heat.users import ALICE
from tests.support.stacks import (
    CHAIN,
    PAIR,
    UNLINKED,
    changed,
    ported,
    without,
)

ONE = without(CHAIN, 'second')
REPLACED = {'image': 'fedora', 'image_update_policy': 'REPLACE'}


class ChainTest(ReservedTest):
    """Two servers, the second after the first."""

    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all(CHAIN)
        self.members = self.first, self.second = self.ids(self.stack, 'first', 'second')

    def once_woken(self, *fault):
        """Let nova fail once after the first server was woken up."""
        self.while_waiting(lambda: self.cloud.nova.faults.append(fault), until=self.wakes)

    def assert_completed_by_the_next_update(self):
        self.patch_stack(self.stack)
        assert self.statuses() == ['ACTIVE', 'ACTIVE']
        assert self.ids(self.stack, 'first', 'second') == self.members


class TestLostMessage(ReservedTest):
    def test_start_that_nobody_has_begun_is_requested_again(self):
        clock = types.SimpleNamespace(monotonic=itertools.count(0, 10).__next__)
        self.useFixture(fixtures.MonkeyPatch('heat_ext.members.progress.time', clock))
        stack = self.reserve_all(PAIR)
        server, disk = self.ids(stack, 'server', 'disk')
        self.cloud.nova.servers[server]['lost'] = 1
        self.cloud.cinder.volumes[disk]['lost'] = 1
        self.start(stack)
        assert self.statuses() == ['ACTIVE', 'available']
        assert sorted(self.wakes()) == sorted((server, server, disk, disk))


class TestFailure(ChainTest):
    @guide_row('changes nothing', 'after')
    def test_failed_server_is_woken_up_again_by_the_next_update(self):
        self.cloud.nova.servers[self.second].update(failures=1, sleeps_on=True)
        found = self.start(self.stack, 'UPDATE_FAILED')
        reason = 'The server could not be started: No valid host was found.'
        assert reason in found.status_reason
        assert self.cloud.nova.statuses() == ['ACTIVE', 'RESERVED']
        self.assert_completed_by_the_next_update()
        assert self.wakes() == [self.first, self.second, self.second]

    def test_server_in_error_is_replaced_by_the_next_update(self):
        self.cloud.nova.servers[self.second]['failures'] = 1
        self.start(self.stack, 'UPDATE_FAILED')
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ERROR']
        self.patch_stack(self.stack)
        assert self.statuses() == ['ACTIVE', 'ACTIVE']
        first, second = self.ids(self.stack, 'first', 'second')
        assert (first, second != self.second) == (self.first, True)
        assert self.held() == {first, second}

    def test_outage_or_conflict_is_over_for_the_next_update(self):
        self.cloud.nova.faults.append(('POST', '/action', 503))
        self.start(self.stack, 'UPDATE_FAILED')
        self.leases.answers[:] = [refusal(503, 'Later.') for _ in range(4)]
        found = self.patch_stack(self.stack, status='UPDATE_FAILED')
        assert 'resources.first' in found.status_reason
        self.leases.answers.clear()
        self.cloud.nova.faults.append(('POST', '/action', 409))
        found = self.patch_stack(self.stack, status='UPDATE_FAILED')
        assert 'A fault that the test ordered.' in found.status_reason
        assert self.wakes() == []
        self.assert_completed_by_the_next_update()

    def test_outage_while_heat_looks_up_the_old_names_replaces_nothing(self):
        look_up = translation.resolve_and_find

        def fail(value, *args, **kwargs):
            is_old = kwargs.get('ignore_resolve_error') or True in args
            return value if is_old else look_up(value, *args, **kwargs)

        self.patchobject(translation, 'resolve_and_find', new=fail)
        self.start(self.stack)
        assert self.wakes() == self.members
        assert self.ids(self.stack, 'first', 'second') == self.members

    def test_outage_of_nova_or_of_the_host_is_waited_for(self):
        self.cloud.nova.servers[self.first]['next'] = ['UNKNOWN'] * 12 + ['RESERVED']
        self.once_woken('GET', f'/servers/{self.first}', 503)
        self.start(self.stack)
        assert self.cloud.nova.faults == []
        assert self.wakes() == self.members

    def test_engine_stopped_after_its_request_wakes_up_nothing_twice(self):
        self.once_woken('GET', f'/servers/{self.first}', Killed())
        self.start(self.stack, 'UPDATE_FAILED')
        assert self.wakes() == [self.first]
        self.assert_completed_by_the_next_update()
        assert self.wakes() == self.members

    def test_soft_deleted_server_fails(self):
        self.cloud.nova.servers[self.first]['status'] = 'SOFT_DELETED'
        found = self.start(self.stack, 'UPDATE_FAILED')
        assert 'SOFT_DELETED' in found.status_reason
        assert self.wakes() == []

    def test_conflict_of_a_server_that_another_request_woke_up_is_ignored(self):
        act = self.cloud.nova._act

        def faster(request, key):
            del self.cloud.nova._act
            act(request, key)
            raise Refusal(409, 'Another request was faster.')

        self.cloud.nova._act = faster
        self.start(self.stack)
        assert self.statuses() == ['ACTIVE', 'ACTIVE']
        assert self.wakes() == self.members

    def test_server_that_another_request_is_starting_is_waited_for(self):
        server, path = self.cloud.nova.servers[self.first], f'/servers/{self.first}'
        server['OS-EXT-STS:task_state'] = 'scheduling'
        self.cloud.nova.requests.clear()
        self.while_waiting(
            lambda: server.update({'OS-EXT-STS:task_state': None, 'status': 'ACTIVE'}),
            until=lambda: self.cloud.nova.requests.count(('GET', path)) > 10,
        )
        self.start(self.stack)
        assert self.wakes() == [self.second]


class TestFailedResource(ReservedTest):
    def test_server_in_error_leaves_its_volume_and_port_to_its_replacement(self):
        stack = self.reserve_all(ported(PAIR))
        self.record(stack, 'server')['failures'] = 1
        self.start(stack, 'UPDATE_FAILED')
        assert self.cloud.nova.statuses() == ['ERROR']
        self.cloud.nova.full = True
        for _ in range(2):
            found = self.patch_stack(stack, status='UPDATE_FAILED')
            assert 'No valid host was found.' in found.status_reason
        self.cloud.nova.full = False
        self.patch_stack(stack)
        (server,) = self.cloud.nova.servers.values()
        disk, port, new = self.ids(stack, 'disk', 'port', 'server')
        assert (server['id'], server['status'], server['volumes']) == (new, 'ACTIVE', [disk])
        assert self.plugged(new) == {port}
        assert self.held() == {disk, new}

    def test_server_in_error_that_has_run_is_deleted_last(self):
        """Its disk may be all that is left of it."""
        stack = self.reserve_all(ONE)
        (old,) = self.ids(stack, 'first')
        self.cloud.nova.servers[old].update({'status': 'ERROR', **HAS_RUN})
        self.start(stack, 'UPDATE_FAILED')
        self.cloud.nova.full = True
        self.patch_stack(stack, status='UPDATE_FAILED')
        assert old in self.cloud.nova.servers

    def test_volume_in_error_is_woken_up_again(self):
        stack = self.reserve_all()
        disk, server = self.ids(stack, 'disk', 'server')
        self.cloud.cinder.volumes[disk]['failures'] = 1
        found = self.start(stack, 'UPDATE_FAILED')
        assert 'The volume could not be created' in found.status_reason
        assert self.cloud.nova.statuses() == ['RESERVED']
        self.patch_stack(stack)
        assert self.ids(stack, 'disk', 'server') == [disk, server]
        assert self.wakes() == [disk, disk, server]

    def test_volume_in_error_is_not_woken_up_before_the_start(self):
        stack = self.reserve_all()
        members = self.ids(stack, 'disk', 'server')
        # An administrator may set this status; cinder then accepts a wake-up as well.
        self.record(stack, 'disk').update(status='error', broken=True)
        self.patch_stack(stack)
        assert self.wakes() == []
        self.start(stack)
        assert self.ids(stack, 'disk', 'server') == self.wakes() == members

    def test_volume_that_was_never_reserved_is_replaced(self):
        for started in (False, True):
            self.lease = self.leases.make(ALICE)
            if started:
                self.leases.start(self.lease)
            self.cloud.cinder.full = True
            stack = self.reserve_all(name=f's{started}', status='CREATE_FAILED')
            self.cloud.cinder.full = False
            before = self.wakes()
            self.patch_stack(stack)
            if not started:
                assert self.cloud.cinder.statuses() == ['lease-reserved']
                assert self.wakes() == before
                self.start(stack)
            assert {*self.wakes()} - {*before} == set(self.ids(stack, 'disk', 'server'))
            self.delete(stack)

    def test_engine_stopped_during_a_reservation_reserves_nothing_twice(self):
        for name, service in (('first', self.cloud.nova), ('disk', self.cloud.cinder)):
            looks, service.looks = service.looks, 12
            service.faults.append(('GET', '/(servers|volumes)/', Killed()))
            stack = self.reserve_all(UNLINKED, status='CREATE_FAILED')
            before = self.ids(stack, name)
            self.patch_stack(stack)
            assert self.ids(stack, name) == before
            assert self.statuses() == ['RESERVED', 'lease-reserved']
            service.looks = looks
            self.delete(stack)
        assert self.wakes() == []

    def test_engine_stopped_during_a_reservation_that_fails_wakes_up_nothing(self):
        self.cloud.cinder.looks, self.cloud.cinder.full = 12, True
        self.cloud.cinder.faults.append(('GET', '/volumes/', Killed()))
        stack = self.reserve_all(UNLINKED, status=None)
        found = self.patch_stack(stack, status='UPDATE_FAILED')
        assert 'The volume could not be created' in found.status_reason
        assert self.wakes() == []


class TestOthers(ReservedTest):
    """Others than heat wake up."""

    def test_what_others_woke_up_is_completed(self):
        template = changed(PAIR, 'disk', read_only=True)
        stack = self.reserve_all(changed(template, 'server', tags=['a']))
        self.record(stack, 'disk').update(status='available', broken=False)
        self.record(stack, 'server')['status'] = 'ACTIVE'
        self.patch_stack(stack)
        assert self.wakes() == []
        assert self.record(stack, 'server')['tags'] == ['a']
        assert self.cloud.cinder.changed('os-update_readonly_flag') == self.ids(stack, 'disk')
        assert self.outputs(stack)['status'] == 'available'
        assert 'climate_lease' not in self.data(stack, 'server')

    def test_what_others_woke_up_and_use_is_left_alone(self):
        stack = self.reserve_all()
        self.record(stack, 'disk')['status'] = 'in-use'
        self.record(stack, 'server')['status'] = 'SHUTOFF'
        self.patch_stack(stack)
        assert self.changes()[2:] == []

    def test_server_that_others_woke_up_gives_its_port_to_its_replacement(self):
        template = ported(UNLINKED, server='first')
        stack = self.reserve_all(template)
        port, old = self.ids(stack, 'port', 'first')
        self.cloud.nova.servers[old].update({'status': 'ACTIVE', **HAS_RUN})
        self.change(stack, changed(template, 'first', **REPLACED))
        (new,) = self.ids(stack, 'first')
        assert new != old
        assert self.plugged(new) == {port}

    def test_soft_deleted_server_with_a_port_can_be_restored(self):
        stack = self.reserve_all(ported(UNLINKED, server='first'))
        before, server = self.ids(stack, 'first'), self.record(stack, 'first')
        server['status'] = 'SOFT_DELETED'
        self.start(stack, 'UPDATE_FAILED')
        found = self.patch_stack(stack, status='UPDATE_FAILED')
        assert 'vm_state SOFT_DELETED' in found.status_reason
        assert self.cloud.nova.changed('delete') == []
        server['status'] = 'ACTIVE'
        self.patch_stack(stack)
        assert self.ids(stack, 'first') == before


class TestWithoutServiceUser(ReservedTest):
    SERVICE_USER = False

    def test_wake_up_fails_with_the_reason_of_nova(self):
        stack = self.reserve_all(CHAIN)
        found = self.start(stack, 'UPDATE_FAILED')
        assert "Policy doesn't allow wake_up" in found.status_reason
        assert self.statuses() == ['RESERVED', 'RESERVED']


class TestTokens(ChainTest):
    """The token of the update expires during the wake-up."""

    def start_with_a_token_that_expires(self, status):
        self.while_waiting(lambda: self.keystone.users.pop(ALICE.token), until=self.wakes)
        found = self.start(self.stack, status)
        self.keystone.users[ALICE.token] = ALICE
        return found

    def test_next_update_goes_on_with_a_new_token(self):
        found = self.start_with_a_token_that_expires('UPDATE_FAILED')
        assert 'HTTP 401' in found.status_reason
        self.patch_stack(self.stack)
        assert self.wakes() == self.members

    def test_heat_takes_new_tokens_if_it_may(self):
        cfg.CONF.set_override('reauthentication_auth_method', 'trusts')
        self.start_with_a_token_that_expires('UPDATE_COMPLETE')
        assert self.wakes() == self.members
