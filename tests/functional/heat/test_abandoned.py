# SPDX-License-Identifier: Apache-2.0
"""A stack that is abandoned while engines are at work with it, also if they are slow to stop."""

from types import SimpleNamespace

import fixtures

from tests.functional.heat.deferred import ATTACHED, DeferredTest
from tests.functional.heat.grouped import GROUP, GroupTest
from tests.functional.heat.templates import COUNTED


class Slow(fixtures.Fixture):
    """Engines that come to no end in the time that heat gives them."""

    def _setUp(self):
        nobody = SimpleNamespace(sleep=lambda seconds: None)
        self.useFixture(fixtures.MonkeyPatch('heat.engine.worker.time', nobody))


class TestDeferred(DeferredTest):
    def test_what_is_attached_stays(self):
        stack = self.reserve_all(ATTACHED)
        self.useFixture(Slow())
        self.while_waiting(
            lambda: self.abandon(stack, run=False), lambda: self.cloud.nova.changed('attach')
        )
        self.leases.start(self.lease)
        self.patch_stack(stack)
        assert not self.exists(stack)
        assert [each for each in self.changes() if each[0] in ('delete', 'detach')] == []


class TestDeletedAfterAll(DeferredTest):
    def test_what_an_earlier_request_was_to_abandon_is_deleted(self):
        stack = self.reserve_all()
        self.resource(stack, 'server').data_set('climate_abandoned', 'an earlier traversal')
        self.delete(stack)
        assert not self.exists(stack)
        assert not self.cloud.nova.servers


class TestGroup(DeferredTest, GroupTest):
    def test_its_members_stay(self):
        stack = self.reserve_all(GROUP)
        self.useFixture(Slow())
        self.while_waiting(
            lambda: self.abandon(stack, run=False), lambda: self.cloud.nova.changed('wake_up')
        )
        self.leases.start(self.lease)
        self.patch_stack(stack)
        assert not self.exists(stack)
        assert self.cloud.nova.changed('delete') == []
        assert len(self.cloud.nova.servers) == 3

    def test_members_of_an_ordinary_group_stay(self):
        stack = self.reserve_all(COUNTED)
        self.while_waiting(
            lambda: self.abandon(stack, run=False), lambda: self.cloud.nova.changed('wake_up')
        )
        self.leases.start(self.lease)
        self.patch_stack(stack)
        assert not self.exists(stack)
        assert self.cloud.nova.changed('delete') == []
        assert len(self.cloud.nova.servers) == 2
