# SPDX-License-Identifier: Apache-2.0
"""Leases for tests that write them into the database themselves."""

import datetime

from climate_core.lease import changes, model

NOW = datetime.datetime(2098, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)


def lease(number: int) -> model.Lease:
    lease_id = f'00000000-0000-4000-8000-{number:012}'
    things = [
        model.new_reservation(lease_id, 'test:thing', f'{number}-{each}', {}, NOW)
        for each in range(3)
    ]
    return model.Lease(
        id=lease_id,
        name=f'lease{number}',
        project_id='project',
        user_id='user',
        start_date=NOW,
        end_date=END,
        before_end_date=None,
        status='PENDING',
        status_reason=None,
        degraded=False,
        trust_id='trust',
        generation=0,
        created_at=NOW,
        updated_at=None,
        deleted_at=None,
        reservations=tuple(things),
        events=changes.create.first_events(lease_id, NOW, END, None, [('mail', END)], NOW),
    )
