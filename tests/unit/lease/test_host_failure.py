# SPDX-License-Identifier: Apache-2.0
"""What Nova says of a nova-compute, and whether its host has failed by that."""

from typing import Any

import pytest

from climate_core.lease import host_failure
from tests.support.leases import NOON

FORCED = 'The nova-compute on cn1 is forced down.'
SILENT = 'The nova-compute on cn1 is down since 2026-12-01 11:55 (UTC).'
GONE = 'Nova has no nova-compute on cn1 any more.'


@pytest.mark.parametrize(
    ('service', 'failed', 'up'),
    [
        ({'state': 'up', 'updated_at': '2026-12-01T11:00:00.000000'}, None, True),
        ({'state': 'down', 'updated_at': '2026-12-01T11:55:00.000000'}, SILENT, False),
        ({'state': 'down', 'updated_at': '2026-12-01T11:55:00.000001'}, None, False),
        ({'state': 'down', 'updated_at': None}, None, False),
        ({'state': 'down', 'forced_down': True, 'updated_at': None}, FORCED, False),
        ({'state': 'up', 'forced_down': True}, FORCED, False),
        # Its cell does not answer.
        ({'status': 'UNKNOWN'}, None, False),
        (None, GONE, False),
    ],
)
def test_failure(service: dict[str, Any] | None, failed: str | None, up: bool) -> None:
    assert host_failure.failure(service, 'cn1', NOON, 300) == failed
    assert host_failure.is_up(service) is up
