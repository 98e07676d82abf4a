# SPDX-License-Identifier: Apache-2.0
"""Updates of a stack whose template has the hints."""

import datetime

import pytest
from heat.common import exception
from heat.engine import resources
from heat.engine.resources.openstack.cinder import volume
from heat.engine.resources.openstack.nova import server
from oslo_messaging._drivers import common

from tests.functional.heat.templates import PAIR, added, changed, hinted
from tests.functional.heat.updated import PLAIN, UpdateTest
from tests.functional.heat.users import ALICE

#: Nothing of it is named by the id of something else in the template.
ALONE = changed(PLAIN, 'server', networks=[{'allocate_network': 'none'}])
THERE = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}


class TestHints(UpdateTest):
    def test_taking_out_the_hints_leaves_all_running(self):
        stack = self.reserve()
        before = self.ids(stack, 'disk', 'server')
        self.start(stack)
        self.update(stack, PAIR)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, 'disk', 'server') == before

    def test_other_hints_still_replace(self):
        hints = {'reserved': True, 'lease_id': self.lease, 'group': 'x'}
        template = changed(PLAIN, 'server', scheduler_hints=hints)
        stack = self.reserve(template)
        self.start(stack)
        before = self.ids(stack, 'server')
        template = changed(template, 'server', scheduler_hints={**hints, 'group': 'y'})
        self.update(stack, template)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, 'server') != before

    def test_another_end_is_reserved_anew_before_the_start(self):
        stack = self.reserve(PLAIN)
        before = self.ids(stack, 'server')
        hints = {'lease_id': self.lease, 'lease_params': {'on_end': 'stop'}}
        self.update(stack, changed(PLAIN, 'server', scheduler_hints=hints))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.ids(stack, 'server') != before
        assert self.held() == set(self.ids(stack, 'server'))

    def test_hints_before_the_start_are_reserved_anew(self):
        stack = self.reserve()
        before = self.ids(stack, 'disk', 'server')
        self.update(stack, PAIR)
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert not set(before) & set(self.ids(stack, 'disk', 'server'))
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.held() == set()


class TestPreview(UpdateTest):
    def test_preview_says_what_is_reserved_anew(self):
        stack = self.reserve(ALONE)
        hinted_one = hinted(ALONE, self.lease)
        assert self.previewed(stack, changed(hinted_one, 'server', name='web')) == {
            'net': 'unchanged',
            'server': 'updated',
        }
        assert self.previewed(stack, changed(hinted_one, 'server', flavor='m2')) == {
            'net': 'unchanged',
            'server': 'replaced',
        }
        assert len(self.cloud.nova.changes) == 1

    def test_a_lease_of_the_template_is_none_to_move_to(self):
        """A preview does not know its id."""
        template = changed(ALONE, 'server', scheduler_hints=THERE)
        template = added(
            template,
            'lease',
            'OS::Climate::Lease',
            name='lease1',
            duration='1h',
            start_date=self.leases.later(hours=1),
        )
        stack = self.create(template)
        self.assert_stack(stack, 'CREATE_COMPLETE')
        assert self.previewed(stack, template)['server'] == 'updated'
        anew = changed(template, 'server', flavor='m2')
        assert self.previewed(stack, anew)['server'] == 'replaced'
        self.leases.start(self.ids(stack, 'lease')[0])
        assert self.previewed(stack, template)['server'] == 'updated'

    def test_what_would_fail_is_told_over_the_bus(self):
        stack = self.reserve(ALONE)
        hinted_one = hinted(ALONE, self.leases.make(ALICE))
        with pytest.raises(exception.StackValidationFailed) as error:
            self.previewed(stack, hinted_one)
        assert 'server: ' in str(error.value)
        assert 'cannot move to lease' in str(error.value)
        sent = common.serialize_remote_exception((error.type, error.value, error.tb))
        assert 'cannot move to lease' in sent

    def previewed(self, stack, template):
        found = self.ask(
            'preview_update_stack', ALICE, self._identity(stack), template, {'parameters': {}},
            None, {},
        )  # fmt: skip
        return {
            each['resource_name']: kind
            for kind in ('added', 'deleted', 'replaced', 'updated', 'unchanged')
            for each in found[kind]
        }


class TestDates(UpdateTest):
    """The lease is in the template, and changes there."""

    def test_new_dates_keep_every_member(self):
        stack = self.create(self.leased(1, 2))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        before, changes = self.ids(stack, 'lease', 'disk', 'server'), self.changes()
        self.update(stack, self.leased(5, 6))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.changes() == changes
        self.lease = before[0]
        self.start(stack)
        assert self.leases.now == self.at(5)
        assert self.wakes() == before[1:]
        changes = self.changes()
        self.update(stack, self.leased(5, 9))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.get(self.lease).end_date == self.at(9)
        assert self.ids(stack, 'lease', 'disk', 'server') == before
        assert self.changes() == changes

    def test_the_start_of_a_lease_that_runs_is_refused(self):
        stack = self.create(self.leased(1, 2))
        (self.lease,) = self.ids(stack, 'lease')
        self.start(stack)
        before, changes = self.ids(stack, 'lease', 'disk', 'server'), self.changes()
        self.update(stack, self.leased(3, 4))
        found = self.assert_stack(stack, 'UPDATE_FAILED')
        assert 'start_date' in found.status_reason
        assert self.ids(stack, 'lease', 'disk', 'server') == before
        assert self.changes() == changes

    def setUp(self):
        super().setUp()
        self.zero = self.leases.now

    def at(self, hours):
        return self.zero + datetime.timedelta(hours=hours)

    def leased(self, start, end):
        """A pair in a lease of its template."""
        dates = {'start_date': self.at(start).isoformat(), 'end_date': self.at(end).isoformat()}
        template = added(PAIR, 'lease', 'OS::Climate::Lease', name='lease1', **dates)
        return hinted(template, {'get_resource': 'lease'})


class TestMapping(UpdateTest):
    """The classes of the extension come with the environment of the stack, not of the cloud."""

    def test_taking_the_mapping_out_makes_all_anew(self):
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        registry = {
            'OS::Nova::Server': 'Test::CoreServer', 'OS::Cinder::Volume': 'Test::CoreVolume',
        }  # fmt: skip
        core = resources.global_env()
        core.register_class('Test::CoreServer', server.Server)
        core.register_class('Test::CoreVolume', volume.CinderVolume)
        self.update(stack, PAIR, environment={'resource_registry': registry})
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert not set(before) & set(self.ids(stack, 'disk', 'server'))
        assert self.held() == set()
