# SPDX-License-Identifier: Apache-2.0
"""Leases for tests that write them into the database themselves."""

import datetime

from climate_core.lease import model
from tests.support import leases

NOW = datetime.datetime(2098, 1, 1, tzinfo=datetime.UTC)
END = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)


def lease(number: int) -> model.Lease:
    lease_id = f'00000000-0000-4000-8000-{number:012}'
    things = [
        model.new_reservation(lease_id, 'test:thing', f'{number}-{each}', {}, NOW)
        for each in range(3)
    ]
    return leases.lease(
        *things,
        lease_id=lease_id,
        start=NOW,
        end=END,
        now=NOW,
        given=[('mail', END)],
        name=f'lease{number}',
    )
