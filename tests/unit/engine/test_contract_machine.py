# SPDX-License-Identifier: Apache-2.0
"""Any order of requests, events, failures and deaths, on the real code and a real database.

Managers die at points of the engine and before any SQL statement, work on what they read long
ago, and are disturbed between two of their steps. :mod:`contract_invariants` is what must be true
after each step; at the end everything is freed, given back and told.

``CLIMATE_EXAMPLES=2000 pytest tests/unit/engine/test_contract_machine.py`` looks for new orders.
"""

import functools
import itertools
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.db import events
from climate_core.lease import model
from climate_core.operations import forecasting
from climate_core.operations.leases import LeaseOperations
from tests.support.world import user
from tests.unit.engine.contract_invariants import (
    Invariants,
    in_the_order_of_the_ranks,
    woken_while_its_lease_runs,
)
from tests.unit.engine.contract_requests import HOOKS, MINUTES, REQUESTS, Asker
from tests.unit.engine.contract_things import ANSWERS, HOST, MADE
from tests.unit.engine.contract_world import HOLDING, THINGS, Boundless, ContractWorld, Killed

#: How many examples to try; they are always the same ones unless it is set.
EXAMPLES = os.environ.get('CLIMATE_EXAMPLES')

ENGINE_POINTS = ('event.claimed', 'remote.before', 'remote.after', 'finish.before', 'finish.after')

_things = st.lists(st.sampled_from(THINGS), max_size=3)
_lengths = st.sampled_from([10, 60, 90, 180, 1, 0])
_extras = st.fixed_dictionaries(
    {},
    optional={
        'start_policy': st.sampled_from(['manual', 'auto']),
        'before_start': st.lists(st.sampled_from([0, 30, 600, 7200]), max_size=2),
        'note': MINUTES,
        'webhook': st.sampled_from(HOOKS),
    },
)
_seconds = st.sampled_from([1, 5, 31, 61, 600, 3600, 10800])
# Mostly nothing: what never gets far finds little.
_points = st.sampled_from([None] * 8 + [*ENGINE_POINTS])
_deaths = st.sampled_from([None] * 24 + [*range(13)])
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
#: What is tried most between two steps of a manager that loses its claim.
_ENDS = ('delete', 'end', 'remove', 'move', 'join', 'start')


@functools.cache
def _world() -> ContractWorld:
    return ContractWorld()


class Contract(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = _world()
        self.world.reset()
        # In the order in which they are made, so that an example is the same each time.
        ids = (str(uuid.UUID(int=n)) for n in itertools.count(1000))
        self.same_ids = mock.patch.object(uuidutils, 'generate_uuid', ids.__next__)
        self.same_ids.start()
        self.room = mock.patch.dict(forecasting._ROOMS, {MADE: Boundless})
        self.room.start()
        self.time = self.world.ledger.time
        self.judge = Invariants(self.world)
        self.leases: list[str] = []
        self.made: list[tuple[dict[str, Any], str]] = []
        self.seen: list[events.Due] = []
        self.disturbed: set[str] = set()
        self.judged = 0

    # What users do.

    @initialize(things=st.integers(1, 3), shape=st.sampled_from(sorted(SHAPES)), extras=_extras)
    def begin(self, things: int, shape: str, extras: Mapping[str, Any]) -> None:
        """Have a lease that is somewhere on its way, with things that nobody else wants."""
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
                self._ask(LeaseOperations.remove_reservation, self.leases[0], chosen)
                continue
            kinds = [model.END] if answer == 'end' else None
            self.world.ledger.mood = ['transient' if kinds else answer] * things
            for due in self.world.due():
                if kinds is None or due.event_type in kinds:
                    self.world.executor.run(due)
        self.world.ledger.mood = []

    @rule(
        things=_things,
        start=st.none() | MINUTES,
        length=_lengths,
        known_by=st.sampled_from([None, 'id', 'idempotency_key']),
        extras=_extras,
        death=_deaths,
    )
    def create(
        self,
        things: list[str],
        start: int | None,
        length: int,
        known_by: str | None,
        extras: Mapping[str, Any],
        death: int | None,
    ) -> None:
        values = {
            'name': f'lease{len(self.made)}',
            'start_date': 'now' if start is None else self.world.text(start),
            'end_date': self.world.text((start or 0) + length),
            'reservations': [self.world.wanted(t) for t in things],
            **extras,
        }
        if known_by:
            values[known_by] = str(uuid.UUID(int=len(self.made)))
        if 'note' in extras:
            note = values.pop('note')
            values['events'] = [{'event_type': 'note', 'time': self.world.text(note)}]
        self.made.append((values, self._create(values, death) or ''))

    @rule(
        kind=st.sampled_from(['retry', 'retry', 'best_effort', 'scheduled']),
        start=st.none() | MINUTES,
        length=_lengths,
        is_fixed=st.booleans(),
        death=_deaths,
    )
    def book_a_room(
        self, kind: str, start: int | None, length: int, is_fixed: bool, death: int | None
    ) -> None:
        """Have a lease that waits if all rooms are taken, or for which rooms are emptied."""
        end = {'end_date': self.world.text((start or 0) + length)}
        values = {
            'name': f'lease{len(self.made)}',
            'start_date': 'now' if start is None else self.world.text(start),
            **(end if is_fixed else {'duration': length * 60}),
            'kind': kind,
            'reservations': [{'resource_type': HOST, 'resource_id': self.world.fresh()}],
        }
        self.made.append((values, self._create(values, death) or ''))

    @rule(
        kind=st.sampled_from(['immediate', 'retry', 'retry', 'scheduled']),
        count=st.integers(1, 2),
        start=st.none() | MINUTES,
        length=_lengths,
        is_fixed=st.booleans(),
        death=_deaths,
    )
    def have_things_made(
        self,
        kind: str,
        count: int,
        start: int | None,
        length: int,
        is_fixed: bool,
        death: int | None,
    ) -> None:
        """Have a lease for which things are made; of the kind retry it may wait again."""
        self._have_things_made(kind, count, start, length, is_fixed, death)

    def _have_things_made(
        self,
        kind: str,
        count: int,
        start: int | None,
        length: int,
        is_fixed: bool,
        death: int | None,
    ) -> None:
        end = {'end_date': self.world.text((start or 0) + length)}
        wanted = {'resource_type': MADE, 'name': f'made{len(self.made)}', 'count': count}
        values = {
            'name': f'lease{len(self.made)}',
            'start_date': 'now' if start is None else self.world.text(start),
            **(end if is_fixed else {'duration': length * 60}),
            'kind': kind,
            'reservations': [wanted],
        }
        self.made.append((values, self._create(values, death) or ''))

    @precondition(lambda self: self.made)
    @rule(data=st.data(), death=_deaths)
    def create_again(self, data: st.DataObject, death: int | None) -> None:
        """As a client does that got no answer."""
        place = data.draw(st.integers(0, len(self.made) - 1))
        values, was = self.made[place]
        lease_id = self._create(values, death)
        if lease_id and was and {'id', 'idempotency_key'} & values.keys():
            assert lease_id == was
        if lease_id:
            self.made[place] = values, lease_id

    def _create(self, values: dict[str, Any], death: int | None) -> str | None:
        found: str | None = self._ask(LeaseOperations.create_lease, values, death=death)
        if found and found not in self.leases:
            self.leases.append(found)
        return found

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def request(self, data: st.DataObject) -> None:
        self._request(self._some_lease(data), data, None)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), kind=st.sampled_from(['join', 'remove', 'move']))
    def change_what_goes_on(self, data: st.DataObject, kind: str) -> None:
        self._request(self._some_lease(data), data, None, kind)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), kind=st.sampled_from(['end', 'delete', 'start']))
    def change_how_it_goes_on(self, data: st.DataObject, kind: str) -> None:
        self._request(self._some_lease(data), data, None, kind)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), death=_deaths)
    def request_while_managers_die(self, data: st.DataObject, death: int | None) -> None:
        self._request(self._some_lease(data), data, death)

    def _some_lease(self, data: st.DataObject) -> str:
        """Draw a lease; mostly one that is not over."""
        going = [row['id'] for row in self.judge.rows['leases'] if row['status'] != 'TERMINATED']
        return data.draw(st.sampled_from(going * 3 + self.leases))

    def _request(
        self, lease_id: str, data: st.DataObject, death: int | None, kind: str | None = None
    ) -> None:
        kind = kind or data.draw(st.sampled_from(sorted(REQUESTS)))
        REQUESTS[kind](
            Asker(self.world, lease_id, data, functools.partial(self._ask, death=death))
        )

    # What happens by itself.

    @rule(seconds=_seconds)
    def time_passes(self, seconds: int) -> None:
        self.time.forward(seconds=seconds)

    @rule()
    def time_passes_until_something_is_due(self) -> None:
        _, rows = self.world.database.read(events.upcoming, 1)
        if rows:
            self.time.now = max(self.time.now, rows[0].next_at)

    @rule()
    def a_manager_looks(self) -> None:
        """What it sees may be old when it works on it."""
        self.seen += self.world.due()

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        hurry=st.booleans(),
        mood=_moods,
        killed_at=_points,
        disturbed_at=_points,
        death=_deaths,
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
        others=st.sampled_from(['work', 'work', 'claim']),
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
        """It stops on its way; its user or another manager is faster; then it goes on."""
        self.time_passes_until_something_is_due()
        choice = self.world.due()
        if not choice:
            return
        due = data.draw(st.sampled_from(choice))

        def meanwhile() -> None:
            self.disturbed.add(due.lease_id)
            if request is not None:
                self._request(due.lease_id, data, None, request)
            self.time.forward(seconds=seconds)
            rest, self.world.ledger.mood = self.world.ledger.mood, []
            for row in self.world.due():
                if others == 'work':
                    self.world.executor.run(row)
                elif self.world.claim(row):
                    break
            self.world.ledger.mood = rest

        self.world.ledger.mood = mood
        self.world.arm(None, None, point, meanwhile)
        self._survive(self.world.executor.run, due)

    @rule(mood=_moods)
    def all_that_is_due_is_done(self, mood: list[str]) -> None:
        self.time_passes_until_something_is_due()
        self.world.ledger.mood = mood
        for due in self.world.due():
            self._survive(self.world.executor.run, due)

    @rule(data=st.data(), kind=st.sampled_from(['retry', 'retry', 'immediate']), death=_deaths)
    def others_are_faster(self, data: st.DataObject, kind: str, death: int | None) -> None:
        """What is made for a new lease finds no room; its manager may die of it."""
        self._have_things_made(kind, 2, None, 60, False, None)
        for due in self.world.due():
            if due.lease_id == self.leases[-1]:
                self.world.ledger.mood = ['no_room']
                self.world.arm(data.draw(_points), death)
                self._survive(self.world.executor.run, due)

    def _disturb(self, lease_id: str, data: st.DataObject) -> None:
        """Between two steps of a manager: a request, or its claim expires and another goes on."""
        self.disturbed.add(lease_id)
        mood, self.world.ledger.mood = self.world.ledger.mood, []
        if data.draw(st.booleans()):
            self._request(lease_id, data, None)
        if data.draw(st.booleans()):
            self.time.forward(seconds=data.draw(_seconds))
            for row in self.world.due():
                self.world.executor.run(row)
        self.world.ledger.mood = mood

    @rule(killed_at=st.none() | st.sampled_from(['outbox.before', 'outbox.after']), death=_deaths)
    def a_manager_tells(self, killed_at: str | None, death: int | None) -> None:
        self.world.arm(killed_at, death)
        self._survive(self.world.publisher.publish)

    # How it is judged.

    def _ask(
        self,
        function: Callable[..., Any],
        *args: Any,
        death: int | None = None,
        must: bool = False,
    ) -> Any:
        """Ask for something; what is refused has changed nothing.

        :param must: it must not be refused
        :returns: the answer, True for none; None if it was refused or the manager died
        """
        before, trusts = self.world.rows(), set(self.world.trusts.present)
        if death is not None:
            self.world.arm(statements=death)
        try:
            answer = function(self.world.operations, user(), *args)
        except (exceptions.ClimateError, Killed) as exc:
            answer = exc
        finally:
            if death is not None:
                self.world.revive()
        if isinstance(answer, exceptions.ClimateError):
            assert not must, answer
            assert self.world.rows() == before
            assert self.world.trusts.present == trusts
        if isinstance(answer, BaseException):
            return None
        self.judge.what_a_user_changed_is_a_new_generation(before)
        return True if answer is None else answer

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
            self.room.stop()
            self.same_ids.stop()

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
        self.judge.everything_is_told()


TestContract = Contract.TestCase
TestContract.settings = settings(
    max_examples=int(EXAMPLES or 150),
    stateful_step_count=30,
    derandomize=EXAMPLES is None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
