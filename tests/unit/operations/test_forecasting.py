# SPDX-License-Identifier: Apache-2.0
"""What is answered if servers are not expected to find room."""

import datetime

import pytest

from climate_core import exceptions
from climate_core.calendar import moments
from climate_core.calendar.emptying import RunningServer, TargetHost
from climate_core.calendar.forecast import Forecast, Release
from climate_core.operations import forecasting

NOON = datetime.datetime(2099, 1, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize(('freed', 'later'), [(2, '2099-01-01T12:00:00.000000'), (1, None)])
def test_refusal_says_why_and_when_it_would_do(freed: int, later: str | None) -> None:
    release = Release(at=moments.moment(NOON), host='x', amounts={'VCPU': freed})
    forecast = Forecast([TargetHost(name='x', free={'VCPU': 0})], [release])
    servers = [RunningServer(id=each, amounts={'VCPU': 1}) for each in 'ab']
    with pytest.raises(exceptions.NotEnough, match='too little VCPU on 1 host') as refused:
        forecasting.check(forecast, servers, NOON - HOUR, NOON)
    assert refused.value.available_from == later
    if later:
        forecasting.check(forecast, servers, NOON, NOON + HOUR)
