# SPDX-License-Identifier: Apache-2.0
"""A user deletes a lease."""

import pytest

from climate_core.lease import model
from climate_core.lease.events import end
from tests.support.leases import HOUR, NOON, lease, reservation


@pytest.mark.parametrize('status', ['PENDING', 'STARTING', 'ACTIVE', 'ERROR', 'TERMINATING'])
@pytest.mark.parametrize('held', [True, False])
def test_delete_hides_a_lease_when_it_holds_nothing(status: str, held: bool) -> None:
    one = lease(
        reservation(status='active' if held else 'deleted'),
        status=status,
        status_reason='why',
        given=[('note', NOON + HOUR)],
    )
    change = end.delete_lease(one, NOON)
    after = change.lease
    assert after.status == ('DELETING' if held else 'TERMINATED')
    assert after.status_reason == 'why'
    assert after.deleted_at == (None if held else NOON)
    assert list(change.notifications) == ([] if held else ['lease.delete'])
    due = [(e.event_type, e.next_at) for e in after.events if e.open]
    assert due == [(model.END if held else model.RELEASE_TRUST, NOON)]


def test_what_is_being_deleted_is_left_alone() -> None:
    one = end.delete_lease(lease(reservation()), NOON).lease
    assert end.delete_lease(one, NOON + HOUR).lease == one


def test_delete_of_a_lease_that_is_over_hides_it() -> None:
    one = lease(reservation(status='deleted'), status='TERMINATED', trust_id=None, events=())
    after = end.delete_lease(one, NOON).lease
    assert (after.status, after.deleted_at, after.events) == ('TERMINATED', NOON, ())
