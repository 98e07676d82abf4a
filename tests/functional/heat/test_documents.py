# SPDX-License-Identifier: Apache-2.0
"""The templates of the user's guide, as they are, and its table of updates."""

import ast
import pathlib
import re

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import stack_level

HERE = pathlib.Path(__file__).parent
GUIDE = pathlib.Path(__file__).resolve().parents[3] / 'doc' / 'source' / 'user'
TEMPLATES = GUIDE / 'templates'


class Tests:
    """The tests of a class, as attributes; the module is read, and not imported."""

    def __init__(self, module, name):
        tree = ast.parse((HERE / f'{module}.py').read_text())
        (found,) = [each for each in tree.body if getattr(each, 'name', '') == name]
        for each in found.body:
            if isinstance(each, ast.FunctionDef):
                setattr(self, each.name, f'{module}.{name}.{each.name}')


def _updates():
    """Row of the table -> the tests of its two cells."""
    before = Tests('test_updates', 'TestBeforeTheStart')
    after = Tests('test_updates_running', 'TestAfterTheStart')
    dates = Tests('test_updates_hints', 'TestDates')
    hints = Tests('test_updates_hints', 'TestHints')
    failure = Tests('test_wake_up', 'TestFailure')
    return {
        'changes nothing': (
            [before.test_nothing_new_wakes_nothing],
            [failure.test_what_is_awake_stays_and_the_rest_is_tried_again],
        ),
        'adds a server or volume': (
            [before.test_what_is_added_is_reserved],
            [
                after.test_what_is_added_is_reserved_and_woken_at_once,
                after.test_pair_that_is_added_is_woken_in_order,
            ],
        ),
        'adds one, and there is no room': (
            [
                before.test_without_room_what_was_reserved_stays,
                before.test_without_room_a_rollback_takes_back_all,
            ],
            [after.test_without_room_the_running_part_is_untouched],
        ),
        'takes one out': (
            [before.test_what_is_taken_out_is_freed],
            [after.test_what_is_taken_out_is_freed],
        ),
        'takes one out, and fails': (
            [before.test_what_was_taken_out_comes_back_in_a_rollback],
            [after.test_what_was_taken_out_comes_back_in_a_rollback],
        ),
        'another flavor, image or size': (
            [
                before.test_another_flavor_is_reserved_anew,
                before.test_another_flavor_without_room_leaves_the_old_one,
                before.test_another_image_is_reserved_anew,
                before.test_a_larger_volume_is_reserved_anew_with_its_server,
                before.test_a_server_with_volumes_is_freed_first,
                before.test_a_server_with_a_port_is_freed_first,
            ],
            [
                after.test_another_flavor_is_a_resize,
                after.test_another_image_is_a_rebuild,
                after.test_a_larger_volume_is_extended,
            ],
        ),
        'what Heat makes a new one for': (
            [before.test_other_user_data_are_reserved_anew],
            [after.test_what_heat_replaces_is_reserved_and_woken_before_the_old_one_goes],
        ),
        'other ports or networks': (
            [before.test_another_port_is_reserved_anew],
            [after.test_another_port_changes_in_place],
        ),
        'another name': (
            [before.test_a_name_changes_in_the_sleep],
            [after.test_another_name_changes_in_place],
        ),
        'other metadata': (
            [before.test_metadata_of_a_server_is_reserved_anew],
            [after.test_other_metadata_change_in_place],
        ),
        'new dates of the lease': (
            [before.test_new_dates_keep_every_member, dates.test_new_dates_keep_every_member],
            [after.test_new_dates_keep_every_member, dates.test_new_dates_keep_every_member],
        ),
        'another lease': (
            [before.test_another_lease_is_refused],
            [after.test_another_lease_changes_nothing_and_takes_nothing],
        ),
        'no lease any more': (
            [before.test_no_lease_any_more_runs_all],
            [
                after.test_taking_out_the_lease_leaves_all_running,
                hints.test_taking_out_the_hints_leaves_all_running,
            ],
        ),
    }  # fmt: skip


def test_every_update_in_the_guide_has_its_tests():
    """Each row has its tests; one that is renamed is not found above."""
    text = (GUIDE / 'stacks-reference.rst').read_text()
    _, head, rows, *_ = re.split(
        r'^=+ =+ =+\n', text[text.index('The update   ') - 200 :], flags=re.M
    )
    assert head.split() == ['The', 'update', 'before', 'the', 'start', 'after', 'the', 'start']
    names = [row[:32].strip() for row in rows.splitlines()]
    assert [name for name in names if name] == list(_updates())
    assert all(before and after for before, after in _updates().values())


class TestTemplates(ReservedTest):
    def made(self, name, environment=None, **parameters):
        template = (TEMPLATES / f'{name}.yaml').read_text()
        stack = self.create(
            template, environment=environment, parameters={'flavor': 'm1', **parameters}
        )
        self.assert_stack(stack, 'CREATE_COMPLETE')
        return stack

    def network(self):
        """Make one that is there before; gives its id."""
        net = {'heat_template_version': '2021-04-16'}
        net['resources'] = {'net': {'type': 'OS::Neutron::Net'}}
        (made,) = self.ids(self.create(net, name='before'), 'net')
        return made

    def test_working_group(self):
        stack = self.made('working-group', stack_level(self.lease))
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        assert self.cloud.cinder.statuses() == ['lease-reserved']
        before = self.held()
        # Nothing new is made at the start: what its members tell each other was known before.
        self.cloud.nova.full = self.cloud.cinder.full = True
        self.start(stack)
        assert self.cloud.nova.statuses() == ['ACTIVE'] * 3
        assert self.held() == before == set(self.wakes())

    def test_with_lease(self):
        stack = self.made(
            'with-lease',
            start='2098-12-01 09:00',
            end='2098-12-01 18:00',
            network=self.network(),
        )
        assert self.cloud.nova.statuses() == ['RESERVED']
        assert self.outputs(stack)['lease_status'] == 'PENDING'

    def test_autoscaling(self):
        stack = self.made('autoscaling', stack_level(self.lease), network=self.network())
        assert self.cloud.nova.statuses() == ['RESERVED'] * 3
        self.start(stack)
        assert sorted(self.cloud.nova.statuses()) == ['ACTIVE', 'RESERVED', 'RESERVED']
        assert self.outputs(stack)['size'] == 1
