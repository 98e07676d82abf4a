# SPDX-License-Identifier: Apache-2.0
"""The requests of the lease service to Heat, answered by the real one and not by a fake."""

import datetime
import json as jsonlib
import uuid
from types import SimpleNamespace
from unittest import mock

import pytest
import requests
from heat.api.middleware import fault
from heat.api.openstack import v1
from heat.common import context, wsgi
from heat.objects import stack as stack_object
from heat.rpc import client as rpc_client
from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions
from climate_core.cloud import errors, services, stacks
from climate_core.plugins import stack_end
from climate_core.plugins.step_context import END, START, EndContext, Progress, StepContext
from tests.functional.heat.base import HeatTest
from tests.functional.heat.users import ALICE, ALICES, BOB, User
from tests.support import leases
from tests.support.stacks import EMPTY
from tests.support.users_as_connections import stand_for_connections

NOTHING = {'a': {'type': 'OS::Heat::None'}, 'b': {'type': 'OS::Heat::TestResource'}}
GROUP = {
    'type': 'OS::Heat::ResourceGroup',
    'properties': {'count': 2, 'resource_def': NOTHING['b']},
}
TEMPLATE = {**EMPTY, 'resources': NOTHING}

NOW = datetime.datetime(2082, 12, 1, tzinfo=datetime.UTC)
OPTIONS = SimpleNamespace(lost_action_minutes=10, lost_snapshot_minutes=60)


class Administrator(User):
    """Climate's own user, whose project is another."""

    def context(self):
        return context.RequestContext.from_dict({**super().context().to_dict(), 'is_admin': True})


#: Keystone lets an administrator have the lesser roles, too.
CLIMATE = Administrator(BOB.name, BOB.project_id, 'admin', 'member', 'reader', 'service')


class TestLeaseService(HeatTest):
    """The API and the engine in one process; a user stands for a connection."""

    def setUp(self):
        super().setUp()
        # As heat-api does when it starts.
        log.register_options(cfg.CONF)
        self.api = fault.FaultWrapper(v1.API(cfg.CONF))
        # There is no policy file.
        self.patchobject(cfg.ConfigOpts, 'find_file', return_value=None)
        self.patchobject(rpc_client.EngineClient, 'call', new=self._call)
        stand_for_connections(self, User, 'orchestration', self._client)

    def _call(self, who, message, version=None, timeout=None):
        """Call heat-engine as heat-api does."""
        name, values = message
        user = mock.Mock(context=lambda: who)
        return self.ask(name, user, **values)

    def _client(self, user):
        """Return an adapter like keystoneauth's, without a network."""

        def request(path, method, json=None, params=None, microversion=None, raise_exc=True):
            assert raise_exc is False
            who = user.context()
            query = requests.models.PreparedRequest()
            query.prepare_url(f'http://heat/{who.project_id}{path}', params)
            asked = wsgi.Request.blank(query.path_url, method=method)
            if json is not None:
                asked.body = jsonlib.dumps(json).encode()
                asked.content_type = 'application/json'
            asked.context = who
            found = asked.get_response(self.api)
            self.bus.run()
            answer = requests.Response()
            answer.status_code, answer._content = found.status_int, found.body
            return answer

        return mock.Mock(request=request)

    def test_stack_is_read_with_its_status(self):
        made = self.create(TEMPLATE, name='web')
        found = stacks.get(ALICE, made)
        assert found == stacks.Stack(
            made,
            'web',
            'CREATE_COMPLETE',
            'Stack CREATE completed successfully',
            None,
            'alice',
            None,
            None,
            found.created,
            frozenset(),
        )
        assert found.changed_at == datetime.datetime.fromisoformat(found.created)
        with pytest.raises(errors.Gone):
            stacks.get(ALICE, str(uuid.uuid4()))

    def test_an_update_with_what_it_has(self):
        made = self.create(TEMPLATE)
        stacks.update_existing(ALICE, stacks.get(ALICE, made))
        found = stacks.get(ALICE, made)
        assert found.status == 'UPDATE_COMPLETE'
        assert datetime.datetime.fromisoformat(str(found.updated))
        assert set(self.resources(made)) == {'a', 'b'}

    def test_suspended_stack_is_not_woken_before_it_is_resumed(self):
        made = self.create(TEMPLATE)
        stacks.act(ALICE, stacks.get(ALICE, made), 'suspend')
        found = stacks.get(ALICE, made)
        assert found.status == 'SUSPEND_COMPLETE'
        with pytest.raises(exceptions.Permanent, match='suspended'):
            stacks.update_existing(ALICE, found)
        assert found.updated
        stacks.act(ALICE, found, 'resume')
        assert stacks.get(ALICE, made).status == 'RESUME_COMPLETE'
        stacks.update_existing(ALICE, found)
        assert stacks.get(ALICE, made).status == 'UPDATE_COMPLETE'

    def test_action_that_hangs_is_taken_over(self):
        """An engine with convergence asks nobody whether the one before lives."""
        made = self.create(TEMPLATE)
        for action in ('CREATE', 'UPDATE', 'ROLLBACK', 'CHECK', 'SNAPSHOT'):
            found = self.hangs(made, action)
            assert found.status == f'{action}_IN_PROGRESS'
            stacks.update_existing(ALICE, found)
            assert stacks.get(ALICE, made).status == 'UPDATE_COMPLETE'
        for action in ('UPDATE', 'SNAPSHOT', 'SUSPEND'):
            stacks.act(ALICE, self.hangs(made, action), 'suspend')
            assert stacks.get(ALICE, made).status == 'SUSPEND_COMPLETE'
        stacks.act(ALICE, self.hangs(made, 'RESUME'), 'resume')
        assert stacks.get(ALICE, made).status == 'RESUME_COMPLETE'

    def test_what_lost_its_message_is_told_then_repaired(self):
        for ask, action, after in (
            (stacks.update_existing, 'update', 'UPDATE_COMPLETE'),
            (stacks.delete, 'delete', None),
        ):
            with self.subTest(action):
                made = self.create(TEMPLATE, name=action)
                self.bus.lost.add('check_resource')
                ask(ALICE, stacks.get(ALICE, made))
                self.bus.lost.clear()
                looks = self.look(made, action, (0, 300, 600))
                assert looks[0].reason is None
                assert 'without a change for 5 minutes' in looks[1].reason
                assert [each.repair for each in looks] == [None, None, action]
                found = stacks.find(ALICE, action)
                assert (found and found.status) == after

    def test_each_change_of_a_resource_is_an_event(self):
        made = self.create({**EMPTY, 'resources': {'group': GROUP}})
        found, seen = stacks.get(ALICE, made), set()
        for call in (stacks.update_existing, stacks.delete):
            seen.add(stacks.read_last_event_id(ALICE, found))
            call(ALICE, found)
        assert len(seen) == 2
        assert None not in seen

    def test_a_snapshot_that_hangs_is_not_deleted(self):
        made = self.create(TEMPLATE)
        found = stacks.get(ALICE, made)
        self.ask('stack_snapshot', ALICE, self._identity(made), 'reserved_r1')
        self.bus.forget()
        snapshot = stacks.find_snapshot(ALICE, found, 'r1')
        assert snapshot.status == 'IN_PROGRESS'
        with pytest.raises(exceptions.Permanent, match='in-progress'):
            stacks.delete_snapshot(ALICE, found, snapshot.id)

    def test_a_snapshot_that_no_engine_makes_is_told_then_left(self):
        """The engine dies after it has noted the snapshot, and before it begins."""
        made, kept, waits = self.create(TEMPLATE), None, []
        with mock.patch('heat.engine.stack.Stack.converge_stack'):
            self.ask('stack_snapshot', ALICE, self._identity(made), f'kept_{made}')
        one = leases.reservation(made, 'active', on_end='snapshot')
        for minutes in (0, 30, 60, 61):
            assert stacks.get(ALICE, made).status == 'CREATE_COMPLETE' or minutes == 61
            now = NOW + datetime.timedelta(minutes=minutes)
            context = EndContext(
                ALICE,
                mock.Mock(),
                leases.lease(one),
                one,
                Progress.load(kept, END, now),
                now,
                OPTIONS,
                prefix='kept_',
            )
            waits.append(stack_end.take_end_step(context, stacks.get(ALICE, made)))
            kept = waits[-1] and waits[-1].progress
        assert waits[0].reason is None
        assert 'IN_PROGRESS without a change for 30 minutes' in waits[1].reason
        assert (waits[2].repair, waits[3]) == ('suspend', None)
        assert stacks.get(ALICE, made).status == 'SUSPEND_COMPLETE'

    def look(self, stack_id, action, times):
        """Look at a stack some seconds after it was asked for something; return the waits."""
        waits, kept = [], Progress(START, NOW)
        for seconds in times:
            now, stack = NOW + datetime.timedelta(seconds=seconds), stacks.get(ALICE, stack_id)
            context = StepContext(ALICE, mock.Mock(), mock.Mock(), mock.Mock(), kept, now, OPTIONS)
            context = context.observe(*stack_end.observe_stack(context, stack))
            waits.append(stack_end.wait_for_action(context, stack, action))
            kept = Progress.load(waits[-1].progress, START, now)
        return waits

    def hangs(self, stack, action):
        """Let the engine die that does something with a stack."""
        values = {'action': action, 'status': 'IN_PROGRESS'}
        stack_object.Stack.update_by_id(ALICE.context(), stack, values)
        return stacks.get(ALICE, stack)

    def test_snapshot_is_made_and_found_by_its_reservation(self):
        made = self.create(TEMPLATE)
        found = stacks.get(ALICE, made)
        name = stacks.build_snapshot_name('reserved_', found, 'r1')
        stacks.create_snapshot(ALICE, found, name)
        snapshot = stacks.find_snapshot(ALICE, found, 'r1')
        assert snapshot.status == 'COMPLETE'
        assert stacks.get(ALICE, made).status == 'SNAPSHOT_COMPLETE'
        assert stacks.find_snapshot(ALICE, found, 'r2') is None
        stacks.delete_snapshot(ALICE, found, snapshot.id)
        assert stacks.find_snapshot(ALICE, found, 'r1') is None

    def test_deleted_stack_is_gone(self):
        made = self.create(TEMPLATE)
        found = stacks.get(ALICE, made)
        stacks.delete(ALICE, found)
        with pytest.raises(errors.Gone):
            stacks.get(ALICE, made)
        with pytest.raises(errors.Gone):
            stacks.delete(ALICE, found)

    def test_nested_stack_has_a_parent_and_a_root(self):
        made = self.create({**EMPTY, 'resources': {'group': GROUP}}, name='web')
        nested = self.nested(made, 'group')
        found = stacks.get(ALICE, nested)
        assert found.parent == made
        assert stacks.find_root(ALICE, found).name == 'web'
        ids = stacks.list_physical_ids(ALICE, stacks.get(ALICE, made))
        assert nested in ids
        assert len(ids) == 3

    def test_an_administrator_sees_and_does_everything(self):
        made = {self.create(TEMPLATE, name=f'stack{number}') for number in range(3)}
        self.patchobject(services, 'PAGE', new=2)
        assert set(stacks.list_ids(CLIMATE)) == made
        stacks.check_all_visible(CLIMATE)
        found = stacks.get(CLIMATE, made.pop())
        assert found.project == ALICES
        stacks.delete(CLIMATE, found)
        assert set(stacks.list_ids(CLIMATE)) == made

    def test_stack_of_another_project_is_not_found(self):
        made = self.create(TEMPLATE)
        assert list(stacks.list_ids(BOB)) == []
        with pytest.raises(errors.Forbidden):
            stacks.check_all_visible(BOB)
        with pytest.raises(errors.Gone):
            stacks.get(BOB, made)
        with pytest.raises(errors.Gone):
            stacks.delete(BOB, stacks.get(ALICE, made))
