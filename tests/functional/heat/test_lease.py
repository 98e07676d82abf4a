# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: what is made of a template, and what is refused."""

import json

from tests.functional.heat import leases
from tests.functional.heat.leased import SERVER, VOLUME, LeaseTest
from tests.functional.heat.users import ALICES


class TestCreate(LeaseTest):
    def test_lease_holds_its_stack(self):
        stack = self.make(name='lease1')
        lease = self.leases.lease
        assert (lease.name, lease.project_id, lease.user_id) == ('lease1', ALICES, 'alice')
        assert self.leases.members(lease.id) == {('virtual:stack', stack)}
        assert lease.live[0].params == {'on_end': 'delete'}
        assert lease.status == 'PENDING'

    def test_id_is_that_of_the_resource(self):
        stack = self.make()
        lease = self.leases.lease
        assert lease.id == self.resource(stack, 'lease').uuid
        assert self.resource(stack, 'lease').resource_id == lease.id
        assert self.outputs(stack)['id'] == lease.id

    def test_everything_that_can_be_said(self):
        before_end = self.leases.later(minutes=90)
        backup = self.leases.later(minutes=80)
        stack = self.make(
            name='lease1',
            before_end_date=before_end,
            before_start=[600, 60],
            start_policy='manual',
            events=[{'event_type': 'take_backup', 'time': backup}],
            webhook={'url': 'https://example.org/told', 'secret': 'sixteen letters!'},
            reservations=[
                {'resource_type': 'virtual:instance', 'resource_id': SERVER, 'on_end': 'shelve'},
                {'resource_type': 'virtual:volume', 'resource_id': VOLUME, 'on_end': None},
            ],
            on_end='suspend',
        )
        lease = self.leases.lease
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

    def test_duration_in_place_of_the_end(self):
        for duration, seconds in [('90m', 5400), ('PT1H', 3600), ('1d12h', 129600), (7200, 7200)]:
            stack = self.make(duration=duration)
            lease = self.leases.lease
            assert (lease.end_date - lease.start_date).total_seconds() == seconds
            self.delete(stack)
            self.leases.forward(minutes=1)

    def test_lease_starts_now_if_nothing_is_said(self):
        stack = self.create(leases.template(duration='1h'))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.leases.lease.start_date == self.leases.now
        assert self.outputs(stack) == {}

    def test_name_is_made_of_those_of_stack_and_resource(self):
        self.make()
        assert self.leases.lease.name.startswith('stack1-lease-')

    def test_lease_in_a_nested_stack_holds_the_root(self):
        nested = json.dumps(self.template())
        outer = {
            'heat_template_version': '2018-08-31',
            'resources': {'inner': {'type': 'inner.yaml'}},
        }
        stack = self.create(outer, files={'inner.yaml': nested})
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.leases.members(self.leases.lease.id) == {('virtual:stack', stack)}

    def test_user_and_service_ask_together(self):
        self.make()
        post = next(each for each in self.leases.requests if each.method == 'POST')
        assert post.headers['X-Auth-Token'] == 'token-of-alice'
        assert post.headers['X-Service-Token'] == 'token-of-heat'
        assert post.headers['X-OpenStack-Request-ID'].startswith('req-')


class TestWithoutServiceUser(LeaseTest):
    SERVICE_USER = False

    def test_user_asks_alone(self):
        self.make()
        post = next(each for each in self.leases.requests if each.method == 'POST')
        assert 'X-Service-Token' not in post.headers


class TestRefused(LeaseTest):
    def test_reason_of_the_service_is_the_stacks(self):
        taken = self.leases.make(leases.ALICE, leases.of_server(SERVER))
        stack = self.create(self.template(reservations=[leases.of_server(SERVER)]), name='stack2')
        self.assert_stack(stack, 'CREATE_FAILED')
        assert f'lease {taken}' in self.reason(stack)
        # The stack itself is no item of the template.
        assert 'resources.lease: reservations[0]' in self.reason(stack)
        # Once: heat tries a conflict again and again, and deletes in between.
        posts = [each for each in self.leases.requests if each.method == 'POST']
        assert len(posts) == 1
        self.delete(stack)
        assert not self.exists(stack)
        assert [each.id for each in self.leases.all()] == [taken]

    def test_stack_has_one_lease(self):
        template = self.template()
        template['resources']['second'] = {
            **template['resources']['lease'],
            'depends_on': 'lease',
        }
        stack = self.create(template)
        self.assert_stack(stack, 'CREATE_FAILED')
        assert 'resources.second' in self.reason(stack)
        assert f'lease {self.leases.lease.id}' in self.reason(stack)

    def test_limit_is_said(self):
        self.leases.answers = [leases.refusal(403, 'The project may have 3 leases.')]
        stack = self.create(self.template())
        self.assert_stack(stack, 'CREATE_FAILED')
        assert 'The project may have 3 leases.' in self.reason(stack)

    def test_start_in_the_past(self):
        stack = self.create(self.template(start_date='2020-01-01 12:00'))
        self.assert_stack(stack, 'CREATE_FAILED')
        assert 'start_date: The start must not be in the past.' in self.reason(stack)


class TestLostAnswers(LeaseTest):
    def test_answer_that_is_lost_is_asked_for_again(self):
        self.leases.after = [leases.refusal(502, 'Lost.')]
        stack = self.make()
        assert self.leases.members(self.leases.lease.id) == {('virtual:stack', stack)}
        assert [each.method for each in self.leases.requests] == ['POST', 'POST']

    def test_lease_whose_answer_never_came_is_found_again(self):
        self.leases.after = [leases.refusal(500, 'Lost.')] * 5
        stack = self.create(self.template())
        self.assert_stack(stack, 'CREATE_FAILED')
        lease = self.leases.lease
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.lease.id == lease.id == self.outputs(stack)['id']

    def test_lease_whose_answer_never_came_goes_with_the_stack(self):
        self.leases.after = [leases.refusal(500, 'Lost.')]
        stack = self.create(self.template())
        self.assert_stack(stack, 'CREATE_FAILED')
        assert self.leases.lease
        self.delete(stack)
        assert not self.exists(stack)
        self.leases.forward(minutes=1)
        assert not self.leases.all()

    def test_engine_that_dies_makes_no_second_lease(self):
        self.leases.after = [leases.Killed()]
        stack = self.create(self.template())
        lease = self.leases.lease
        self.dies(stack, 'lease')
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.lease.id == lease.id == self.outputs(stack)['id']

    def test_lease_that_was_never_made_is_made_anew(self):
        self.leases.answers = [leases.Killed()]
        stack = self.create(self.template())
        assert not self.leases.all()
        self.dies(stack, 'lease')
        self.patch_stack(stack)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.outputs(stack)['id'] == self.leases.lease.id
