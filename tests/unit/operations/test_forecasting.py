# SPDX-License-Identifier: Apache-2.0
"""What is answered if servers are not expected to find room."""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest

from climate_common import dates
from climate_core import exceptions
from climate_core.db import forecast_reads
from climate_core.lease.model import Reservation
from climate_core.operations import pool_forecast
from climate_core.plugins.forecast import Forecast, Nouns, Release
from climate_core.plugins.server_placement import RunningServer, TargetHost
from tests.support import leases

NOON = datetime.datetime(2099, 1, 1, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize(('freed', 'later'), [(2, '2099-01-01T12:00:00.000000'), (1, None)])
def test_refusal_says_why_and_when_it_would_do(freed: int, later: str | None) -> None:
    release = Release(at=dates.to_microseconds(NOON), host='x', amounts={'VCPU': freed})
    forecast = Forecast([TargetHost(name='x', free={'VCPU': 0})], [release])
    servers = [RunningServer(id=each, amounts={'VCPU': 1}) for each in 'ab']
    with pytest.raises(exceptions.NotEnough, match='too little VCPU on 1 host') as refused:
        pool_forecast.check_servers(forecast, servers, NOON - HOUR, NOON)
    assert refused.value.available_from == later
    when = 'Capacity is expected from 2099-01-01 12:00 UTC on.'
    assert (when in refused.value.message) == (later is not None)
    if later:
        pool_forecast.check_servers(forecast, servers, NOON, NOON + HOUR)


class Hall:
    """A host with one free VCPU, and a server of another lease with one more."""

    nouns, hosts, places = Nouns(), (TargetHost(name='x', free={'VCPU': 1}),), {'other': 'x'}

    def __init__(self, conn: object) -> None:
        pass

    def demand(
        self, name: str, params: Mapping[str, Any], amounts: Mapping[str, int]
    ) -> RunningServer:
        return RunningServer(id=name, amounts={'VCPU': params['vcpus']})

    def released(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        return amounts


class Rows:
    """What the database says: the server of the other lease is deleted an hour after noon."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, query: Callable[..., Any], *_: Any) -> Any:
        self.reads += 1
        if query is forecast_reads.read_planned:
            return {}
        return [forecast_reads.ReservationEnd('other', NOON + HOUR, {'VCPU': 1}, 'delete')]


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> pool_forecast.PoolForecast:
    monkeypatch.setitem(pool_forecast._CAPACITY_READERS, TYPE, Hall)  # type: ignore[arg-type]
    return pool_forecast.PoolForecast(Rows(), mock.Mock())  # type: ignore[arg-type]


TYPE = 'test:made'


def wanted(vcpus: int) -> list[Reservation]:
    one = leases.reservation(f'{vcpus}', vcpus=vcpus)
    return [dataclasses.replace(one, resource_type=TYPE)]


def test_smaller_one_passes_a_larger_one_if_that_makes_it_no_later(
    expected: pool_forecast.PoolForecast,
) -> None:
    with pytest.raises(exceptions.NotEnough) as refused:
        expected.take(wanted(2), NOON, NOON + HOUR)
    expected.keep(wanted(2), NOON, NOON + HOUR, refused.value.available_from)
    with pytest.raises(exceptions.NotEnough, match='too little capacity left for another lease'):
        expected.take(wanted(1), NOON, NOON + 2 * HOUR)
    expected.take(wanted(1), NOON, NOON + HOUR)


def test_what_never_finds_room_keeps_nobody_waiting(expected: pool_forecast.PoolForecast) -> None:
    with pytest.raises(exceptions.NotEnough) as refused:
        expected.take(wanted(3), NOON, NOON + HOUR)
    assert refused.value.available_from is None
    expected.keep(wanted(3), NOON, NOON + HOUR, None)
    expected.take(wanted(1), NOON, NOON + 2 * HOUR)


def test_the_database_is_asked_as_often_for_many_as_for_one(
    expected: pool_forecast.PoolForecast,
) -> None:
    for number in range(100):
        start = NOON + 3 * number * HOUR
        expected.take(wanted(2), start + HOUR, start + 2 * HOUR)
    assert expected.database.reads == 2  # type: ignore[attr-defined]
