# SPDX-License-Identifier: Apache-2.0
"""The table of events: what its rows say, and what is asked of all of them."""

import dataclasses

import pytest

from climate_common import event_types
from climate_core.lease import events, model, transitions, views
from climate_core.lease.events import end
from climate_core.lease.transitions import EndStage
from tests.support.leases import HOUR, NOON, lease, reservation
from tests.support.world import World

TYPES = [handler.event_type for handler in events.TABLE]

#: What to do about a new event that is not in the lists of these tests.
LISTED = f'a new event is listed here as well, by its priority and if it is shown: {__file__}'


@pytest.mark.parametrize('handler', events.TABLE, ids=TYPES)
def test_every_row_can_be_documented(handler: events.EventHandler) -> None:
    assert handler.due
    assert handler.action
    calls = bool(handler.plugin_methods) or handler.lease_call is not None
    assert bool(handler.on_failure) == calls
    assert bool(handler.notifications) != isinstance(handler, end.Cleanup)


@pytest.mark.parametrize('handler', events.TABLE, ids=TYPES)
def test_skip_completes_the_event_with_a_reason(handler: events.EventHandler) -> None:
    one = lease(reservation('r'))
    event = model.new_event(one.id, handler.event_type, NOON, NOON)
    after = transitions.EventHandler.skip(handler, one, event, 'needless', NOON).lease
    (done,) = after.events_of(handler.event_type)[-1:]
    assert (done.open, done.status_reason) == (False, 'needless')


def test_order_at_equal_times() -> None:
    ordered = sorted(TYPES, key=lambda each: events.get_handler(each).priority)
    assert set(ordered[:4]) == {model.BEFORE_START, model.READY, model.BEFORE_END, 'of_user'}, (
        LISTED
    )
    assert set(ordered[4:7]) == {model.PREEMPT, model.END, model.END_RESERVATION}, LISTED
    taking = {model.RETRY, model.MAKE_ROOM, model.START, model.PREPARE, model.REALLOCATE}
    assert set(ordered[7:12]) == taking, LISTED
    assert set(ordered[12:]) == {model.EXTERNAL_END, model.RELEASE_TRUST}, LISTED


def test_types_without_a_row_are_of_users() -> None:
    assert events.is_user_event('call_mum')
    assert events.get_handler('call_mum') is events.get_handler('of_user')
    assert not any(events.is_user_event(each) for each in TYPES if each != 'of_user')
    given = {each for each in (*TYPES, 'note') if events.get_handler(each).users_may_add}
    assert given == {model.BEFORE_END, 'of_user', 'note'}
    assert set(TYPES) - given == events.RESERVED_TYPES


def test_clients_refuse_the_types_of_the_table_that_users_cannot_give() -> None:
    place = 'climate_common/event_types.py'
    missing, left = (
        events.RESERVED_TYPES - event_types.RESERVED_TYPES,
        event_types.RESERVED_TYPES - events.RESERVED_TYPES,
    )
    assert not missing, f'add {sorted(missing)} to {place}'
    assert not left, f'take {sorted(left)} out of {place}: the table has no such event'


def test_operations_have_every_call_of_the_table() -> None:
    wanted = {each.lease_call for each in events.TABLE} - {None}
    operations = World('sqlite://').operations
    missing = wanted - operations.lease_calls.keys()
    assert not missing, f'add {sorted(missing)} to LeaseOperations.lease_calls'


def test_hidden_events_are_not_shown() -> None:
    kinds = (*TYPES, 'note')
    one = lease(events=tuple(model.new_event('lease', kind, NOON, NOON) for kind in kinds))
    dated = {model.START, model.END, model.BEFORE_START, model.BEFORE_END}
    shown = {*dated, model.RETRY, model.MAKE_ROOM, model.READY, model.PREEMPT, 'of_user', 'note'}
    assert {each.event_type for each in views.visible_events(one)} == shown, LISTED


@pytest.mark.parametrize(
    ('stage', 'left'),
    [
        (
            EndStage.END_BEGINS,
            {model.BEFORE_START, model.BEFORE_END, model.END, 'note', *events.RESERVED_TYPES}
            - {model.START, model.READY, model.PREPARE, model.END_RESERVATION}
            - {model.REALLOCATE, model.RETRY, model.MAKE_ROOM, model.PREEMPT},
        ),
        (EndStage.END_REQUESTED, {model.END, model.EXTERNAL_END, model.RELEASE_TRUST}),
        (EndStage.TERMINATED, {model.EXTERNAL_END, model.RELEASE_TRUST}),
    ],
)
def test_cancel_events_leaves_those_of_later_stages(stage: EndStage, left: set[str]) -> None:
    kinds = {*events.RESERVED_TYPES, model.BEFORE_END, 'note'}
    one = lease(events=tuple(model.new_event('lease', kind, NOON, NOON) for kind in kinds))
    after = events.cancel_by_stage(one, stage, 'Over.', NOON)
    assert {each.event_type for each in after.events if each.open} == left
    assert {each.status_reason for each in after.events if not each.open} == {'Over.'}


@pytest.mark.parametrize(('status', 'hidden'), [('TERMINATING', False), ('DELETING', True)])
def test_terminated_lease_has_only_its_cleanup_to_do(status: str, hidden: bool) -> None:
    one = lease(reservation(status='deleted'), status=status, given=[('note', NOON + HOUR)])
    one = one.with_events(end.new_external_end('lease', NOON))
    after = events.terminate_lease(one, NOON, 'why')
    assert (after.status, after.status_reason) == ('TERMINATED', 'why')
    assert after.deleted_at == (NOON if hidden else None)
    due = [e.event_type for e in after.events if e.open and e.next_at == NOON]
    assert sorted(due) == [model.EXTERNAL_END, model.RELEASE_TRUST]
    assert len([e for e in after.events if e.open]) == 2
    without = events.terminate_lease(dataclasses.replace(one, trust_id=None), NOON, None)
    assert without.event(model.RELEASE_TRUST) is None
