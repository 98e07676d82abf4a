# SPDX-License-Identifier: Apache-2.0
"""What is remembered of work on an event."""

import dataclasses
import datetime

from climate_core.lease import events, history, model, states
from tests.unit.lease import samples
from tests.unit.lease.samples import NOON

CAUSE = 'event.start_lease'


def _claimed(lease: model.Lease) -> model.Event:
    start = lease.event(model.START)
    assert start is not None
    return dataclasses.replace(start, status=states.EventStatus.IN_PROGRESS, generation=1)


def _entry(
    before: model.Lease, after: model.Lease, event: model.Event, now: datetime.datetime
) -> history.HistoryEntry | None:
    return history.describe_change(before, after, history.Cause(CAUSE, event_id=event.id), now)


def test_that_a_lease_is_starting_is_remembered() -> None:
    event = _claimed(samples.lease())
    lease = samples.lease().with_events(event)
    work = events.get_handler(event.event_type).begin(
        lease, event, NOON + datetime.timedelta(hours=1)
    )

    entry = _entry(lease, work.lease, event, NOON)

    assert entry is not None
    assert (entry.result, entry.changes['status']) == (history.PROGRESS, ['PENDING', 'STARTING'])


def test_another_look_at_a_lease_that_is_starting_is_not() -> None:
    event = _claimed(samples.lease())
    lease = dataclasses.replace(samples.lease().with_events(event), status='STARTING')
    work = events.get_handler(event.event_type).begin(
        lease, event, NOON + datetime.timedelta(hours=1)
    )

    assert _entry(lease, work.lease, event, NOON) is None


def test_a_retry_is_remembered_once_for_each_reason() -> None:
    event = model.new_event('lease', model.RELEASE_TRUST, NOON, NOON)
    before = samples.lease().with_events(event)
    after = before.with_events(dataclasses.replace(event, status_reason='away'))

    entry = _entry(before, after, event, NOON)

    assert entry is not None
    assert (entry.result, entry.reason, entry.changes) == (history.RETRY, 'away', {})
    assert _entry(after, after, event, NOON) is None
