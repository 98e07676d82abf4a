# SPDX-License-Identifier: Apache-2.0
"""A stack without reservations is heat's own: the same calls in the same order."""

import re

import fixtures
from heat.engine import environment, resources
from heat.engine.resources.openstack.cinder import volume
from heat.engine.resources.openstack.heat import software_deployment, wait_condition
from heat.engine.resources.openstack.nova import server

from tests.functional.heat.base import HeatTest
from tests.functional.heat.templates import PAIR, added, changed, without

CORE = {
    'OS::Cinder::Volume': volume.CinderVolume,
    'OS::Cinder::VolumeAttachment': volume.CinderVolumeAttachment,
    'OS::Heat::SoftwareDeployment': software_deployment.SoftwareDeployment,
    'OS::Heat::WaitCondition': wait_condition.HeatWaitCondition,
    'OS::Nova::Server': server.Server,
}
_UUID = re.compile('[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')

#: All that can be reserved or deferred; the deployment and the condition wait for nothing.
EVERYTHING = added(PAIR, 'data', 'OS::Cinder::Volume', size=1, read_only=True, metadata={'a': 'b'})
EVERYTHING = added(
    EVERYTHING, 'attachment', 'OS::Cinder::VolumeAttachment',
    instance_uuid={'get_resource': 'server'}, volume_id={'get_resource': 'data'},
)  # fmt: skip
EVERYTHING = added(EVERYTHING, 'config', 'OS::Heat::SoftwareConfig', config='hello')
EVERYTHING = added(
    EVERYTHING, 'deployment', 'OS::Heat::SoftwareDeployment', signal_transport='NO_SIGNAL',
    config={'get_resource': 'config'}, server={'get_resource': 'server'},
)  # fmt: skip
EVERYTHING = changed(EVERYTHING, 'server', user_data_format='SOFTWARE_CONFIG', tags=['a'])


class TestUnreserved(HeatTest):
    def setUp(self):
        super().setUp()
        self.kinds = []

    def journey(self, name):
        """The requests of the whole life of a stack; ids are numbered as they appear."""
        cloud = self.cloud
        for each in (cloud.nova, cloud.cinder, cloud.neutron):
            each.requests.clear()
            each.changes.clear()
        stack = self.create(EVERYTHING, name=name)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        self.kinds.append({type(each) for each in self.load(stack).resources.values()})
        self.patch_stack(stack)
        larger = changed(changed(EVERYTHING, 'server', flavor='m2', name='x'), 'disk', name='y')
        self.update(stack, larger)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.check(stack)
        self.assert_stack(stack, 'CHECK_COMPLETE')
        self.suspend(stack)
        self.assert_stack(stack, 'SUSPEND_COMPLETE')
        self.resume(stack)
        self.assert_stack(stack, 'RESUME_COMPLETE')
        self.update(stack, without(larger, 'attachment'))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        self.delete(stack)
        assert not self.exists(stack)
        return [_numbered(each.requests) for each in (cloud.nova, cloud.cinder, cloud.neutron)]

    def test_same_calls_as_core(self):
        ours = self.journey('stack1')
        self.use_core()
        cores = self.journey('stack2')
        assert ours == cores
        assert set(CORE.values()) & self.kinds[0] == set()
        assert len(set(CORE.values()) & self.kinds[1]) == 4
        assert min(len(each) for each in ours) > 3

    def use_core(self):
        """Let the names mean what they mean without the extension."""
        registry = resources.global_env().registry
        for name, core in CORE.items():
            mapped = registry._registry[name]
            self.addCleanup(registry._registry.__setitem__, name, mapped)
            registry._registry[name] = environment.ClassResourceInfo(registry, [name], core)

    def test_same_failure_as_core(self):
        """What goes wrong before an update begins is told in heat's way."""
        template = without(EVERYTHING, 'attachment', 'deployment', 'config', 'data')
        reasons = []
        for name in 'ours', 'cores':
            self.cloud.nova.full = True
            stack = self.create(template, name=name)
            self.assert_stack(stack, 'CREATE_FAILED')
            self.cloud.nova.faults.append(('GET', '/servers/', 403))
            self.patch_stack(stack)
            reasons.append(self.assert_stack(stack, 'UPDATE_FAILED').status_reason)
            self.use_core()
        assert 'A fault that the test ordered.' in reasons[0]
        assert reasons[0] == reasons[1]

    def test_updates_need_no_private_parts_of_heat(self):
        """Whether something is a preview is asked only of what is reserved."""
        self.useFixture(
            fixtures.MonkeyPatch('heat_ext.members.reservable.Reservable._is_preview', {})
        )
        self.journey('stack1')

    def test_the_lease_service_is_not_asked(self):
        self.journey('stack1')
        assert self.leases.requests == []


def _numbered(requests):
    seen = {}
    return [
        (method, _UUID.sub(lambda found: str(seen.setdefault(found[0], len(seen))), path))
        for method, path in requests
    ]
