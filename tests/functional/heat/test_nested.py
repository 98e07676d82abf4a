# SPDX-License-Identifier: Apache-2.0
"""Members of nested stacks, and spares among them."""

from heat.common import template_format

from heat_ext.stacks import paths
from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import stack_level

INNER = """
heat_template_version: 2018-08-31
parameters:
  net: {type: string}
resources:
  disk: {type: 'OS::Cinder::Volume', properties: {size: 1, image: cirros}}
  server:
    type: OS::Nova::Server
    properties:
      flavor: m1
      block_device_mapping_v2: [{volume_id: {get_resource: disk}, boot_index: 0}]
      networks: [{network: {get_param: net}}]
outputs:
  address: {value: {get_attr: [server, first_address]}}
"""

OUTER = """
heat_template_version: 2018-08-31
resources:
  net: {type: 'OS::Neutron::Net'}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 3
      resource_def: {type: inner.yaml, properties: {net: {get_resource: net}}}
  last:
    type: OS::Nova::Server
    depends_on: group
    properties: {flavor: m1, image: cirros, networks: [{network: {get_resource: net}}]}
outputs:
  addresses: {value: {get_attr: [group, address]}}
"""


class TestNested(ReservedTest):
    def setUp(self):
        super().setUp()
        self.stack = self.reserve_all(OUTER, files={'inner.yaml': INNER})

    def spares(self, *members):
        """Say which members of the group are not wanted, as a group does."""
        group = self.load(self.nested(self.stack, 'group')).name
        spares = [f'{group}/{member}' for member in members]
        return stack_level(self.lease, climate_spares=spares)

    def members(self, *names):
        """Ids of the servers of members of the group."""
        group = self.nested(self.stack, 'group')
        return {self.resource(self.nested(group, name), 'server').resource_id for name in names}

    def running(self):
        found = self.cloud.nova.servers.values()
        return {each['id'] for each in found if each['status'] == 'ACTIVE'}

    def test_all_belong_to_the_root(self):
        live = self.leases.get(self.lease).live
        params = {each.params.get('stack_id') for each in live if each.params.get('stack_id')}
        assert params == {self.stack}
        assert len(self.held()) == 7

    def test_order_through_all_levels(self):
        (last,) = self.ids(self.stack, 'last')
        self.start(self.stack)
        assert len(self.cloud.nova.changed('wake_up')) == 4
        assert self.cloud.nova.changed('wake_up')[-1] == last
        assert len(self.cloud.cinder.changed('os-wake_up')) == 3
        assert '' not in self.outputs(self.stack)['addresses']

    def test_spares_stay_asleep(self):
        self.leases.start(self.lease)
        self.patch_stack(self.stack, environment=self.spares('1', '2'))
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        wanted = self.members('0') | set(self.ids(self.stack, 'last'))
        assert self.running() == wanted
        assert len(self.cloud.cinder.changed('os-wake_up')) == 1
        self.check(self.stack)
        self.assert_stack(self.stack, 'CHECK_COMPLETE')
        self.suspend(self.stack)
        self.assert_stack(self.stack, 'SUSPEND_COMPLETE')
        self.resume(self.stack)
        self.assert_stack(self.stack, 'RESUME_COMPLETE')
        assert self.running() == wanted

    def test_a_spare_that_is_wanted_is_woken(self):
        self.leases.start(self.lease)
        self.patch_stack(self.stack, environment=self.spares('1', '2'))
        self.patch_stack(self.stack, environment=self.spares('2'))
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert self.running() == self.members('0', '1') | set(self.ids(self.stack, 'last'))

    def test_a_spare_that_is_made_after_the_start_sleeps(self):
        self.leases.start(self.lease)
        template = template_format.parse(OUTER)
        template['resources']['group']['properties']['count'] = 4
        self.update(
            self.stack, template, environment=self.spares('3'), files={'inner.yaml': INNER}
        )
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        running = self.members('0', '1', '2') | set(self.ids(self.stack, 'last'))
        assert self.running() == running
        assert self.members('3') <= self.held()

    def test_places(self):
        group = self.nested(self.stack, 'group')
        member = self.nested(group, '1')
        names = [self.load(each).name for each in (self.stack, group, member)]
        assert paths.list_places(self.load(member), 'server') == {
            f'{names[0]}/group', f'{names[1]}/1', f'{names[2]}/server',
        }  # fmt: skip
        assert paths.list_places(self.load(self.stack), 'last') == {f'{names[0]}/last'}

    def test_failure_in_a_nested_stack(self):
        (broken,) = self.members('1')
        self.cloud.nova.servers[broken].update(failures=1, sleeps_on=True)
        self.start(self.stack, 'UPDATE_FAILED')
        assert 'could not be started' in self.load(self.stack).status_reason
        awake = self.running()
        self.patch_stack(self.stack)
        self.assert_stack(self.stack, 'UPDATE_COMPLETE')
        assert awake < self.running()
        assert len(self.running()) == 4

    def test_delete(self):
        self.delete(self.stack)
        assert not self.exists(self.stack)
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes
