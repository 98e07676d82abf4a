# SPDX-License-Identifier: Apache-2.0
"""What users do in the contract's state machine: they have leases made, and change them."""

import contextlib
import functools
import itertools
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from oslo_utils import uuidutils

from climate_core import exceptions
from climate_core.cloud import servers
from climate_core.operations import pool_forecast, server_preemption
from climate_core.operations.create import LeaseCreator
from climate_core.plugins.server_placement import RunningServer
from tests.support.created import get_id
from tests.support.world import TYPE, user
from tests.unit.engine.contract_invariants import Invariants
from tests.unit.engine.contract_requests import HOOKS, MINUTES, REQUESTS, Asker
from tests.unit.engine.contract_things import HOST, MADE
from tests.unit.engine.contract_world import (
    THINGS,
    Boundless,
    ContractWorld,
    FullHost,
    Killed,
)

_things = st.lists(st.sampled_from(THINGS), max_size=3)
_lengths = st.sampled_from([10, 60, 90, 180, 1, 0])
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        'start_policy': st.sampled_from(['manual', 'auto']),
        'before_start': st.lists(st.sampled_from([0, 30, 600, 7200]), max_size=2),
        'note': MINUTES,
        'webhook': st.sampled_from(HOOKS),
    },
)
# Mostly nothing: what never gets far finds little.
DEATHS = st.sampled_from([None] * 24 + [*range(13)])


def _read_servers(
    _cloud: Any, _context: Any, wanted: Mapping[str, Mapping[str, Any]]
) -> list[RunningServer]:
    return [
        RunningServer(id=f'{place}.{n}', amounts={'VCPU': 1})
        for place, each in wanted.items()
        for n in range(each['count'])
    ]


@functools.cache
def _world() -> ContractWorld:
    return ContractWorld()


class Users(RuleBasedStateMachine):
    """What they may do, in any order; each request is judged at once."""

    def __init__(self) -> None:
        super().__init__()
        self.world = _world()
        self.world.reset()
        # In the order in which they are made, so that an example is the same each time.
        ids = (str(uuid.UUID(int=n)) for n in itertools.count(1000))
        self.patches = contextlib.ExitStack()
        for patch in (
            mock.patch.object(uuidutils, 'generate_uuid', ids.__next__),
            mock.patch.dict(pool_forecast._CAPACITY_READERS, {MADE: Boundless}),
            mock.patch.object(pool_forecast, 'read_server_demands', _read_servers),
            mock.patch.object(server_preemption, 'CommonHostCapacity', FullHost),
            mock.patch.object(servers, 'get', return_value={'status': 'ACTIVE'}),
        ):
            self.patches.enter_context(patch)
        self.time = self.world.ledger.time
        self.judge = Invariants(self.world)
        self.leases: list[str] = []
        self.made: list[tuple[dict[str, Any], str]] = []

    @rule(
        things=_things,
        start=st.none() | MINUTES,
        length=_lengths,
        known_by=st.sampled_from([None, 'id', 'idempotency_key']),
        extras=EXTRAS,
        death=DEATHS,
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
        more = {**extras, 'reservations': [self.world.wanted(t) for t in things]}
        if known_by:
            more[known_by] = str(uuid.UUID(int=len(self.made)))
        if 'note' in extras:
            note = more.pop('note')
            more['events'] = [{'event_type': 'note', 'time': self.world.text(note)}]
        self._have(start, self._end(start, length), death, **more)

    @rule(
        kind=st.sampled_from(['retry', 'retry', 'best_effort', 'scheduled']),
        start=st.none() | MINUTES,
        length=_lengths,
        is_fixed=st.booleans(),
        death=DEATHS,
    )
    def book_a_room(
        self, kind: str, start: int | None, length: int, is_fixed: bool, death: int | None
    ) -> None:
        """Have a lease that waits if all rooms are taken, or for which rooms are emptied."""
        room = {'resource_type': HOST, 'resource_id': self.world.fresh()}
        end = self._end(start, length, is_fixed)
        self._have(start, end, death, kind=kind, reservations=[room])

    @rule(
        rooms=st.integers(1, 2),
        besides=st.sampled_from(['nothing', 'a thing', 'others']),
        start=st.none() | MINUTES,
        length=_lengths,
        death=DEATHS,
    )
    def book_rooms(
        self, rooms: int, besides: str, start: int | None, length: int, death: int | None
    ) -> None:
        """Have a lease of rooms that are promised, or refused.

        :param besides: it has a thing, or gives way to others
        """
        wanted = [{'resource_type': HOST, 'resource_id': self.world.fresh()} for _ in range(rooms)]
        if besides == 'a thing':
            wanted.append({'resource_type': TYPE, 'resource_id': self.world.fresh()})
        more = {'preemptible': besides == 'others', 'reservations': wanted}
        self._have(start, self._end(start, length), death, **more)

    @rule(data=st.data(), rooms=st.integers(1, 2), death=DEATHS)
    def extend_what_others_have_then(
        self, data: st.DataObject, rooms: int, death: int | None
    ) -> None:
        """Extend a lease whose rooms are promised to another one after its end."""
        self.book_rooms(rooms, 'a thing', None, 60, None)
        lease_id = self.made[-1][1]
        if lease_id:
            self.book_rooms(2, 'nothing', 60, 60, None)
            self.make_request(lease_id, data, death, 'extend')

    @rule(
        kind=st.sampled_from(['immediate', 'retry', 'retry', 'scheduled']),
        count=st.integers(1, 2),
        start=st.none() | MINUTES,
        length=_lengths,
        is_fixed=st.booleans(),
        death=DEATHS,
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
        wanted = self._to_make(count)
        end = self._end(start, length, is_fixed)
        self._have(start, end, death, kind=kind, reservations=[wanted])

    @rule(
        kind=st.sampled_from(['immediate', 'scheduled']),
        count=st.integers(1, 2),
        start=st.none() | MINUTES,
        length=_lengths,
        death=DEATHS,
    )
    def have_things_made_that_give_way(
        self, kind: str, count: int, start: int | None, length: int, death: int | None
    ) -> None:
        """Have a preemptible lease for which things are made."""
        wanted = self._to_make(count)
        more = {'kind': kind, 'preemptible': True, 'reservations': [wanted]}
        self._have(start, self._end(start, length), death, **more)

    def _to_make(self, count: int) -> dict[str, Any]:
        return {'resource_type': MADE, 'server': {'name': f'made{len(self.made)}', 'count': count}}

    @precondition(lambda self: self.made)
    @rule(data=st.data(), death=DEATHS)
    def create_again(self, data: st.DataObject, death: int | None) -> None:
        """As a client does that got no answer."""
        place = data.draw(st.integers(0, len(self.made) - 1))
        values, was = self.made[place]
        lease_id = self._create(values, death)
        if lease_id and was and {'id', 'idempotency_key'} & values.keys():
            assert lease_id == was
        if lease_id:
            self.made[place] = values, lease_id

    def _end(self, start: int | None, length: int, is_fixed: bool = True) -> dict[str, Any]:
        """Return the end of a lease, or how long it lasts once it is granted."""
        if is_fixed:
            return {'end_date': self.world.text((start or 0) + length)}
        return {'duration': length * 60}

    def _have(
        self, start: int | None, end: Mapping[str, Any], death: int | None, **more: Any
    ) -> None:
        values = {
            'name': f'lease{len(self.made)}',
            'start_date': 'now' if start is None else self.world.text(start),
            **end,
            **more,
        }
        self.made.append((values, self._create(values, death) or ''))

    def _create(self, values: dict[str, Any], death: int | None) -> str | None:
        created = self.ask(LeaseCreator.create_lease, values, death=death)
        found = created and get_id(created)
        if found and found not in self.leases:
            self.leases.append(found)
        return found

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def request(self, data: st.DataObject) -> None:
        self.make_request(self.some_lease(data), data, None)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), kind=st.sampled_from(['join', 'remove', 'move']))
    def change_what_goes_on(self, data: st.DataObject, kind: str) -> None:
        self.make_request(self.some_lease(data), data, None, kind)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), kind=st.sampled_from(['end', 'delete', 'start']))
    def change_how_it_goes_on(self, data: st.DataObject, kind: str) -> None:
        self.make_request(self.some_lease(data), data, None, kind)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), death=DEATHS)
    def request_while_managers_die(self, data: st.DataObject, death: int | None) -> None:
        self.make_request(self.some_lease(data), data, death)

    def some_lease(self, data: st.DataObject) -> str:
        """Draw a lease; mostly one that is not over."""
        going = [row['id'] for row in self.judge.rows['leases'] if row['status'] != 'TERMINATED']
        return data.draw(st.sampled_from(going * 3 + self.leases))

    def make_request(
        self, lease_id: str, data: st.DataObject, death: int | None, kind: str | None = None
    ) -> None:
        kind = kind or data.draw(st.sampled_from(sorted(REQUESTS)))
        REQUESTS[kind](Asker(self.world, lease_id, data, functools.partial(self.ask, death=death)))

    def ask(
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
            holder = self.world.operations
            if function.__qualname__.startswith(LeaseCreator.__name__):
                holder = holder.creator
            answer = function(holder, user(own_token=True), *args)
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
