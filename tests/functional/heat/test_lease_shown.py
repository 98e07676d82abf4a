# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: attributes, the check of a stack, what the console shows."""

import json

from heat_ext.resources import lease as lease_module
from tests.functional.heat import leases
from tests.functional.heat.leased import LeaseTest
from tests.functional.heat.users import ALICES


class TestAttributes(LeaseTest):
    def test_attributes_follow_the_lease(self):
        stack = self.make()
        assert self.outputs(stack)['status'] == 'PENDING'
        lease = self.leases.lease.id
        self.leases.start(lease)
        assert self.outputs(stack)['status'] == 'ACTIVE'
        (held,) = self.outputs(stack)['held']
        assert (held['resource_type'], held['resource_id']) == ('virtual:stack', stack)
        assert (held['status'], held['on_end']) == ('active', 'delete')
        end = self.leases.later(hours=7)
        self.leases.world.update(lease, end_date=end)
        assert self.outputs(stack)['end'] == end
        self.leases.lose(lease)
        assert self.outputs(stack)['status'] is None

    def test_every_attribute_has_a_value_of_json_types(self):
        time, secret = self.leases.later(minutes=90), 'sixteen letters!'
        stack = self.make(
            name='lease1',
            events=[{'event_type': 'take_backup', 'time': time}],
            webhook={'url': 'https://example.org/told', 'secret': secret},
        )
        resource = self.resource(stack, 'lease')
        found = {name: resource.FnGetAtt(name) for name in resource.attributes_schema}
        expected = {
            'name': 'lease1',
            'start_date': self.leases.later(hours=1),
            'end_date': self.leases.later(hours=2),
            'before_end_date': self.leases.later(hours=1),
            'start_policy': 'auto',
            'degraded': False,
            'project_id': ALICES,
            'user_id': 'alice',
            'created_at': self.leases.now.isoformat(),
        }
        assert found.items() >= expected.items()
        # The first two are at the same time.
        assert sorted(each['event_type'] for each in found['events']) == [
            'before_end_lease', 'end_lease', 'start_lease', 'take_backup',
        ]  # fmt: skip
        assert json.loads(json.dumps(found)) == found
        show = resource.FnGetAtt('show')
        assert show['id'] == self.leases.lease.id
        assert secret not in json.dumps(show)


class TestCheck(LeaseTest):
    def failed_check(self, stack):
        return self.check(stack, status='CHECK_FAILED').status_reason

    def test_check_of_a_lease_completes_until_it_is_gone_or_the_service_away(self):
        stack = self.make()
        self.check(stack)
        assert self.fail_requests() in self.failed_check(stack)
        lease = self.leases.lease.id
        self.leases.start(lease)
        self.check(stack)
        self.leases.lose(lease)
        assert f'Lease {lease} does not exist.' in self.failed_check(stack)

    def test_check_of_a_lease_in_error_tells_why_and_replaces_nothing(self):
        stack, lease = self.make_failed()
        assert self.leases.lease.status == 'ERROR'
        reason = self.failed_check(stack)
        assert 'is ERROR' in reason
        assert 'There is no room.' in reason
        self.patch_stack(stack)
        assert [each.id for each in self.leases.all()] == [lease]

    def test_check_of_a_lease_that_is_over_fails(self):
        stack, _ = self.make_over()
        assert 'is TERMINATED' in self.failed_check(stack)


class TestShape(LeaseTest):
    """The type in the console."""

    NAME = 'OS::Climate::Lease'

    def test_type_is_described_listed_and_previewed(self):
        found = self.ask('resource_schema', leases.ALICE, self.NAME, with_description=True)
        shown = json.loads(json.dumps(found))
        assert shown['properties'].keys() == lease_module.Lease.properties_schema.keys()
        assert all(each['description'] for each in shown['properties'].values())
        assert all(each['update_allowed'] for each in shown['properties'].values())
        constraint = {'custom_constraint': 'climate.date'}
        assert shown['properties']['end_date']['constraints'] == [constraint]
        assert 'status' in shown['attributes']
        assert shown['description'].startswith('A lease')
        assert self.NAME in self.ask('list_resource_types', leases.ALICE)
        for kind in ('hot', 'cfn'):
            found = self.ask('generate_template', leases.ALICE, self.NAME, template_type=kind)
            assert self.NAME in json.dumps(found)
        assert self.preview(self.template())
        assert not self.leases.all()
