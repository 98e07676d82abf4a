# SPDX-License-Identifier: Apache-2.0
"""Tokens are asked for before the starts, and what Keystone refuses is told once."""

import dataclasses
import datetime
import random
import types
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from climate_common import dates
from climate_core import exceptions, test_hooks
from climate_core.cloud import errors
from climate_core.db import events, listing, tables
from climate_core.engine import start_preparation
from climate_core.engine.start_preparation import StartPreparation
from climate_core.lease.events import start
from climate_core.lease.events.start import START_WARNING
from tests.support.world import TYPE, World, user

WINDOW, IDLE = 60.0, 600.0
GONE = errors.TrustRejected('The trust is no more.')


class Asked:
    """What Keystone was asked for, and what it answers."""

    def __init__(self) -> None:
        self.all: list[tuple[str, float]] = []
        self.answers: dict[str, Any] = {}

    def prepare(self, trust_id: str, seconds: float) -> bool:
        self.all.append((trust_id, seconds))
        answer = self.answers.get(trust_id, True)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    @property
    def trusts(self) -> list[str]:
        return [trust_id for trust_id, _ in self.all]


@dataclasses.dataclass
class Stage:
    """A worker whose time goes on when it is told to."""

    world: World
    asked: Asked
    monotonic: float = 0.0

    def __post_init__(self) -> None:
        self.worker = self.new()

    def new(self) -> StartPreparation:
        world = self.world
        return StartPreparation(
            world.database,
            world.clock,
            self.asked,  # type: ignore[arg-type]
            [TYPE],
            WINDOW,
            IDLE,
            lambda: self.monotonic,
        )

    def forward(self, seconds: float) -> None:
        self.monotonic += seconds
        if self.world.time is not None:
            self.world.time.forward(seconds)

    def go_on(self, seconds: float) -> None:
        """Look whenever the worker wants to, for so long."""
        until = self.monotonic + seconds
        while True:
            pause = self.worker.poll()
            assert pause is not None
            if self.monotonic + pause > until:
                break
            self.forward(pause)
        self.forward(until - self.monotonic)

    def lease(self, seconds: float, thing: str = 'a', **values: Any) -> str:
        """Return the id of a lease that starts in so many seconds."""
        now = self.world.clock.now()
        start = now + datetime.timedelta(seconds=seconds)
        end = start + datetime.timedelta(hours=1)
        dated = {'start': dates.serialize(start) + 'Z', 'end': dates.serialize(end) + 'Z'}
        return self.world.create(thing, **dated, **values)

    def entries(self, lease_id: str) -> list[tuple[str, str, str | None]]:
        found = self.world.database.read(listing.read_history_page, lease_id)[0]
        return [(each.action, each.result, each.reason) for _, each in found]


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def stage(world: World, asked: Asked) -> Stage:
    return Stage(world, asked)


@pytest.fixture
def any_stage(any_world: World, asked: Asked) -> Stage:
    """Return the same on each database, by whose clock the starts are due."""
    return Stage(any_world, asked)


@pytest.fixture(autouse=True)
def first_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have chance choose the first of all moments, unless a test chooses."""
    monkeypatch.setattr(random, 'uniform', lambda least, _most: least)


def test_token_is_asked_for_within_the_window(stage: Stage, asked: Asked) -> None:
    stage.lease(300)
    stage.go_on(239)
    assert asked.all == []
    stage.go_on(2)
    assert asked.all == [('trust1', WINDOW + WINDOW)]
    stage.go_on(300)
    assert asked.trusts == ['trust1']


def test_chance_chooses_the_moment_in_the_first_half(
    stage: Stage, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans: list[tuple[float, float]] = []

    def last(least: float, most: float) -> float:
        spans.append((least, most))
        return most

    monkeypatch.setattr(random, 'uniform', last)
    stage.worker.expect(stage.world.lease(stage.lease(300)))
    stage.worker.expect(stage.world.lease(stage.lease(20, 'b')))
    assert spans == [(240.0, 270.0), (0.0, 10.0)]
    stage.go_on(20)
    assert asked.trusts == ['trust2']


def test_lease_of_this_manager_is_prepared_without_the_database(
    stage: Stage, asked: Asked
) -> None:
    stage.go_on(5)
    leases = [stage.world.lease(stage.lease(10, thing)) for thing in 'ab']
    for each in leases:
        stage.worker.expect(each)
    assert stage.world.statements(lambda: stage.go_on(3)) == []
    assert sorted(asked.trusts) == ['trust1', 'trust2']


def test_lease_that_starts_at_once_is_not_prepared(stage: Stage, asked: Asked) -> None:
    stage.worker.expect(stage.world.lease(stage.lease(1)))
    stage.worker.expect(stage.world.lease(stage.world.create('b')))
    stage.go_on(30)
    assert asked.all == []


def test_what_needs_no_token_is_not_prepared(world: World, asked: Asked) -> None:
    stage = Stage(world, asked)
    lease = world.lease(stage.lease(30))
    keystone: Any = asked
    stage.worker = StartPreparation(
        world.database, world.clock, keystone, ['other'], WINDOW, IDLE, lambda: stage.monotonic
    )
    stage.worker.expect(lease)
    stage.go_on(40)
    assert asked.all == []


def test_idle_minutes_cost_no_statement(stage: Stage) -> None:
    assert len(stage.world.statements(lambda: stage.go_on(1))) == 1
    assert stage.world.statements(lambda: stage.go_on(IDLE - 10)) == []
    assert len(stage.world.statements(lambda: stage.go_on(20))) == 1


def test_many_leases_cost_one_statement_and_one_token_for_each_owner(
    any_stage: Stage, asked: Asked
) -> None:
    for number in range(6):
        owner = user(name=f'user{number % 2}', own_token=True)
        any_stage.lease(50 + number, f'thing{number}', context=owner)
    any_stage.worker.poll()
    any_stage.forward(1)
    assert len(any_stage.world.statements(lambda: any_stage.go_on(5))) == 0
    assert asked.trusts == ['trust1', 'trust2']


def test_first_starts_are_prepared_first_and_one_at_a_time(any_stage: Stage, asked: Asked) -> None:
    for number in (3, 1, 2):
        any_stage.lease(40 + number, f'thing{number}')
    worker = any_stage.worker
    assert worker.poll() == 0.0
    assert asked.trusts == ['trust2']
    worker.poll()
    worker.poll()
    assert asked.trusts == ['trust2', 'trust3', 'trust1']


def test_those_that_have_a_token_keep_none_waiting(stage: Stage, asked: Asked) -> None:
    for number in range(3):
        stage.lease(40 + number, f'thing{number}')
    asked.answers = dict.fromkeys(('trust1', 'trust2'), False)
    stage.worker.poll()
    assert asked.trusts == ['trust1', 'trust2', 'trust3']


def test_only_so_many_owners_are_kept(
    stage: Stage, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_preparation, '_MAX_OWNERS', 2)
    stage.go_on(5)
    for seconds in (50, 40, 30):
        stage.worker.expect(stage.world.lease(stage.lease(seconds, f'thing{seconds}')))
    stage.go_on(20)
    assert asked.trusts == ['trust3', 'trust2']


def test_what_the_database_has_more_is_read_when_there_is_room(
    stage: Stage, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_preparation, '_MAX_OWNERS', 2)
    for seconds in (100, 110, 400):
        stage.lease(seconds, f'thing{seconds}')
    stage.go_on(100)
    assert asked.trusts == ['trust1', 'trust2']
    stage.go_on(260)
    assert asked.trusts == ['trust1', 'trust2', 'trust3']


def test_hints_of_others_cost_a_statement_now_and_then(stage: Stage, asked: Asked) -> None:
    stage.go_on(30)
    stage.lease(20)

    def hints() -> None:
        for _ in range(9):
            stage.worker.reread_starts()
            stage.go_on(1)

    assert len(stage.world.statements(hints)) == 1
    assert asked.trusts == ['trust1']


def test_keystone_that_is_away_is_asked_again_and_nothing_is_told(
    stage: Stage, asked: Asked
) -> None:
    asked.answers['trust1'] = exceptions.Transient('Keystone cannot be reached.')
    lease_id = stage.lease(40)
    before = stage.entries(lease_id)
    stage.go_on(20)
    assert len(asked.all) == 2
    assert stage.entries(lease_id) == before
    assert stage.world.lease(lease_id).status_reason is None
    del asked.answers['trust1']
    stage.go_on(15)
    assert len(asked.all) == 3


def test_refused_trust_is_told_once(any_stage: Stage, asked: Asked) -> None:
    asked.answers['trust1'] = GONE
    lease_id, other = any_stage.lease(40), any_stage.lease(50, 'b')
    before = any_stage.world.lease(lease_id)
    for _ in range(3):
        any_stage.worker.poll()
        any_stage.forward(WINDOW / 4)
    told = 'The start will fail: The trust is no more.'
    lease = any_stage.world.lease(lease_id)
    assert (lease.status, lease.status_reason) == ('PENDING', told)
    assert lease.events == before.events
    assert any_stage.world.told().count(START_WARNING) == 1
    (payload,) = [each for kind, each in any_stage.world.sent if kind == START_WARNING]
    assert (payload['lease_id'], payload['reason']) == (lease_id, told)
    assert any_stage.entries(lease_id)[1:] == [('trust.refused', 'failed', told[21:])]
    assert any_stage.world.lease(other).status_reason is None


def test_refused_trust_is_told_once_by_two_managers(stage: Stage, asked: Asked) -> None:
    asked.answers['trust1'] = GONE
    lease_id = stage.lease(40)
    other = stage.new()
    found: list[str] = []

    def look_meanwhile(name: str, _info: dict[str, Any]) -> None:
        if name == 'preparation.before' and not found:
            found.append(name)
            other.poll()

    test_hooks.install(look_meanwhile)
    try:
        stage.worker.poll()
    finally:
        test_hooks.install(None)
    assert found
    assert asked.trusts == ['trust1', 'trust1']
    assert stage.world.told().count(START_WARNING) == 1
    assert [each[0] for each in stage.entries(lease_id)].count('trust.refused') == 1


def test_trust_that_is_well_again_is_told(any_stage: Stage, asked: Asked) -> None:
    asked.answers['trust1'] = GONE
    lease_id = any_stage.lease(50)
    any_stage.worker.poll()
    assert any_stage.world.lease(lease_id).status_reason is not None
    del asked.answers['trust1']
    any_stage.forward(WINDOW / 4)
    any_stage.worker.poll()
    assert any_stage.world.lease(lease_id).status_reason is None
    assert any_stage.world.told()[-2:] == [START_WARNING, 'lease.update']
    assert any_stage.world.sent[-1][1]['reason'] == start.TRUST_ACCEPTED
    assert any_stage.entries(lease_id)[-1] == ('trust.accepted', 'done', None)


def test_token_that_is_kept_says_nothing_of_the_trust(stage: Stage, asked: Asked) -> None:
    """Else two managers, of which one has a token from before, would tell in turns."""
    asked.answers['trust1'] = GONE
    lease_id = stage.lease(50)
    stage.worker.poll()
    asked.answers['trust1'] = False
    stage.new().poll()
    assert len(asked.all) == 2
    assert stage.world.lease(lease_id).status_reason is not None
    assert stage.world.told()[-1] == START_WARNING


def test_webhook_of_the_lease_is_told(stage: Stage, asked: Asked) -> None:
    asked.answers['trust1'] = GONE
    hook = {'url': 'http://hook.example/', 'secret': 'x' * 32, 'events': ['lease.event.*']}
    stage.lease(50, webhook=hook)
    stage.worker.poll()
    with stage.world.database.reader() as session:
        kinds = list(session.scalars(sa.select(tables.DELIVERIES.c.event_type)))
    assert kinds == [START_WARNING]


def test_start_is_tried_all_the_same(stage: Stage, asked: Asked) -> None:
    asked.answers['trust1'] = GONE
    lease_id = stage.lease(50)
    stage.go_on(60)
    lease = stage.world.settle(lease_id)
    assert (lease.status, lease.status_reason) == ('ACTIVE', None)
    assert stage.entries(lease_id)[-1][:2] == ('event.start_lease', 'done')


@pytest.mark.parametrize('change', ['delete', 'end', 'late'])
def test_lease_that_does_not_wait_any_more_is_not_told(
    stage: Stage, asked: Asked, change: str
) -> None:
    asked.answers['trust1'] = GONE
    lease_id = stage.lease(50)
    act: dict[str, Callable[[], Any]] = {
        'delete': lambda: stage.world.delete(lease_id),
        'end': lambda: stage.world.end(lease_id),
        'late': lambda: stage.forward(50),
    }

    def change_meanwhile(name: str, _info: dict[str, Any]) -> None:
        if name == 'preparation.before':
            act[change]()
            stage.world.run_until_idle()

    test_hooks.install(change_meanwhile)
    try:
        stage.worker.poll()
    finally:
        test_hooks.install(None)
    assert asked.trusts == ['trust1']
    assert START_WARNING not in stage.world.told()


def test_trusts_of_starts_are_read_in_their_order(any_stage: Stage) -> None:
    for seconds, owner in ((500, 'one'), (30, 'two'), (90, 'one'), (5000, 'three')):
        any_stage.lease(seconds, f'at{seconds}', context=user(name=owner, own_token=True))
    found = any_stage.world.database.read(events.read_upcoming_starts, [TYPE], IDLE, 10)
    assert [each.trust_id for each in found] == ['trust2', 'trust1']
    assert 0 < found[0].seconds <= 30 < found[1].seconds <= 90
    assert not any(each.may_be_told for each in found)
    assert any_stage.world.database.read(events.read_upcoming_starts, ['other'], IDLE, 10) == []


def test_owner_who_has_no_place_any_more_is_left_out(
    stage: Stage, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_preparation, '_MAX_OWNERS', 2)
    monkeypatch.setattr(random, 'uniform', lambda low, _high: low)
    worker = stage.worker
    worker._read_at = 1e9
    for trust_id, left in (('near', 40.0), ('late', 50.0)):
        assert worker._plan(trust_id, left)

    def two_come(trust_id: str, seconds: float) -> bool:
        if trust_id == 'near':
            assert worker._plan('new', 20.0)
            assert worker._plan('newer', 20.0)
        return asked.prepare(trust_id, seconds) and False

    worker._cloud = types.SimpleNamespace(prepare=two_come)
    worker.poll()
    assert asked.trusts == ['near']
    worker.poll()
    assert sorted(asked.trusts) == ['near', 'new', 'newer']


def test_owner_whose_next_lease_starts_sooner_may_still_be_told(stage: Stage) -> None:
    worker = stage.worker
    assert worker._plan('trust', 600.0, may_be_told=True)
    assert worker._plan('trust', 300.0)
    assert worker._owners['trust'].may_be_told
