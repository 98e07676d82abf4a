# SPDX-License-Identifier: Apache-2.0
"""What Nova says of a nova-compute, and whether its host has failed by that."""

from typing import Any

import pytest

from climate_hosts import hosts
from tests.support.leases import NOON

FORCED = 'The nova-compute on cn1 is forced down.'
SILENT = 'The nova-compute on cn1 is down since 2082-12-01 11:55 UTC.'
GONE = 'Nova has no nova-compute on cn1 any more.'


@pytest.mark.parametrize(
    ('service', 'failed', 'up'),
    [
        ({'state': 'up', 'updated_at': '2082-12-01T11:00:00.000000'}, None, True),
        ({'state': 'down', 'updated_at': '2082-12-01T11:55:00.000000'}, SILENT, False),
        ({'state': 'down', 'updated_at': '2082-12-01T11:55:00.000001'}, None, False),
        ({'state': 'down', 'updated_at': None}, None, False),
        ({'state': 'down', 'forced_down': True, 'updated_at': None}, FORCED, False),
        ({'state': 'up', 'forced_down': True}, FORCED, False),
        # Its cell does not answer.
        ({'status': 'UNKNOWN'}, None, False),
        (None, GONE, False),
    ],
)
def test_failure_is_why_a_nova_compute_is_down(
    service: dict[str, Any] | None, failed: str | None, up: bool
) -> None:
    assert hosts.find_failure(service, 'cn1', NOON, 300) == failed
    assert hosts.is_service_up(service) is up


UP, DOWN = {'state': 'up'}, {'state': 'down'}
DEAD = {'state': 'down', 'forced_down': True}
UNKNOWN = {'status': 'UNKNOWN'}


@pytest.mark.parametrize(
    ('services', 'share', 'down'),
    [
        ([UP, UP, UP], 0.5, None),
        # One host of one is no outage, and half of them is not more than half.
        ([DOWN], 0.0, None),
        ([UP, UP, DOWN, DOWN], 0.5, None),
        ([UP, DOWN, DOWN], 0.5, '2 of 3'),
        ([UP, UP, None, DOWN, None], 0.5, '3 of 5'),
        ([UP, DEAD, DEAD, DEAD], 0.5, None),
        ([UP, UNKNOWN, UNKNOWN, DOWN], 0.5, None),
        ([UP, UP, UP, DOWN, DOWN], 0.3, '2 of 5'),
        ([DOWN, DOWN], 1.0, None),
    ],
)
def test_outage_is_when_many_are_down_at_once(
    services: list[dict[str, Any] | None], share: float, down: str | None
) -> None:
    found = {f'cn{number}': each for number, each in enumerate(services) if each is not None}
    # Several nodes of a service fall silent with it.
    names = [f'cn{number}' for number in range(len(services))] * 2
    told = hosts.find_outage(found, names, share)
    assert told == (down and f'{down} nova-computes of the pools are down at the same time')
