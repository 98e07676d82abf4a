# SPDX-License-Identifier: Apache-2.0
"""Updates of a stack whose template has the hints, their preview, and those of the mapping."""

import datetime

import pytest
from heat.common import exception
from heat.engine import resources
from heat.engine.resources.openstack.cinder import volume
from heat.engine.resources.openstack.nova import server
from oslo_messaging._drivers import common

from tests.functional.heat.reserved import ReservedTest, guide_row
from tests.functional.heat.users import ALICE
from tests.support.stacks import PAIR, PLAIN, added, changed, hinted, lease

#: Nothing of it is named by the id of something else in the template.
ALONE = changed(PLAIN, 'server', networks=[{'allocate_network': 'none'}])
THERE = {'reserved': True, 'lease_id': {'get_resource': 'lease'}}


class TestHints(ReservedTest):
    @guide_row('removes the lease', 'after')
    def test_hints_removed_after_the_start_keep_everything_running(self):
        stack = self.reserve()
        before = self.ids(stack, 'disk', 'server')
        self.start(stack)
        self.update(stack, PAIR)
        assert self.ids(stack, 'disk', 'server') == before

    def test_other_hints_replace_the_running_server(self):
        hints = {'reserved': True, 'lease_id': self.lease, 'group': 'x'}
        template = changed(PLAIN, 'server', scheduler_hints=hints)
        stack = self.reserve(template)
        self.start(stack)
        before = self.ids(stack, 'server')
        self.update(stack, changed(template, 'server', scheduler_hints={**hints, 'group': 'y'}))
        assert self.ids(stack, 'server') != before

    def test_other_end_reserves_a_new_server_before_the_start(self):
        stack = self.reserve(PLAIN)
        before = self.ids(stack, 'server')
        hints = {'lease_id': self.lease, 'lease_params': {'on_end': 'stop'}}
        self.update(stack, changed(PLAIN, 'server', scheduler_hints=hints))
        assert self.ids(stack, 'server') != before
        assert self.held() == set(self.ids(stack, 'server'))

    def test_hints_removed_before_the_start_replace_everything(self):
        stack = self.reserve()
        before = self.ids(stack, 'disk', 'server')
        self.update(stack, PAIR)
        assert not set(before) & set(self.ids(stack, 'disk', 'server'))
        assert self.cloud.nova.statuses() == ['ACTIVE']
        assert self.held() == set()


class TestPreview(ReservedTest):
    def test_preview_tells_updated_from_replaced(self):
        stack = self.reserve(ALONE)
        template = hinted(ALONE, self.lease)
        for properties, kind in (({'name': 'web'}, 'updated'), ({'flavor': 'm2'}, 'replaced')):
            found = self.preview_update(stack, changed(template, 'server', **properties))
            assert found == {'net': 'unchanged', 'server': kind}
        assert len(self.cloud.nova.changes) == 1

    def test_preview_with_a_lease_of_the_template_moves_nothing(self):
        """A preview does not know the id of that lease."""
        template = changed(ALONE, 'server', scheduler_hints=THERE)
        dates = self.leases.later(hours=1), self.leases.later(hours=2)
        template = added(template, lease=lease(*dates))
        stack = self.create(template)
        assert self.preview_update(stack, template)['server'] == 'updated'
        other = changed(template, 'server', flavor='m2')
        assert self.preview_update(stack, other)['server'] == 'replaced'
        self.leases.start(self.ids(stack, 'lease')[0])
        assert self.preview_update(stack, template)['server'] == 'updated'

    def test_preview_of_a_failure_can_be_sent_over_the_bus(self):
        stack = self.reserve(ALONE)
        with pytest.raises(exception.StackValidationFailed) as error:
            self.preview_update(stack, hinted(ALONE, self.leases.make(ALICE)))
        sent = common.serialize_remote_exception((error.type, error.value, error.tb))
        for told in (str(error.value), sent):
            assert 'cannot move to lease' in told
        assert 'server: ' in str(error.value)


class TestDates(ReservedTest):
    """The lease is in the template, and changes there."""

    def setUp(self):
        super().setUp()
        self.zero = self.leases.now
        self.stack = self.create(self.leased(1, 2))
        self.before = self.ids(self.stack, 'lease', 'disk', 'server')
        self.lease = self.before[0]

    def at(self, hours):
        return self.zero + datetime.timedelta(hours=hours)

    def leased(self, start, end):
        """Return a pair in a lease of its template."""
        dates = self.at(start).isoformat(), self.at(end).isoformat()
        return hinted(added(PAIR, lease=lease(*dates)), {'get_resource': 'lease'})

    def assert_unchanged(self, changes):
        assert self.ids(self.stack, 'lease', 'disk', 'server') == self.before
        assert self.changes() == changes

    @guide_row('new dates of the lease', 'before')
    @guide_row('new dates of the lease', 'after')
    def test_new_dates_keep_every_member(self):
        changes = self.changes()
        self.update(self.stack, self.leased(5, 6))
        self.assert_unchanged(changes)
        self.start(self.stack)
        assert self.leases.now == self.at(5)
        assert self.wakes() == self.before[1:]
        changes = self.changes()
        self.update(self.stack, self.leased(5, 9))
        assert self.leases.get(self.lease).end_date == self.at(9)
        self.assert_unchanged(changes)


class TestMapping(ReservedTest):
    """The classes of the extension come with the environment of the stack, not of the cloud."""

    def test_removed_mapping_replaces_everything(self):
        stack = self.reserve_all()
        before = self.ids(stack, 'disk', 'server')
        registry = {
            'OS::Nova::Server': 'Test::CoreServer', 'OS::Cinder::Volume': 'Test::CoreVolume',
        }  # fmt: skip
        core = resources.global_env()
        core.register_class('Test::CoreServer', server.Server)
        core.register_class('Test::CoreVolume', volume.CinderVolume)
        self.update(stack, PAIR, environment={'resource_registry': registry})
        assert not set(before) & set(self.ids(stack, 'disk', 'server'))
        assert self.held() == set()
