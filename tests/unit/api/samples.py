# SPDX-License-Identifier: Apache-2.0
"""A lease to look at."""

import datetime

from climate_core.lease import model
from tests.support import leases

LEASE = '22222222-2222-4222-8222-222222222222'
NOW = datetime.datetime(2098, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)


def event(event_type: str) -> model.Event:
    return model.Event(
        id='44444444-4444-4444-8444-444444444444',
        lease_id=LEASE,
        event_type=event_type,
        time=NOW,
        status='UNDONE',
        status_reason=None,
        generation=3,
        attempts=2,
        next_at=NOW,
        created_at=NOW,
        updated_at=None,
    )


def reservation(**params: object) -> model.Reservation:
    return model.Reservation(
        id='33333333-3333-4333-8333-333333333333',
        lease_id=LEASE,
        resource_type='test:thing',
        resource_id='thing',
        status='pending',
        status_reason=None,
        params=params,
        missing_resources=False,
        resources_changed=False,
        created_at=NOW,
        updated_at=NOW,
    )


def lease(**params: object) -> model.Lease:
    return leases.lease(
        lease_id=LEASE,
        start=NOW.astimezone(datetime.timezone(datetime.timedelta(hours=5))),
        end=NOW,
        now=NOW,
        status_reason='because',
        degraded=True,
        trust_id='secret-trust',
        generation=7,
        reservations=(reservation(**params),),
        events=(event('start_lease'), event('release_trust')),
    )
