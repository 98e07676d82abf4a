# SPDX-License-Identifier: Apache-2.0
"""What the calendar is asked for."""

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from climate_common import limits
from climate_core import exceptions
from climate_core.calendar.model import Demand
from climate_core.lease.request import RAISE_FIRST
from climate_core.operations import allocation
from climate_core.plugins.base import CalendarBacked
from tests.support.world import NOON


def _wanted(reservation: Any) -> Demand:
    return Demand(
        kind='host', min_pieces=1, max_pieces=1, reservation_id=reservation.id, field='min'
    )


@pytest.mark.parametrize('asked', ['check', 'allocate'])
def test_one_request_asks_for_so_many_at_most(asked: str) -> None:
    calendar = mock.Mock()
    calendar.allocate.return_value = ()
    plugin = mock.Mock(spec=CalendarBacked)
    plugin.read_demand = _wanted
    services: Any = SimpleNamespace(calendar=calendar, plugins={'physical:host': plugin})
    lease: Any = SimpleNamespace(start_date=NOON, end_date=NOON, reservations=())
    lease.with_reservations = lambda *_: lease

    def ask(count: int) -> None:
        made: Any = [
            SimpleNamespace(id=str(number), unit_kind='host', resource_type='physical:host')
            for number in range(count)
        ]
        items: Any = [SimpleNamespace(reservation=each, field='') for each in made]
        if asked == 'check':
            draft: Any = SimpleNamespace(items=items, lease=lease, now=NOON, fields={})
            allocation.check_capacity(services, draft, RAISE_FIRST)
        else:
            demands = allocation.read_demands(services.plugins, made)
            allocation.allocate(services, mock.Mock(), lease, demands, NOON)

    ask(limits.CALENDAR_RESERVATIONS)
    assert len(calendar.mock_calls) == 1
    with pytest.raises(exceptions.BadRequest, match=str(limits.CALENDAR_RESERVATIONS)) as caught:
        ask(limits.CALENDAR_RESERVATIONS + 1)
    assert caught.value.field == 'reservations'
    assert len(calendar.mock_calls) == 1
