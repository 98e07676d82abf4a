# SPDX-License-Identifier: Apache-2.0
"""Events of leases that are not granted yet: there is nothing to do in another status."""

import pytest

from climate_core.lease import model
from climate_core.lease.events import queue
from tests.support import leases
from tests.support.leases import NOON


@pytest.mark.parametrize('handler', [queue.RetryLease(), queue.MakeRoom()])
def test_event_of_a_lease_in_another_status_is_skipped(handler: queue.UngrantedEvent) -> None:
    lease = leases.lease(leases.reservation('r'))
    event = model.new_event(lease.id, handler.event_type, NOON, NOON)
    assert handler.begin(lease, event, NOON).skip_reason == handler.obsolete_reason
    after = handler.settle(lease.with_events(event), event, {}, NOON).lease
    assert leases.event(after, handler.event_type).status == 'DONE'
