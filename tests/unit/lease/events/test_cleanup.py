# SPDX-License-Identifier: Apache-2.0
"""What is done after a lease: its trust is deleted, and the external service is told."""

import pytest

from climate_core.lease import events, model
from climate_core.lease.events import end
from climate_core.lease.transitions import DONE, Outcome, Result
from tests.support.leases import HOUR, NOON, event, lease

TYPES = [model.RELEASE_TRUST, model.EXTERNAL_END]


def _over(kind: str) -> model.Lease:
    return lease(status='TERMINATED').with_events(model.new_event('lease', kind, NOON, NOON))


@pytest.mark.parametrize('kind', TYPES)
@pytest.mark.parametrize(
    ('outcome', 'status', 'reason'),
    [
        (DONE, 'DONE', None),
        (Outcome(Result.RETRY, 2, 'away'), 'UNDONE', 'away'),
        (Outcome(Result.FAILED, reason='refused'), 'ERROR', 'refused'),
    ],
)
def test_cleanup_is_settled_without_a_notification(
    kind: str, outcome: Outcome, status: str, reason: str | None
) -> None:
    one = _over(kind)
    due = event(one, kind)
    change = events.get_handler(kind).settle(one, due, {due.id: outcome}, NOON)
    settled = event(change.lease, kind)
    assert (settled.status, settled.status_reason) == (status, reason)
    assert change.notifications == {}
    gone = kind == model.RELEASE_TRUST and outcome is DONE
    assert change.lease.trust_id == (None if gone else 'trust')


def test_a_lease_that_is_over_gives_its_trust_back_once() -> None:
    handler = events.get_handler(model.RELEASE_TRUST)
    after = handler.after_termination(lease(), NOON)
    assert event(after, model.RELEASE_TRUST).next_at == NOON
    assert handler.after_termination(after, NOON) == after
    without = lease(trust_id=None)
    assert handler.after_termination(without, NOON) == without


def test_the_external_service_is_told_when_the_lease_is_over() -> None:
    handler = events.get_handler(model.EXTERNAL_END)
    waiting = lease().with_events(end.new_external_end('lease', NOON))
    assert event(waiting, model.EXTERNAL_END).next_at is None
    due = handler.after_termination(waiting, NOON + HOUR)
    told = event(due, model.EXTERNAL_END)
    assert (told.next_at, told.time) == (NOON + HOUR, NOON + HOUR)
    assert handler.after_termination(due, NOON + 2 * HOUR) == due
