# SPDX-License-Identifier: Apache-2.0
"""A stack without reservations is heat's own: the same calls in the same order."""

import re

import fixtures
from heat.engine import environment, resources
from heat.engine.resources.openstack.cinder import volume
from heat.engine.resources.openstack.heat import software_deployment, wait_condition
from heat.engine.resources.openstack.neutron import floatingip
from heat.engine.resources.openstack.nova import server

from tests.functional.heat.base import HeatTest
from tests.support import stacks
from tests.support.stacks import PAIR, added, attachment, changed, resource, without

CORE = {
    'OS::Cinder::Volume': volume.CinderVolume,
    'OS::Cinder::VolumeAttachment': volume.CinderVolumeAttachment,
    'OS::Heat::SoftwareDeployment': software_deployment.SoftwareDeployment,
    'OS::Heat::WaitCondition': wait_condition.HeatWaitCondition,
    'OS::Neutron::FloatingIP': floatingip.FloatingIP,
    'OS::Nova::Server': server.Server,
}
_UUID = re.compile('[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')

#: All that can be reserved or deferred; the deployment and the condition wait for nothing.
EVERYTHING = added(
    changed(PAIR, 'server', user_data_format='SOFTWARE_CONFIG', tags=['a']),
    data=stacks.volume(size=1, read_only=True, metadata={'a': 'b'}),
    attachment=attachment('server', 'data'),
    address=resource('OS::Neutron::FloatingIP', floating_network={'get_resource': 'net'}),
    config=resource('OS::Heat::SoftwareConfig', config='hello'),
    deployment=resource(
        'OS::Heat::SoftwareDeployment',
        signal_transport='NO_SIGNAL',
        config={'get_resource': 'config'},
        server={'get_resource': 'server'},
    ),
)


class TestUnreserved(HeatTest):
    def setUp(self):
        super().setUp()
        self.kinds = []

    def journey(self, name):
        """Return the requests of the whole life of a stack; ids are numbered as they appear."""
        cloud = self.cloud
        for each in (cloud.nova, cloud.cinder, cloud.neutron):
            each.requests.clear()
            each.changes.clear()
        stack = self.create(EVERYTHING, name=name)
        self.kinds.append({type(each) for each in self.load(stack).resources.values()})
        self.patch_stack(stack)
        larger = changed(changed(EVERYTHING, 'server', flavor='m2', name='x'), 'disk', name='y')
        self.update(stack, larger)
        self.check(stack)
        self.suspend(stack)
        self.resume(stack)
        self.update(stack, without(larger, 'attachment'))
        self.delete(stack)
        return [_numbered(each.requests) for each in (cloud.nova, cloud.cinder, cloud.neutron)]

    def test_ordinary_stack_makes_the_same_calls_as_core(self):
        # Only a reserved resource needs to know whether an update is a preview.
        ask = 'heat_ext.members.reservable.Reservable._is_preview'
        self.useFixture(fixtures.MonkeyPatch(ask, {}))
        ours = self.journey('stack1')
        self.use_core()
        cores = self.journey('stack2')
        assert ours == cores
        assert set(CORE.values()) & self.kinds[0] == set()
        assert len(set(CORE.values()) & self.kinds[1]) == 5
        assert min(len(each) for each in ours) > 3
        assert self.leases.requests == []

    def test_abandoned_resources_of_an_ordinary_stack_stay(self):
        names = set(EVERYTHING['resources'])
        found = self.preview(EVERYTHING)['resources']
        assert {each['resource_name'] for each in found} == names
        assert not self.cloud.nova.servers
        stack = self.create(EVERYTHING)
        assert set(self.abandon(stack)['resources']) == names
        assert not self.exists(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert sorted(self.cloud.cinder.statuses()) == ['available', 'in-use']

    def use_core(self):
        """Let the names mean what they mean without the extension."""
        registry = resources.global_env().registry
        for name, core in CORE.items():
            mapped = registry._registry[name]
            self.addCleanup(registry._registry.__setitem__, name, mapped)
            registry._registry[name] = environment.ClassResourceInfo(registry, [name], core)

    def test_failure_before_an_update_is_told_as_by_core(self):
        template = without(EVERYTHING, 'attachment', 'deployment', 'config', 'data')
        reasons = []
        for name in 'ours', 'cores':
            self.cloud.nova.full = True
            stack = self.create(template, name=name, status='CREATE_FAILED')
            self.cloud.nova.faults.append(('GET', '/servers/', 403))
            reasons.append(self.patch_stack(stack, status='UPDATE_FAILED').status_reason)
            self.use_core()
        assert 'A fault that the test ordered.' in reasons[0]
        assert reasons[0] == reasons[1]


def _numbered(requests):
    seen = {}
    return [
        (method, _UUID.sub(lambda found: str(seen.setdefault(found[0], len(seen))), path))
        for method, path in requests
    ]
