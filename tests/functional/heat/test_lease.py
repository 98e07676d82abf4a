# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: what is created from a template, and what is refused."""

from tests.functional.heat import leases
from tests.functional.heat.leased import OF_SERVER, OF_VOLUME, SERVER, VOLUME, LeaseTest
from tests.functional.heat.users import ALICES
from tests.support.stacks import depending, stack

#: A stack with a nested one.
OUTER = stack({'inner': {'type': 'inner.yaml'}})


class TestCreate(LeaseTest):
    def test_lease_holds_its_stack_and_has_the_id_of_the_resource(self):
        stack = self.make()
        lease = self.leases.lease
        assert lease.name.startswith('stack1-lease-')
        assert (lease.project_id, lease.user_id) == (ALICES, 'alice')
        assert self.leases.members(lease.id) == {('virtual:stack', stack)}
        assert lease.live[0].params == {'on_end': 'delete'}
        assert lease.status == 'PENDING'
        found = self.resource(stack, 'lease')
        assert lease.id == found.uuid == found.resource_id == self.outputs(stack)['id']
        (post,) = [each for each in self.leases.requests if each.method == 'POST']
        assert post.headers['X-Auth-Token'] == 'token-of-alice'
        assert post.headers['X-Service-Token'] == 'token-of-heat'
        assert post.headers['X-OpenStack-Request-ID'].startswith('req-')

    def test_every_property_is_sent(self):
        before_end = self.leases.later(minutes=90)
        backup = self.leases.later(minutes=80)
        stack = self.make(
            name='lease1',
            before_end_date=before_end,
            before_start=[600, 60],
            start_policy='manual',
            events=[{'event_type': 'take_backup', 'time': backup}],
            webhook={'url': 'https://example.org/told', 'secret': 'sixteen letters!'},
            reservations=[{**OF_SERVER, 'on_end': 'shelve'}, {**OF_VOLUME, 'on_end': None}],
            on_end='suspend',
        )
        lease = self.leases.lease
        assert lease.name == 'lease1'
        assert lease.before_end_date.isoformat() == before_end
        assert lease.before_start == (600, 60)
        assert lease.start_policy == 'manual'
        assert lease.event('take_backup').time.isoformat() == backup
        assert lease.webhook['url'] == 'https://example.org/told'
        assert lease.webhook['secret'] == 'sixteen letters!'
        assert {(r.resource_type, r.resource_id, r.params.get('on_end')) for r in lease.live} == {
            ('virtual:stack', stack, 'suspend'),
            ('virtual:instance', SERVER, 'shelve'),
            ('virtual:volume', VOLUME, None),
        }

    def test_duration_sets_the_end(self):
        for duration, seconds in [('90m', 5400), ('PT1H', 3600), ('1d12h', 129600), (7200, 7200)]:
            stack = self.make(duration=duration)
            lease = self.leases.lease
            assert (lease.end_date - lease.start_date).total_seconds() == seconds
            self.delete(stack)
            self.leases.forward(minutes=1)

    def test_lease_without_a_start_starts_now(self):
        stack = self.create(leases.template(duration='1h'))
        assert self.leases.lease.start_date == self.leases.now
        assert self.outputs(stack) == {}

    def test_lease_in_a_nested_stack_holds_the_root(self):
        stack = self.create(OUTER, files={'inner.yaml': self.template()})
        assert self.leases.members(self.leases.lease.id) == {('virtual:stack', stack)}


class TestWithoutServiceUser(LeaseTest):
    SERVICE_USER = False

    def test_request_carries_the_token_of_the_user_alone(self):
        self.make()
        (post,) = [each for each in self.leases.requests if each.method == 'POST']
        assert 'X-Service-Token' not in post.headers


class TestRefused(LeaseTest):
    def refused_creation(self, template):
        stack = self.create(template, name='stack2', status='CREATE_FAILED')
        return stack, self.reason(stack)

    def test_conflict_names_the_item_of_the_template(self):
        taken = self.leases.make(leases.ALICE, OF_SERVER)
        stack, reason = self.refused_creation(self.template(reservations=[OF_SERVER]))
        assert f'lease {taken}' in reason
        # The stack itself is no item of the template.
        assert 'resources.lease: reservations[0]' in reason
        # Heat would repeat a conflict again and again, and delete in between.
        assert [each.method for each in self.leases.requests].count('POST') == 1
        self.delete(stack)
        assert [each.id for each in self.leases.all()] == [taken]

    def test_second_lease_of_a_stack_is_refused(self):
        template = self.template()
        template['resources']['second'] = {**template['resources']['lease']}
        _, reason = self.refused_creation(depending(template, 'second', 'lease'))
        assert 'resources.second' in reason
        assert f'lease {self.leases.lease.id}' in reason

    def test_limit_and_wrong_start_are_told(self):
        self.leases.answers = [leases.refusal(403, 'The project may have 3 leases.')]
        stack, reason = self.refused_creation(self.template())
        assert 'The project may have 3 leases.' in reason
        self.delete(stack)
        _, reason = self.refused_creation(self.template(start_date='2020-01-01 12:00'))
        assert 'start_date: ' in reason


class TestLostAnswers(LeaseTest):
    def test_request_is_repeated_after_a_bad_gateway(self):
        self.leases.after = [leases.refusal(502, 'Lost.')]
        stack = self.make()
        assert self.leases.members(self.leases.lease.id) == {('virtual:stack', stack)}
        assert [each.method for each in self.leases.requests] == ['POST', 'POST']

    def test_lease_of_a_lost_answer_is_found_by_the_next_update(self):
        self.leases.after = [leases.refusal(500, 'Lost.')] * 5
        self.assert_next_update_has_the_lease(self.create(self.template(), status='CREATE_FAILED'))

    def test_lease_of_a_lost_answer_is_deleted_with_the_stack(self):
        self.leases.after = [leases.refusal(500, 'Lost.')]
        stack = self.create(self.template(), status='CREATE_FAILED')
        assert self.leases.lease
        self.delete(stack)
        self.leases.forward(minutes=1)
        assert not self.leases.all()

    def test_lease_of_an_engine_that_died_is_found_by_the_next_update(self):
        self.leases.after = [leases.Killed()]
        stack = self.create(self.template(), status=None)
        self.dies(stack, 'lease')
        self.assert_next_update_has_the_lease(stack)

    def assert_next_update_has_the_lease(self, stack):
        lease = self.leases.lease
        self.patch_stack(stack)
        assert self.leases.lease.id == lease.id == self.outputs(stack)['id']

    def test_lease_that_an_engine_did_not_request_is_created_by_the_next_update(self):
        self.leases.answers = [leases.Killed()]
        stack = self.create(self.template(), status=None)
        assert not self.leases.all()
        self.dies(stack, 'lease')
        self.patch_stack(stack)
        assert self.outputs(stack)['id'] == self.leases.lease.id
