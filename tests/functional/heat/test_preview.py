# SPDX-License-Identifier: Apache-2.0
"""What the lease service reads from the preview of a real Heat."""

import uuid

from climate_core.plugins import stack_templates
from tests.functional.heat.grouped import GroupTest
from tests.support.stacks import GROUP, PAIR, added, changed, stack_level, volume

EVERYTHING = added(PAIR, data=volume(size=1))


class TestParts(GroupTest):
    def parts(self, template):
        """Preview it as it is filled later: with the lease."""
        environment = stack_level(str(uuid.uuid4()))
        return stack_templates.list_previewed_parts(
            self.preview(template, environment=environment)['resources']
        )

    def test_servers_and_volumes_are_read_with_their_sizes(self):
        found = self.parts(EVERYTHING)
        # It boots from one of the volumes.
        assert found['virtual:instance'] == [
            {'server': {'flavorRef': 'm1', 'block_device_mapping_v2': []}}
        ]
        assert sorted(each['volume']['size'] for each in found['virtual:volume']) == [1, 2]

    def test_members_of_a_group_are_read_as_many_as_are_reserved(self):
        found = self.parts(GROUP)
        assert found == {'virtual:instance': [{'server': {'flavorRef': 'm1'}}] * 3}

    def test_what_comes_from_another_resource_is_not_known(self):
        value = {'type': 'OS::Heat::Value', 'properties': {'value': 'm1'}}
        template = changed(EVERYTHING, 'server', flavor={'get_attr': ['value', 'value']})
        template['resources']['value'] = value
        (server,) = self.parts(template)['virtual:instance']
        assert server == {'unknown': 'flavor of server'}
