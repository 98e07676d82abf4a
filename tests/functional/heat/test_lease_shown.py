# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: attributes, the check of a stack, what the console shows."""

import json

from heat_ext.resources import lease as lease_module
from tests.functional.heat import leases
from tests.functional.heat.leased import SERVER, LeaseTest
from tests.functional.heat.users import ALICES


class TestAttributes(LeaseTest):
    def test_they_are_as_the_lease_is_now(self):
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

    def test_each_of_them(self):
        time = self.leases.later(minutes=90)
        stack = self.make(name='lease1', events=[{'event_type': 'take_backup', 'time': time}])
        resource = self.resource(stack, 'lease')
        found = {name: resource.FnGetAtt(name) for name in resource.attributes_schema}
        assert found['name'] == 'lease1'
        assert found['start_date'] == self.leases.later(hours=1)
        assert found['end_date'] == self.leases.later(hours=2)
        assert found['before_end_date'] == self.leases.later(hours=1)
        assert found['start_policy'] == 'auto'
        assert found['degraded'] is False
        assert found['project_id'] == ALICES
        assert found['user_id'] == 'alice'
        assert found['created_at'] == self.leases.now.isoformat()
        # The first two are at the same time.
        assert sorted(each['event_type'] for each in found['events']) == [
            'before_end_lease',
            'end_lease',
            'start_lease',
            'take_backup',
        ]
        assert json.loads(json.dumps(found)) == found
        assert resource.FnGetAtt('show')['id'] == self.leases.lease.id

    def test_lease_that_is_gone_has_none(self):
        stack = self.make()
        self.leases.lose(self.leases.lease.id)
        assert self.outputs(stack)['status'] is None

    def test_secret_is_not_shown(self):
        secret = 'sixteen letters!'
        stack = self.make(webhook={'url': 'https://example.org/told', 'secret': secret})
        assert secret not in json.dumps(self.resource(stack, 'lease').FnGetAtt('show'))


class TestCheck(LeaseTest):
    def checked(self, stack):
        self.check(stack)
        return self.load(stack).state[1], self.reason(stack)

    def test_lease_that_is_fine(self):
        stack = self.make()
        assert self.checked(stack)[0] == 'COMPLETE'
        self.leases.start(self.leases.lease.id)
        assert self.checked(stack)[0] == 'COMPLETE'

    def test_lease_that_is_gone(self):
        stack = self.make()
        lease = self.leases.lease.id
        self.leases.lose(lease)
        status, reason = self.checked(stack)
        assert status == 'FAILED'
        assert f'Lease {lease} does not exist.' in reason

    def test_lease_in_error_says_why(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.start(self.leases.lease.id)
        assert self.leases.lease.status == 'ERROR'
        status, reason = self.checked(stack)
        assert status == 'FAILED'
        assert 'is ERROR' in reason
        assert 'There is no room.' in reason

    def test_lease_that_is_over(self):
        stack = self.make(on_end='nothing')
        self.leases.start(self.leases.lease.id)
        self.leases.end(self.leases.lease.id)
        status, reason = self.checked(stack)
        assert status == 'FAILED'
        assert 'is TERMINATED' in reason

    def test_service_that_does_not_answer(self):
        stack = self.make()
        self.leases.answers = [leases.refusal(500, 'The database is away.')]
        status, reason = self.checked(stack)
        assert status == 'FAILED'
        assert 'The database is away.' in reason

    def test_lease_that_a_check_found_wrong_is_not_replaced(self):
        stack = self.make(reservations=[leases.of_server(SERVER)])
        lease = self.leases.lease.id
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.start(lease)
        assert self.checked(stack)[0] == 'FAILED'
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert [each.id for each in self.leases.all()] == [lease]


class TestShape(LeaseTest):
    """What the console shows of the type."""

    NAME = 'OS::Climate::Lease'

    def test_schema_can_be_shown(self):
        found = self.ask('resource_schema', leases.ALICE, self.NAME, with_description=True)
        shown = json.loads(json.dumps(found))
        assert shown['properties'].keys() == lease_module.Lease.properties_schema.keys()
        assert all(each['description'] for each in shown['properties'].values())
        assert all(each['update_allowed'] for each in shown['properties'].values())
        constraint = {'custom_constraint': 'climate.date'}
        assert shown['properties']['end_date']['constraints'] == [constraint]
        assert 'status' in shown['attributes']
        assert shown['description'].startswith('A lease')

    def test_template_can_be_made_of_it(self):
        for kind in ('hot', 'cfn'):
            found = self.ask('generate_template', leases.ALICE, self.NAME, template_type=kind)
            assert self.NAME in json.dumps(found)

    def test_type_is_listed(self):
        assert self.NAME in self.ask('list_resource_types', leases.ALICE)

    def test_preview_makes_nothing(self):
        assert self.preview(self.template())
        assert not self.leases.all()
