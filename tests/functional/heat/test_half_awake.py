# SPDX-License-Identifier: Apache-2.0
"""Actions of a reserved stack of which the wake-up has failed half-way."""

import pytest
from heat.common import exception

from tests.functional.heat.reserved import ReservedTest
from tests.support.stacks import CHAIN, changed, stack_level


class TestHalfAwake(ReservedTest):
    """The wake-up failed when one server ran, and the next update goes on with it."""

    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all(CHAIN)
        self.first, self.second = self.ids(self.stack, 'first', 'second')
        self.cloud.nova.servers[self.second].update(failures=1, sleeps_on=True)
        self.start(self.stack, 'UPDATE_FAILED')
        self.assert_servers('ACTIVE', 'RESERVED')

    def assert_servers(self, *statuses):
        assert self.cloud.nova.statuses() == list(statuses)

    def assert_goes_on(self):
        self.patch_stack(self.stack)
        self.assert_servers('ACTIVE', 'ACTIVE')
        assert self.ids(self.stack, 'first', 'second') == [self.first, self.second]
        assert self.wakes() == [self.first, self.second, self.second]

    def test_suspend_and_resume_fail_and_the_next_update_goes_on(self):
        """Heat suspends nothing that failed, and updates nothing until it is told to resume."""
        # Heat knows no id that is referred to in what is previewed.
        networks = [{'network': self.ids(self.stack, 'net')[0]}]
        template = changed(changed(CHAIN, 'first', networks=networks), 'second', networks=networks)
        before = self.changes()
        found = self.preview_update(self.stack, template, environment=stack_level(self.lease))
        assert found == {'net': 'unchanged', 'first': 'unchanged', 'second': 'updated'}
        # Heat resumes only what was suspended.
        self.resume(self.stack, status='RESUME_FAILED')
        found = self.suspend(self.stack, status='SUSPEND_FAILED')
        assert "resources.second: State ('UPDATE', 'FAILED')" in found.status_reason
        with pytest.raises(exception.NotSupported):
            self.patch_stack(self.stack)
        self.resume(self.stack, status=None)
        assert self.changes() == before
        self.assert_goes_on()

    def test_check_fails_and_the_next_update_goes_on(self):
        found = self.check(self.stack, status='CHECK_FAILED')
        reason = "resources.second: 'status': expected 'ACTIVE', got 'RESERVED'"
        assert reason in found.status_reason
        assert self.resource(self.stack, 'first').state == ('CHECK', 'COMPLETE')
        self.assert_goes_on()

    def test_abandon_keeps_everything(self):
        left = self.abandon(self.stack)
        assert not self.exists(self.stack)
        data = {name: each['resource_data'] for name, each in left['resources'].items()}
        assert 'climate_lease' not in data['first']
        assert data['second']['climate_lease'] == self.lease
        self.assert_servers('ACTIVE', 'RESERVED')
        assert self.held() == {self.first, self.second}

    def test_delete_leaves_nothing(self):
        self.delete(self.stack)
        self.assert_nothing_left()
