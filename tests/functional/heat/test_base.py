# SPDX-License-Identifier: Apache-2.0
"""The fixtures themselves: stock resources of heat behave as in a cloud."""

import pytest

from tests.functional.heat import bus
from tests.functional.heat.base import HeatTest
from tests.functional.heat.templates import COUNTED

PLAIN = """
heat_template_version: 2018-08-31
parameters:
  flavor: {type: string, default: m1}
resources:
  net: {type: 'OS::Neutron::Net'}
  volume: {type: 'OS::Cinder::Volume', properties: {size: 1}}
  server:
    type: OS::Nova::Server
    depends_on: volume
    properties:
      flavor: {get_param: flavor}
      image: cirros
      networks: [{network: {get_resource: net}}]
outputs:
  address: {value: {get_attr: [server, first_address]}}
"""


class TestBase(HeatTest):
    def test_stack_lives(self):
        stack = self.create(PLAIN)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert set(self.resources(stack).values()) == {'CREATE_COMPLETE'}
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.cloud.cinder.statuses() == ['available']
        assert self.outputs(stack) == {'address': '10.0.0.2'}
        self.check(stack)
        self.assert_stack(stack, 'CHECK_COMPLETE')
        self.suspend(stack)
        self.assert_stack(stack, 'SUSPEND_COMPLETE')
        assert self.cloud.nova.statuses() == ['SUSPENDED']
        self.resume(stack)
        self.assert_stack(stack, 'RESUME_COMPLETE')
        self.update(stack, PLAIN, flavor='m2')
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.cloud.nova.named('server')['flavor'] == {'id': '2'}
        self.delete(stack)
        assert not self.exists(stack)
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes
        assert not self.keystone.trusts

    def test_group_lives(self):
        stack = self.create(COUNTED)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.resources(self.nested(stack, 'group')) == {
            '0': 'CREATE_COMPLETE',
            '1': 'CREATE_COMPLETE',
        }
        assert self.cloud.nova.statuses() == ['ACTIVE', 'ACTIVE']
        self.delete(stack)
        assert not self.exists(stack)
        assert not self.cloud.nova.servers

    def test_server_that_cannot_be_built(self):
        self.cloud.nova.full = True
        stack = self.create(PLAIN)
        self.assert_stack(stack, 'CREATE_FAILED')
        assert 'No valid host' in self.load(stack).status_reason
        assert ('server', 'CREATE_FAILED') in [each[:2] for each in self.events(stack)]

    def test_abandoned_resources_stay(self):
        stack = self.create(PLAIN)
        assert set(self.abandon(stack)['resources']) == {'net', 'volume', 'server'}
        assert not self.exists(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']

    def test_preview_builds_nothing(self):
        assert {each['resource_name'] for each in self.preview(PLAIN)['resources']} == {
            'net',
            'volume',
            'server',
        }
        assert not self.cloud.nova.servers


def test_what_goes_wrong_while_heat_waits_fails_the_test():
    found = bus.Bus()
    found.setUp()
    found.meanwhile = {}.popitem
    found._wait(1)
    with pytest.raises(KeyError):
        found.cleanUp()
