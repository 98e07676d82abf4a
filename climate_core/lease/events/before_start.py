# SPDX-License-Identifier: Apache-2.0
"""``before_start_lease``: the start of the lease is near."""

import datetime
from collections.abc import Mapping

from climate_core.lease import model
from climate_core.lease.events import base


class BeforeStart(base.Notice):
    event_type = model.BEFORE_START
    due = 'as many seconds before the start as the operator and ``before_start`` of the lease say'
    action = 'notifies'
    notifications = {
        'lease.event.before_start_lease': (
            'its start is near: once for each of the times that the operator and the lease want'
        )
    }

    def move(
        self, event: model.Event, before: model.Lease, after: model.Lease, now: datetime.datetime
    ) -> model.Event:
        """Leave it to :mod:`climate_core.lease.changes.start_notices`, which sees all of them."""
        return event

    def payload(self, lease: model.Lease, now: datetime.datetime) -> Mapping[str, int]:
        return {'starts_in': max(0, round((lease.start_date - now).total_seconds()))}
