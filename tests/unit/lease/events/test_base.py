# SPDX-License-Identifier: Apache-2.0
"""What all types of events have in common."""

import pytest

from climate_core.lease import events, model, transitions
from tests.support import leases
from tests.support.leases import HOUR, NOON


def test_handler_of_an_unknown_type_is_that_of_users() -> None:
    assert transitions.get_handler('a note') is transitions.get_handler(transitions.USER_EVENT)
    assert transitions.get_handler(model.START) is not transitions.get_handler(
        transitions.USER_EVENT
    )


@pytest.mark.parametrize('handler', events.TABLE, ids=lambda each: each.event_type)
def test_skip_completes_the_event_with_a_reason(handler) -> None:
    lease = leases.lease(leases.reservation('r'))
    event = model.new_event(lease.id, handler.event_type, NOON, NOON)
    after = transitions.EventHandler.skip(handler, lease, event, 'needless', NOON).lease
    (done,) = after.events_of(handler.event_type)[-1:]
    assert (done.open, done.status_reason) == (False, 'needless')


@pytest.mark.parametrize(
    ('status', 'deleted_at'), [('TERMINATING', None), ('DELETING', NOON + HOUR)]
)
def test_terminate_cancels_what_is_open_and_hides_a_deleted_lease(status, deleted_at) -> None:
    lease = leases.lease(given=[('note', NOON + HOUR)], status=status, trust_id=None)
    after = transitions.terminate_lease(lease, NOON + HOUR, 'why')
    assert (after.status, after.status_reason) == ('TERMINATED', 'why')
    assert after.deleted_at == deleted_at
    assert not any(each.open for each in after.events)
