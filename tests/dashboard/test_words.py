# SPDX-License-Identifier: Apache-2.0
"""The words for what the lease service says."""

from collections.abc import Iterable
from typing import Any

import pytest

from climate_core.db.project_limits import NAMES
from climate_core.lease import events, states
from climate_dashboard import words
from climate_dashboard.leases import actions


@pytest.mark.parametrize(
    ('kept', 'known'),
    [
        (words.LEASE_STATUSES, states.LeaseStatus),
        (words.RESERVATION_STATUSES, states.ReservationStatus),
        (words.KINDS, states.LeaseKind),
        (words.LIMITS, NAMES),
    ],
)
def test_every_status_kind_and_limit_has_a_word(
    kept: tuple[tuple[str, Any], ...], known: Iterable[str]
) -> None:
    assert {value for value, _word in kept} == set(known)


def test_every_event_that_is_shown_has_a_word() -> None:
    shown = {each.event_type for each in events.TABLE if not each.hidden}
    assert shown - {each for each, _word in words.EVENTS} == {events.USER_EVENT}


def test_leases_with_an_end_action_are_those_that_can_be_ended() -> None:
    ended = {move.source for move in states.LEASE if move.target == states.LeaseStatus.TERMINATING}
    assert {*actions._LASTING} == ended
    assert {*actions._MOVABLE} <= ended
