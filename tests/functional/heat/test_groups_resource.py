# SPDX-License-Identifier: Apache-2.0
"""Heat's own ResourceGroup in a reserved stack."""

from tests.functional.heat.grouped import GroupTest
from tests.functional.heat.templates import COUNTED, changed, hinted, server, stack_level

#: Each server knows its number.
NUMBERED = changed(
    COUNTED, 'group', resource_def=server(name='web-%index%', metadata={'number': '%index%'})
)
#: What each index stands for: a volume and a server of this number.
INDEXED = """
heat_template_version: 2018-08-31
parameters:
  number: {type: string}
  net: {type: string}
resources:
  disk:
    type: OS::Cinder::Volume
    properties: {size: 1, image: cirros, name: {list_join: ['-', [disk, {get_param: number}]]}}
  server:
    type: OS::Nova::Server
    properties:
      name: {list_join: ['-', [server, {get_param: number}]]}
      flavor: m1
      block_device_mapping_v2: [{volume_id: {get_resource: disk}, boot_index: 0}]
      networks: [{network: {get_param: net}}]
"""


class TestResourceGroup(GroupTest):
    def names(self, status):
        found = self.cloud.nova.servers.values()
        return sorted(each['name'] for each in found if each['status'] == status)

    def resize(self, stack, count, status='UPDATE_COMPLETE'):
        template = changed(NUMBERED, 'group', count=count)
        self.update(stack, template, environment=stack_level(self.lease))
        return self.assert_stack(stack, status)

    def test_start(self):
        stack = self.reserve_all(NUMBERED)
        assert self.names('RESERVED') == ['web-0', 'web-1']
        assert self.held() == set(self.cloud.nova.servers)
        self.start(stack)
        assert self.names('ACTIVE') == ['web-0', 'web-1']
        assert self.outputs(stack)['names'] == ['web-0', 'web-1']
        numbers = {each['metadata']['number'] for each in self.cloud.nova.servers.values()}
        assert numbers == {'0', '1'}

    def test_hints(self):
        hints = {'reserved': True, 'lease_id': self.lease}
        template = changed(NUMBERED, 'group', resource_def=server(scheduler_hints=hints))
        del template['outputs']
        stack = self.create(hinted(template, self.lease))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.cloud.nova.statuses() == ['RESERVED'] * 2
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE'] * 2

    def test_count_before_the_start(self):
        stack = self.reserve_all(NUMBERED)
        self.resize(stack, 3)
        assert self.names('RESERVED') == ['web-0', 'web-1', 'web-2']
        assert self.held() == set(self.cloud.nova.servers)
        self.resize(stack, 1)
        assert self.names('RESERVED') == ['web-0']
        assert self.held() == set(self.cloud.nova.servers)
        self.start(stack)
        assert self.names('ACTIVE') == ['web-0']

    def test_count_after_the_start(self):
        stack = self.reserve_all(NUMBERED)
        self.start(stack)
        self.resize(stack, 3)
        assert self.names('ACTIVE') == ['web-0', 'web-1', 'web-2']
        assert self.held() == set(self.cloud.nova.servers)
        self.resize(stack, 1)
        assert self.names('ACTIVE') == ['web-0']
        assert self.held() == set(self.cloud.nova.servers)

    def test_higher_count_without_room(self):
        stack = self.reserve_all(NUMBERED)
        self.start(stack)
        before = set(self.cloud.nova.servers)
        self.cloud.nova.full = True
        found = self.resize(stack, 3, status='UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert self.names('ACTIVE') == ['web-0', 'web-1']
        assert set(self.by_status('ACTIVE')) == before

    def test_templates_with_an_index(self):
        definition = {
            'type': 'indexed.yaml',
            'properties': {'number': '%index%', 'net': {'get_resource': 'net'}},
        }
        template = changed(NUMBERED, 'group', resource_def=definition)
        del template['outputs']
        stack = self.create(
            template, files={'indexed.yaml': INDEXED}, environment=stack_level(self.lease)
        )
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.names('RESERVED') == ['server-0', 'server-1']
        assert self.cloud.cinder.statuses() == ['lease-reserved'] * 2
        self.start(stack)
        assert self.names('ACTIVE') == ['server-0', 'server-1']
        assert self.cloud.cinder.statuses() == ['available'] * 2
        names = sorted(each['name'] for each in self.cloud.cinder.volumes.values())
        assert names == ['disk-0', 'disk-1']
