# SPDX-License-Identifier: Apache-2.0
"""What a list shows of leases tells the same as the leases of the domain."""

import dataclasses
from typing import Any, TypeVar

import pytest

from climate_core.lease import model, states, views
from tests.unit.lease import samples

T = TypeVar('T')


def shown(kind: type[T], one: Any, **values: Any) -> T:
    """Return what a list shows of something of the domain."""
    names = kind._fields  # type: ignore[attr-defined]
    return kind(**{name: getattr(one, name) for name in names} | values)


def listed_lease(lease: model.Lease) -> views.LeaseSummary:
    return shown(
        views.LeaseSummary,
        lease,
        reservations=[shown(views.ReservationSummary, each) for each in lease.reservations],
        events=[shown(views.EventSummary, each) for each in lease.events],
    )


@pytest.mark.parametrize('status', states.ReservationStatus)
def test_reservation_that_holds_its_resource_is_live(status: states.ReservationStatus) -> None:
    lease = samples.lease()
    (first, second) = lease.reservations
    lease = lease.with_reservations(dataclasses.replace(first, status=status))
    live = [each.id for each in listed_lease(lease).live]
    assert live == [each.id for each in lease.live]
    assert second.id in live


@pytest.mark.parametrize('status', ['WAITING', 'PENDING'])
@pytest.mark.parametrize('of_event', states.EventStatus)
def test_lease_that_waits_is_tried_again_at_its_open_event(
    status: str, of_event: states.EventStatus
) -> None:
    lease = samples.lease()
    event = model.new_event(lease.id, model.RETRY, lease.start_date, lease.created_at)
    event = dataclasses.replace(event, status=of_event)
    lease = dataclasses.replace(lease, status=status, events=(*lease.events, event))
    found = listed_lease(lease)
    waits = status == 'WAITING' and event.open
    assert found.next_retry_at == (event.time if waits else None)
    assert [each.open for each in found.events_of(model.RETRY)] == [event.open]
