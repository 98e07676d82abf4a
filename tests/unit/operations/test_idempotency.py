# SPDX-License-Identifier: Apache-2.0
import dataclasses
import datetime

import pytest

from climate_common import resource_types
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import model, request
from climate_core.operations import idempotency
from climate_core.operations.draft import Draft, Item
from tests.unit.lease import samples

NOON = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


def read(now, **values):
    return request.read_lease_request({'name': 'lease1', **values}, now, request.RequestRules())


@pytest.mark.parametrize(
    'values',
    [
        {'end_date': '2026-12-02 12:00'},
        {'start_date': ' Now ', 'end_date': '+1d'},
        {'start_date': '+2h', 'duration': '1d'},
        {'start_date': '2026-12-01 13:00', 'end_date': '+PT3H'},
    ],
)
@pytest.mark.parametrize('later', [-MINUTE, datetime.timedelta(0), MINUTE, 60 * MINUTE])
def test_repeated_request_is_the_same_lease_though_now_is_another_time(values, later) -> None:
    first = read(NOON, **values)
    lease = dataclasses.replace(
        samples.lease(), name='lease1', start_date=first.start, end_date=first.end
    )
    assert idempotency.is_same_lease(read(NOON + later, **values), lease)


@pytest.mark.parametrize(
    'values',
    [
        {'start_date': '2026-12-01 13:00', 'end_date': '2026-12-02 12:00'},
        {'start_date': '+30m', 'duration': '1d'},
        {'start_date': '+2h', 'duration': '2d'},
        {'start_date': '+2h', 'end_date': '+1d'},
    ],
)
def test_request_for_another_time_is_another_lease(values) -> None:
    first = read(NOON, start_date='+2h', duration='1d')
    lease = dataclasses.replace(
        samples.lease(), name='lease1', start_date=first.start, end_date=first.end
    )
    assert not idempotency.is_same_lease(read(NOON, **values), lease)


def test_floating_ip_that_another_lease_has_is_refused_by_its_name_in_the_api() -> None:
    holder = samples.lease()
    asked = model.new_reservation('new', resource_types.HELD_FLOATING_IP, 'fip1', {}, NOON)
    draft = Draft(samples.lease(), (Item(asked, {}, 'reservations[0]'),), NOON)
    context = RequestContext(project_id=holder.project_id)
    with pytest.raises(exceptions.ResourceReserved) as caught:
        idempotency.check_unreserved(context, draft, {asked.key: holder})
    assert f'virtual:floatingip fip1 is already reserved by lease {holder.id}' in str(caught.value)
    assert caught.value.field == 'reservations[0].resource_id'
