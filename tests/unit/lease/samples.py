# SPDX-License-Identifier: Apache-2.0
"""A lease of two things, as it was just granted."""

import datetime

from climate_core.lease import changes, model

NOON = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
RULES = changes.update.Rules(300, before_start=[1800])


def lease(manual: bool = False) -> model.Lease:
    """Return a lease from an hour after noon to three hours after it."""
    start, end = NOON + HOUR, NOON + 3 * HOUR
    given = [('note', NOON + 2 * HOUR)]
    events = changes.create.first_events(
        'lease', start, end, NOON + 2 * HOUR, given, NOON, manual, RULES.before_start
    )
    things = [model.new_reservation('lease', 't', str(n), {}, NOON) for n in range(2)]
    return model.Lease(
        *('lease', 'name', 'project', 'user', start, end, NOON + 2 * HOUR),
        *('PENDING', None, False, 'trust', 0, NOON, None, None),
        start_policy='manual' if manual else 'auto',
        reservations=model.in_order((), things),
        events=events,
    )
