# SPDX-License-Identifier: Apache-2.0
"""A lease of two things, as it was just granted."""

from climate_core.lease import changes, model
from tests.support import leases
from tests.support.leases import HOUR, NOON

RULES = changes.update.UpdateRules(300, before_start=[1800])


def lease(manual: bool = False) -> model.Lease:
    """Return a lease from an hour after noon to three hours after it."""
    return leases.lease(
        *(leases.reservation(str(n)) for n in range(2)),
        start=NOON + HOUR,
        end=NOON + 3 * HOUR,
        given=[('note', NOON + 2 * HOUR)],
        before_end_date=NOON + 2 * HOUR,
        always=RULES.before_start,
        start_policy='manual' if manual else 'auto',
    )
