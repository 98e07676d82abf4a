# SPDX-License-Identifier: Apache-2.0
"""The fixtures themselves: stock resources of heat behave as in a cloud."""

import pytest

from tests.functional.heat import bus
from tests.functional.heat.base import HeatTest
from tests.support.stacks import COUNTED, PLAIN, added, changed, volume

ALL = added(PLAIN, volume=volume(size=1))
ALL['outputs'] = {'address': {'value': {'get_attr': ['server', 'first_address']}}}


class TestBase(HeatTest):
    def test_stack_lives(self):
        stack = self.create(ALL)
        assert set(self.resources(stack).values()) == {'CREATE_COMPLETE'}
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.cloud.cinder.statuses() == ['available']
        assert self.outputs(stack) == {'address': '10.0.0.2'}
        self.check(stack)
        self.suspend(stack)
        assert self.cloud.nova.statuses() == ['SUSPENDED']
        self.resume(stack)
        self.update(stack, changed(ALL, 'server', flavor='m2'))
        assert self.cloud.nova.named('server')['flavor'] == {'id': '2'}
        self.delete(stack)
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes
        assert not self.keystone.trusts

    def test_group_lives(self):
        stack = self.create(COUNTED)
        assert self.resources(self.nested(stack, 'group')) == {
            '0': 'CREATE_COMPLETE',
            '1': 'CREATE_COMPLETE',
        }
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        self.delete(stack)
        assert not self.cloud.nova.servers

    def test_server_that_cannot_be_built(self):
        self.cloud.nova.full = True
        stack = self.create(ALL, status='CREATE_FAILED')
        assert 'No valid host' in self.reason(stack)
        assert ('server', 'CREATE_FAILED') in [each[:2] for each in self.events(stack)]

    def test_abandoned_resources_stay(self):
        stack = self.create(ALL)
        assert set(self.abandon(stack)['resources']) == {'net', 'volume', 'server'}
        assert not self.exists(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_preview_builds_nothing(self):
        found = self.preview(ALL)['resources']
        assert {each['resource_name'] for each in found} == {'net', 'volume', 'server'}
        assert not self.cloud.nova.servers


def test_what_goes_wrong_while_heat_waits_fails_the_test():
    found = bus.Bus()
    found.setUp()
    found.meanwhile = {}.popitem
    found._wait(1)
    with pytest.raises(KeyError):
        found.cleanUp()
