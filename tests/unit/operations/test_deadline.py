# SPDX-License-Identifier: Apache-2.0
"""A request whose caller does not wait any more stops, unless it has created something."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from climate_core import concurrency, exceptions
from climate_core.concurrency import SearchBudget
from climate_core.context import RequestContext
from climate_core.lease import model
from climate_core.plugins.base import Prepared, ReservedResource
from climate_core.plugins.forecast import Forecast, FutureDemand
from climate_core.plugins.server_placement import FreeCapacity, RunningServer, TargetHost
from tests.support.world import Things, World, user

STOPPED = 'longer than its caller waits'


class Clock:
    """The monotonic clock as deadlines see it; each thing that is asked for takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        monkeypatch.setattr(concurrency, 'time', SimpleNamespace(monotonic=lambda: self.now))

    def slow(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def take(*args: Any, **kw: Any) -> Any:
            self.now += 1
            return function(*args, **kw)

        return take


class Crafts(Things, Prepared):
    """Things that are made for their lease."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def make(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        claimed: ReservedResource,
    ) -> ReservedResource:
        self.made.append(values['resource_id'])
        return dataclasses.replace(claimed, is_created=True)

    def prepare(self, lease: model.Lease, reservation: model.Reservation) -> None:
        return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


NAMES = [f't{number}' for number in range(10)]


@pytest.mark.parametrize('dry_run', [False, True])
def test_request_stops_between_its_items(world: World, clock: Clock, dry_run: bool) -> None:
    things = world.things
    things.reserve = clock.slow(things.reserve)  # type: ignore[method-assign]
    body = {'name': 'x', 'start_date': 'now', 'end_date': '2082-12-01 14:00'}
    body['reservations'] = [world.wanted(each) for each in NAMES]  # type: ignore[assignment]
    operations = world.operations
    ask = operations.check_lease if dry_run else operations.creator.create_lease
    with (
        concurrency.deadline(clock.now + 3),
        pytest.raises(exceptions.ServiceUnavailable, match=STOPPED),
    ):
        ask(user(), body)
    assert sorted(things.state) == NAMES[:3]
    assert world.trusts.made == 0


def test_request_stops_while_it_is_compared_with_what_the_lease_has(
    world: World, clock: Clock
) -> None:
    lease_id = world.create(*NAMES)
    things, compared = world.things, []

    def request_keys(_lease_id: str, values: Mapping[str, Any]) -> list[Any]:
        compared.append(values['resource_id'])
        clock.now += 1
        return [values['resource_id']]

    things.request_keys = request_keys  # type: ignore[method-assign,assignment]
    with (
        concurrency.deadline(clock.now + 3),
        pytest.raises(exceptions.ServiceUnavailable, match=STOPPED),
    ):
        world.create(*NAMES, id=lease_id)
    assert compared == NAMES[:3]


def test_request_that_has_created_something_is_completed(world: World, clock: Clock) -> None:
    crafts = Crafts()
    world.plugins[crafts.resource_type] = crafts
    crafts.make = clock.slow(crafts.make)  # type: ignore[method-assign]
    with concurrency.deadline(clock.now + 1):
        lease_id = world.create(*NAMES[:3], start='2082-12-01 13:00')
    assert len(world.lease(lease_id).live) == 3


def test_request_stops_before_it_creates_anything(
    world: World, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    crafts = Crafts()
    world.plugins[crafts.resource_type] = crafts
    quota = world.operations.quota
    monkeypatch.setattr(quota, 'check_limits', clock.slow(quota.check_limits))
    with (
        concurrency.deadline(clock.now + 1),
        pytest.raises(exceptions.ServiceUnavailable, match=STOPPED),
    ):
        world.create(*NAMES[:3], start='2082-12-01 13:00')
    assert (crafts.made, world.trusts.made) == ([], 0)


def test_search_through_the_calendar_stops(clock: Clock) -> None:
    budget = SearchBudget(1000)
    with concurrency.deadline(clock.now + 1):
        assert budget.spend()
        clock.now += 1
        with pytest.raises(exceptions.ServiceUnavailable, match=STOPPED):
            budget.spend()


def test_search_for_room_on_the_hosts_of_all_users_stops(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FreeCapacity, 'take', clock.slow(FreeCapacity.take))
    server = RunningServer(id='server', amounts={'VCPU': 2})
    claims = [FutureDemand(start=n, end=n + 9, servers=[server]) for n in range(100)]
    forecast = Forecast([TargetHost(name='host1', free={'VCPU': 1})], claims=claims)
    with (
        concurrency.deadline(clock.now + 3),
        pytest.raises(exceptions.ServiceUnavailable, match=STOPPED),
    ):
        list(forecast.windows([server], 5, 0, 1000))


def test_work_that_must_be_completed_has_no_deadline(clock: Clock) -> None:
    with concurrency.deadline(clock.now):
        with concurrency.deadline(None):
            concurrency.check_deadline()
        with pytest.raises(exceptions.ServiceUnavailable, match=STOPPED):
            concurrency.check_deadline()
    concurrency.check_deadline()


def test_request_that_waits_for_its_turn_too_long_does_not_begin() -> None:
    limit = concurrency.ReservingLimit(1)
    values = {'resource_type': 'virtual:instance'}
    with (
        concurrency.deadline(time.monotonic() - 1),
        pytest.raises(exceptions.ServiceUnavailable, match=STOPPED),
        limit.turn(user(), values),
    ):
        pytest.fail('it has begun')
    with limit.turn(user(), values):
        pass
