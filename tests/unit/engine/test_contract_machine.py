# SPDX-License-Identifier: Apache-2.0
"""Any order of requests, events, failures and deaths, on the real code and a real database.

Managers die at points of the engine and before any SQL statement, work on what they read long
ago, and are disturbed between two of their steps. :mod:`contract_invariants` is what must be true
after each step; at the end everything is freed, given back and told.

``CLIMATE_EXAMPLES=2000 pytest tests/unit/engine/test_contract_machine.py`` looks for new orders.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from climate_core.db import events, trusts
from climate_core.lease import model
from climate_core.operations.leases import LeaseOperations
from tests.support.executor import early_polls
from tests.unit.engine.contract_invariants import (
    gave_way_when_it_was_told,
    in_the_order_of_the_ranks,
    woken_while_its_lease_runs,
)
from tests.unit.engine.contract_things import ANSWERS
from tests.unit.engine.contract_users import DEATHS, EXTRAS, Users
from tests.unit.engine.contract_world import HOLDING, ROOMS, Killed

#: How many examples to try; they are always the same ones unless it is set.
EXAMPLES = os.environ.get('CLIMATE_EXAMPLES')

ENGINE_POINTS = ('event.claimed', 'remote.before', 'remote.after', 'finish.before', 'finish.after')

_seconds = st.sampled_from([1, 5, 31, 61, 600, 3600, 10800])
# Mostly nothing: what never gets far finds little.
_points = st.sampled_from([None] * 8 + [*ENGINE_POINTS])
_moods: st.SearchStrategy[list[str]] = st.lists(st.sampled_from(ANSWERS), max_size=3)


#: How far a lease is at first: what is asked for, and what its things answer until then; when it
#: is late its end is due as well.
SHAPES: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]] = {
    'new': ({}, ()),
    'starting': ({}, ['wait', 'transient']),
    'active': ({}, ['done']),
    'error': ({}, ['permanent']),
    'waiting': ({'start_policy': 'manual'}, ['done']),
    'ending': ({}, ['done', 'late', 'transient']),
    'missed': ({}, ['wait', 'late', 'end']),
    'losing': ({}, ['wait', 'remove']),
}
#: One of all rooms, and one of things that were made, that run and give way to others.
_FILLER, _SERVERS = 'filler', 'servers'
#: What is tried most between two steps of a manager that loses its claim.
_ENDS = ('delete', 'end', 'remove', 'move', 'join', 'start')


class Contract(Users):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[events.DueEvent] = []
        self.disturbed: set[str] = set()
        self.judged = 0

    @initialize(
        things=st.integers(1, 3),
        shape=st.sampled_from([*sorted(SHAPES), _FILLER, _SERVERS]),
        extras=EXTRAS,
    )
    def begin(self, things: int, shape: str, extras: Mapping[str, Any]) -> None:
        """Have a lease that is somewhere on its way, with things that nobody else wants."""
        if shape == _FILLER:
            self.book_rooms(ROOMS, 'others', None, 180, None)
            self.world.run_until_idle()
            return
        if shape == _SERVERS:
            self.have_things_made_that_give_way('immediate', things, None, 180, None)
            self.world.run_until_idle()
            return
        given, mood = SHAPES[shape]
        values = {**{key: extras[key] for key in extras if key == 'webhook'}, **given}
        own = [self.world.fresh() for _ in range(things)]
        self.create(own, None, 90, known_by=None, extras=values, death=None)
        for answer in mood:
            if answer == 'late':
                self.time.forward(minutes=90)
                continue
            if answer == 'remove':
                chosen = self.world.lease(self.leases[0]).reservations[0].id
                self.ask(LeaseOperations.remove_reservation, self.leases[0], chosen)
                continue
            kinds = [model.END] if answer == 'end' else None
            self.world.ledger.mood = ['transient' if kinds else answer] * things
            for due in self.world.due():
                if kinds is None or due.event_type in kinds:
                    self.world.executor.run(due)
        self.world.ledger.mood = []

    # What happens by itself.

    @rule(seconds=_seconds)
    def time_passes(self, seconds: int) -> None:
        """Meanwhile managers compare the leases with the cloud."""
        self.time.forward(seconds=seconds)
        self.world.delete_retired_trusts()

    @rule()
    def time_passes_until_something_is_due(self) -> None:
        _, rows = self.world.database.read(events.read_due, 1)
        if rows:
            self.time.now = max(self.time.now, rows[0].next_at)

    @rule()
    def a_manager_looks(self) -> None:
        """Look at what is due, which may be old when it is worked on."""
        self.seen += self.world.due()

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        hurry=st.booleans(),
        mood=_moods,
        killed_at=_points,
        disturbed_at=_points,
        death=DEATHS,
    )
    def a_manager_works(
        self,
        data: st.DataObject,
        hurry: bool,
        mood: list[str],
        killed_at: str | None,
        disturbed_at: str | None,
        death: int | None,
    ) -> None:
        """On something that is due or was; it may be killed or disturbed on the way."""
        if hurry:
            self.time_passes_until_something_is_due()
        stale = bool(self.seen) and data.draw(st.booleans())
        choice = self.seen if stale else self.world.due()
        if not choice:
            return
        due = data.draw(st.sampled_from(choice))
        self.world.ledger.mood = mood

        self.world.arm(killed_at, death, disturbed_at, lambda: self._disturb(due.lease_id, data))
        self._survive(self.world.executor.run, due)

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        mood=_moods,
        point=st.sampled_from(HOLDING),
        request=st.none() | st.sampled_from(_ENDS),
        seconds=st.sampled_from([0, 61, 61, 3600]),
        others=st.sampled_from(['work', 'work', 'claim', 'tell']),
    )
    def a_manager_is_late(
        self,
        data: st.DataObject,
        mood: list[str],
        point: str,
        request: str | None,
        seconds: int,
        others: str,
    ) -> None:
        """Stop a manager on its way; a user or another manager is faster; then it goes on.

        Or what its resources have done is told, which is looked at at once and after that.
        """
        self.time_passes_until_something_is_due()
        choice = self.world.due()
        if not choice:
            return
        due = data.draw(st.sampled_from(choice))
        told: list[events.DueEvent] = []

        def meanwhile() -> None:
            self.disturbed.add(due.lease_id)
            if request is not None:
                self.make_request(due.lease_id, data, None, request)
            self.time.forward(seconds=seconds)
            rest, self.world.ledger.mood = self.world.ledger.mood, []
            told.extend(self._told_of(due.lease_id) if others == 'tell' else ())
            for row in told or self.world.due():
                if others != 'claim':
                    self.world.executor.run(row)
                elif self.world.claim(row):
                    break
            self.world.ledger.mood = rest

        self.world.ledger.mood = mood
        self.world.arm(None, None, point, meanwhile)
        self._survive(self.world.executor.run, due)
        for early in told:
            self._survive(self.world.executor.run, early)

    @rule(mood=_moods)
    def all_that_is_due_is_done(self, mood: list[str]) -> None:
        self.time_passes_until_something_is_due()
        self.world.ledger.mood = mood
        for due in self.world.due():
            self._survive(self.world.executor.run, due)

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        mood=_moods,
        answer=st.sampled_from(['wait', 'lost', 'lost']),
        killed_at=_points,
        death=DEATHS,
    )
    def a_notification_tells_that_a_thing_is_awake(
        self, data: st.DataObject, mood: list[str], answer: str, killed_at: str | None, death: int
    ) -> None:
        """Look before the time of the next look, after a try whose answer may have been lost."""
        self.world.ledger.mood = [answer]
        for due in self.world.due():
            self._survive(self.world.executor.run, due)
        for early in self._told_of(data.draw(st.sampled_from(self.leases))):
            self.world.ledger.mood = mood
            self.world.arm(killed_at, death)
            self._survive(self.world.executor.run, early)

    def _told_of(self, lease_id: str) -> list[events.DueEvent]:
        """Return what is to be looked at early when a thing of a lease tells what it has done."""
        found = early_polls(self.world.database)
        live = self.world.lease(lease_id).live[:1]
        return [early for each in live if (early := found.find_early_poll(*each.key)) is not None]

    @rule(data=st.data(), kind=st.sampled_from(['retry', 'retry', 'immediate']), death=DEATHS)
    def others_are_faster(self, data: st.DataObject, kind: str, death: int | None) -> None:
        """Have no room for what is made for a new lease; its manager may die of it."""
        self.have_things_made(kind, 2, None, 60, False, None)
        for due in self.world.due():
            if due.lease_id == self.leases[-1]:
                self.world.ledger.mood = ['no_room']
                self.world.arm(data.draw(_points), death)
                self._survive(self.world.executor.run, due)

    @precondition(lambda self: self._fillers())
    @rule(rooms=st.integers(1, ROOMS), mood=_moods, killed_at=_points, death=DEATHS)
    def others_need_the_rooms(
        self, rooms: int, mood: list[str], killed_at: str | None, death: int | None
    ) -> None:
        """Give a lease that gives way its notice; then a manager that works on it may die."""
        fillers = self._fillers()
        self.book_rooms(rooms, 'nothing', None, 60, None)
        self._give_way(fillers, mood, killed_at, death)

    @precondition(lambda self: self._fillers())
    @rule(count=st.integers(1, 2), mood=_moods, killed_at=_points, death=DEATHS)
    def others_need_the_room_of_servers(
        self, count: int, mood: list[str], killed_at: str | None, death: int | None
    ) -> None:
        """Find no room for what was made for a lease, so that others give way to it."""
        fillers, before = self._fillers(), len(self.leases)
        self.have_things_made('immediate', count, None, 60, True, None)
        for answer in ('done', 'no_room') if len(self.leases) > before else ():
            for due in self.world.due():
                if due.lease_id == self.leases[-1]:
                    self.world.ledger.mood = [answer]
                    self._survive(self.world.executor.run, due)
        self._give_way(fillers, mood, killed_at, death)

    def _give_way(
        self, fillers: set[str], mood: list[str], killed_at: str | None, death: int | None
    ) -> None:
        """Let the notice of leases pass, and work on them."""
        self.time.forward(seconds=self.world.conf.queue.preemption_notice + 1)
        for due in self.world.due():
            if due.lease_id in fillers:
                self.world.ledger.mood = list(mood)
                self.world.arm(killed_at, death)
                self._survive(self.world.executor.run, due)

    def _fillers(self) -> set[str]:
        """Return the leases that run and give way to others."""
        rows = self.judge.rows['leases']
        return {each['id'] for each in rows if each['preemptible'] and each['status'] == 'ACTIVE'}

    def _disturb(self, lease_id: str, data: st.DataObject) -> None:
        """Between two steps of a manager: a request, or its claim expires and another goes on."""
        self.disturbed.add(lease_id)
        mood, self.world.ledger.mood = self.world.ledger.mood, []
        if data.draw(st.booleans()):
            self.make_request(lease_id, data, None)
        if data.draw(st.booleans()):
            self.time.forward(seconds=data.draw(_seconds))
            for row in self.world.due():
                self.world.executor.run(row)
        self.world.ledger.mood = mood

    @rule(killed_at=st.none() | st.sampled_from(['outbox.before', 'outbox.after']), death=DEATHS)
    def a_manager_tells(self, killed_at: str | None, death: int | None) -> None:
        self.world.arm(killed_at, death)
        self._survive(self.world.publisher.publish)

    # How it is judged.

    def _survive(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            function(*args)
        except Killed:
            pass
        finally:
            self.world.revive()
            self.world.ledger.mood = []
        if self.world.when_lost is not None:
            was, self.world.when_lost = self.world.when_lost, None
            assert self.world.rows() == was, 'It wrote though its claim was lost.'

    @invariant()
    def check(self) -> None:
        self.judge.check_all()
        for effect in self.world.ledger.effects[self.judged :]:
            if effect.action == 'end':
                self.judge.freed_when_it_is_time(effect)
            elif effect.action == 'preempt':
                gave_way_when_it_was_told(effect)
            else:
                woken_while_its_lease_runs(effect, effect.lease.id in self.disturbed)
            in_the_order_of_the_ranks(effect)
        self.judged = len(self.world.ledger.effects)
        self.disturbed.clear()

    def teardown(self) -> None:
        """With managers that live and a cloud that works, everything comes to its end."""
        try:
            self._come_to_the_end()
        finally:
            self.patches.close()

    def _come_to_the_end(self) -> None:
        self.time.forward(days=1)
        for _ in range(10):
            self.world.run_until_idle()
            self.world.told()
            self.time.forward(minutes=10)
        # What waited is tried for the last time by now, and stays as long as it would have lasted.
        for _ in range(8):
            self.time.forward(hours=1)
            self.world.run_until_idle()
            self.world.told()
        self.check()
        self.judge.everything_is_freed()
        # What was left by a manager that died is retired first.
        self.time.forward(seconds=trusts.RETAIN_SECONDS)
        self.world.delete_retired_trusts()
        self.time.forward(seconds=trusts.GRACE_SECONDS)
        self.world.delete_retired_trusts()
        self.judge.no_trust_is_kept_for_a_later_lease()
        self.judge.everything_is_told()


def test_the_machine_has_servers_give_way_and_run_again() -> None:
    machine = Contract()
    try:
        machine.begin(2, _SERVERS, {})
        machine.check()
        machine.others_need_the_room_of_servers(1, [], None, None)
        machine.check()
        world, (mine, other) = machine.world, machine.leases
        assert [world.lease(each).status for each in (mine, other)] == ['WAITING', 'WAITING']
        ours = [each.resource_id for each in world.lease(mine).live]
        assert [world.ledger.done(each) for each in ours] == [['wake', 'preempt']] * 2
        for _ in range(10):
            world.run_until_idle(minutes=1)
            machine.check()
        assert [world.lease(each).status for each in (mine, other)] == ['ACTIVE', 'ACTIVE']
        assert [world.ledger.done(each) for each in ours] == [['wake', 'preempt', 'wake']] * 2
    finally:
        machine.teardown()


TestContract = Contract.TestCase
TestContract.settings = settings(
    max_examples=int(EXAMPLES or 100),
    stateful_step_count=30,
    derandomize=EXAMPLES is None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
