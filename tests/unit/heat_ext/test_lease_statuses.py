# SPDX-License-Identifier: Apache-2.0
"""A check of a stack sorts every status of its lease."""

from climate_core.lease import states
from heat_ext.resources import lease


def test_every_status_is_failed_queued_or_granted() -> None:
    granted = ('PENDING', 'STARTING', 'ACTIVE')
    sorted_statuses = [*lease._FAILED, *lease._WAITING, *granted]
    assert sorted(sorted_statuses) == sorted(states.LeaseStatus)
