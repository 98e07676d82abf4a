# SPDX-License-Identifier: Apache-2.0
"""Heat's own ResourceGroup in a reserved stack."""

from tests.functional.heat.grouped import GroupTest
from tests.support.stacks import COUNTED, INNER, changed, resource, server, stack, without

#: The nested stack of each index: a volume and a server with its number.
INDEXED = stack(INNER['resources'], parameters=['net', 'number'])
for name, each in INDEXED['resources'].items():
    each['properties']['name'] = {'list_join': ['-', [name, {'get_param': 'number'}]]}


class TestResourceGroup(GroupTest):
    def names(self, status):
        found = self.cloud.nova.servers.values()
        return sorted(each['name'] for each in found if each['status'] == status)

    def resize(self, stack, count, status='UPDATE_COMPLETE'):
        return self.change_group(stack, COUNTED, status, count=count)

    def test_members_are_reserved_and_woken_up(self):
        stack = self.reserve_all(COUNTED)
        assert self.names('RESERVED') == ['web-0', 'web-1']
        assert self.held() == set(self.cloud.nova.servers)
        self.start(stack)
        assert self.names('ACTIVE') == ['web-0', 'web-1']
        found = self.outputs(stack)
        assert found['names'] == ['web-0', 'web-1']
        assert sorted(found['addresses']) == ['10.0.0.2', '10.0.0.3']
        numbers = {each['metadata']['number'] for each in self.cloud.nova.servers.values()}
        assert numbers == {'0', '1'}

    def test_members_with_hints_are_reserved_and_woken_up(self):
        hints = {'reserved': True, 'lease_id': self.lease}
        stack = self.create(
            changed(without(COUNTED), 'group', resource_def=server(scheduler_hints=hints))
        )
        assert self.statuses() == ['RESERVED'] * 2
        self.start(stack)
        assert self.statuses() == ['ACTIVE'] * 2

    def test_other_count_reserves_or_deletes_members(self):
        stack = self.reserve_all(COUNTED)
        for status in ('RESERVED', 'ACTIVE'):
            for names in (['web-0', 'web-1', 'web-2'], ['web-0']):
                self.resize(stack, len(names))
                assert self.names(status) == names
                assert self.held() == set(self.cloud.nova.servers)
            self.start(stack)
            assert self.names('ACTIVE') == ['web-0']

    def test_higher_count_without_room_fails_and_keeps_the_others(self):
        stack = self.started(COUNTED)
        before = set(self.cloud.nova.servers)
        self.cloud.nova.full = True
        found = self.resize(stack, 3, status='UPDATE_FAILED')
        assert 'No valid host was found.' in found.status_reason
        assert self.names('ACTIVE') == ['web-0', 'web-1']
        assert set(self.by_status('ACTIVE')) == before

    def test_nested_members_are_reserved_and_woken_up(self):
        member = resource('indexed.yaml', number='%index%', net={'get_resource': 'net'})
        template = changed(without(COUNTED), 'group', resource_def=member)
        stack = self.reserve_all(template, files={'indexed.yaml': INDEXED})
        assert self.names('RESERVED') == ['server-0', 'server-1']
        assert self.cloud.cinder.statuses() == ['lease-reserved'] * 2
        self.start(stack)
        assert self.names('ACTIVE') == ['server-0', 'server-1']
        assert self.cloud.cinder.statuses() == ['available'] * 2
        names = sorted(each['name'] for each in self.cloud.cinder.volumes.values())
        assert names == ['disk-0', 'disk-1']
