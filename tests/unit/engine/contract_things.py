# SPDX-License-Identifier: Apache-2.0
"""The resources of the contract's state machine: plugins over one ledger of what was done."""

import dataclasses
import datetime
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils

from climate_common import resource_types
from climate_core import exceptions
from climate_core.calendar.model import Demand
from climate_core.context import RequestContext
from climate_core.engine import plugin_calls
from climate_core.lease import model
from climate_core.plugins.base import (
    CalendarBacked,
    FastStarting,
    PollAgain,
    Preemptible,
    ReservedResource,
    Specified,
)
from tests.support.world import TYPE, Things, Time

Row = Mapping[str, Any]
Rows = Mapping[str, list[Row]]

BASE, PARENT = 'test:base', 'test:parent'
#: Servers are things that are made for a lease; hosts are promised by the calendar.
MADE, HOST = resource_types.SERVER, resource_types.HOST
#: Type -> rank at the start, rank at the end.
RANKS = {
    HOST: (Things.rank + 10, Things.rank + 10),
    PARENT: (Things.rank - 15, Things.rank + 80),
    BASE: (Things.rank - 10, Things.rank - 10),
    MADE: (Things.rank, Things.rank),
    TYPE: (Things.rank, Things.rank),
}

#: So long before the start of a scheduled lease things are made for it.
LEAD = datetime.timedelta(minutes=5)

#: Answers of a thing: done; on its way; done, but the answer was lost; away; never; no room for
#: it, which is as done where none is looked for; a bug.
ANSWERS = ('done', 'wait', 'lost', 'transient', 'permanent', 'no_room', 'bug')


@dataclasses.dataclass(frozen=True)
class Effect:
    """Something that was done to a thing.

    :param lease: the lease as the manager knew it
    :param now: as the lease was in the database at this moment
    :param reservation: as the manager knew it
    :param held: as the reservation was in the database at this moment
    :param unsettled: what of a rank before its own was not done yet, by the ids of reservations
    """

    action: str
    thing: str
    time: datetime.datetime
    lease: model.Lease
    now: Row
    reservation: model.Reservation
    held: Row
    unsettled: frozenset[str]


class Ledger(Things, Preemptible):
    """Things that sleep, are awake or gone. What is gone does not come back.

    ``mood`` holds the next answers; without any, everything works.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mood: list[str] = []
        self.effects: list[Effect] = []
        self.hopeless: set[str] = set()
        self.look: Callable[[str, str], tuple[Row, Row]] = lambda *_: ({}, {})
        self.time = Time()

    def forget(self) -> None:
        self.state.clear()
        self.mood.clear()
        self.effects.clear()
        self.hopeless.clear()

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        thing = values['resource_id']
        state = self.state.setdefault(thing, 'asleep')
        if state == 'gone':
            raise exceptions.ResourceNotFound('It is gone.', field='resource_id')
        if state == 'awake':
            raise exceptions.BadRequest('It is awake already.', field='resource_id')
        return ReservedResource(thing, {'colour': values.get('colour', 'grey')}, {'servers': 1})

    def start(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._answer('wake', 'awake', lease, reservation)

    def is_started(self, lease: model.Lease, reservation: model.Reservation) -> bool:
        return self.state[reservation.resource_id] == 'awake'

    def end(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._answer('end', 'gone', lease, reservation)

    def preempt(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._answer('preempt', 'asleep', lease, reservation)

    def done(self, thing: str) -> list[str]:
        """Return what took effect on a thing, in order."""
        return [e.action for e in self.effects if e.thing == thing]

    def _answer(
        self, action: str, state: str, lease: model.Lease, reservation: model.Reservation
    ) -> PollAgain | None:
        thing = reservation.resource_id
        answer = self.mood.pop(0) if self.mood else 'done'
        if answer == 'wait':
            return PollAgain(5.0)
        if answer == 'transient':
            raise exceptions.Transient('It is away.')
        late = (lease.end_date - self.time()).total_seconds() < plugin_calls.TOO_LATE_SECONDS
        if late or answer in ('permanent', 'bug') or self.state[thing] == 'gone':
            # If this is a wake-up, it is the last one; or it works.
            self.hopeless.add(reservation.id)
        if answer == 'permanent':
            raise exceptions.Permanent('It never will.')
        if answer == 'bug':
            raise KeyError(thing)
        if self.state[thing] == 'gone' and state == 'awake':
            raise exceptions.Permanent('It is gone.')
        if self.state[thing] not in (state, 'gone'):
            self.state[thing] = state
            now, held = self.look(lease.id, reservation.id)
            unsettled = self._unsettled(lease, reservation, state)
            effect = Effect(action, thing, self.time(), lease, now, reservation, held, unsettled)
            self.effects.append(effect)
        if answer == 'lost':
            raise exceptions.Transient('The answer was lost.')
        return None

    def _unsettled(
        self, lease: model.Lease, reservation: model.Reservation, state: str
    ) -> frozenset[str]:
        def before(other: model.Reservation) -> bool:
            if state == 'asleep':
                return False
            theirs, own = RANKS[other.resource_type], RANKS[reservation.resource_type]
            if state == 'awake':
                asleep = self.state.get(other.resource_id) == 'asleep'
                waits = other.status == 'pending' and other.id not in self.hopeless
                return theirs[0] < own[0] and asleep and waits
            there = other.live and self.state.get(other.resource_id, 'gone') != 'gone'
            return theirs[1] > own[1] and there

        return frozenset(each.id for each in lease.reservations if before(each))


class Others(FastStarting):
    """Things of a ledger with a rank of their own."""

    title, description, schema = Things.title, Things.description, Things.schema
    changeable = Things.changeable

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        return self._ledger.reserve(context, values)

    def start(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._ledger.start(lease, reservation)

    def is_started(self, lease: model.Lease, reservation: model.Reservation) -> bool:
        return self._ledger.is_started(lease, reservation)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._ledger.end(lease, reservation)


class BaseThings(Others):
    """Things that others need: woken before them."""

    resource_type = BASE
    rank, _ = RANKS[BASE]


class ParentThings(Others):
    """Things that come first at both ends."""

    resource_type = PARENT
    rank, rank_at_end = RANKS[PARENT]


class PromisedThings(Others, CalendarBacked, Preemptible):
    """Things that the calendar promises, and for which leases wait; there are two."""

    resource_type = HOST
    rank, _ = RANKS[HOST]

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        claimed = self._ledger.reserve(context, values)
        return dataclasses.replace(claimed, unit_kind='room')

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {'servers': 1}

    def read_demand(self, reservation: model.Reservation) -> Demand:
        return Demand(
            kind='room',
            min_pieces=1,
            max_pieces=1,
            reservation_id=reservation.id,
            field='min',
            noun='rooms',
        )

    def start(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        assert reservation.allocations, 'what is not promised is not woken'
        return super().start(lease, reservation)

    def preempt(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._ledger.preempt(lease, reservation)


class MadeThings(Others, Specified, Preemptible):
    """Things that are made for their lease.

    :ivar made: they, by their reservations
    :ivar homeless: those for which there was no room
    """

    resource_type = MADE
    rank, _ = RANKS[MADE]

    def __init__(
        self, ledger: Ledger, fresh: Callable[[], str], is_held: Callable[[str], bool]
    ) -> None:
        super().__init__(ledger)
        self._fresh, self._is_held = fresh, is_held
        self.made: dict[str, str] = {}
        self.homeless: set[str] = set()

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        params = {'name': values['server']['name'], model.GROUP: uuidutils.generate_uuid()}
        first, *others = (
            ReservedResource(f'{model.UNMADE}{uuidutils.generate_uuid()}', params, {'servers': 1})
            for _ in range(values['server']['count'])
        )
        return dataclasses.replace(first, others=others)

    def make(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        claimed: ReservedResource,
    ) -> ReservedResource:
        return dataclasses.replace(claimed, prepare=True, prepare_before=LEAD)

    def request_keys(self, lease_id: str, values: Mapping[str, Any]) -> Sequence[Hashable]:
        return [values.get('server', {}).get('name')]

    def reservation_keys(self, reservation: model.Reservation) -> Sequence[Hashable]:
        return [reservation.params['name']]

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {'servers': 1}

    def prepare(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        if reservation.is_made:
            if self._ledger.mood[:1] == ['no_room']:
                # As a server for which Nova finds no host once it is asked for.
                self._ledger.mood.pop(0)
                self.homeless.add(reservation.resource_id)
                raise exceptions.NoCapacity('Others were faster.')
            return None
        answer = self._ledger.mood.pop(0) if self._ledger.mood else 'done'
        if answer == 'wait':
            return PollAgain(5.0)
        failures = {
            'transient': exceptions.Transient('It is away.'),
            'permanent': exceptions.Permanent('It never will.'),
            'no_room': exceptions.NoCapacity('Others were faster.'),
            'bug': KeyError(reservation.id),
        }
        if answer in failures:
            raise failures[answer]
        if not self._is_held(reservation.id):
            # As Nova and Cinder, which ask whether the lease has this reservation still.
            raise exceptions.Transient('There is no reservation for it any more.')
        thing = self.made.setdefault(reservation.id, '') or self._fresh()
        self.made[reservation.id] = thing
        self._ledger.state.setdefault(thing, 'asleep')
        if answer == 'lost':
            raise exceptions.Transient('The answer was lost.')
        return PollAgain(0.0, resource_id=thing)

    def rollback_prepare(
        self, lease: model.Lease, reservation: model.Reservation
    ) -> PollAgain | None:
        answer = self._ledger.mood.pop(0) if self._ledger.mood else 'done'
        if answer == 'wait':
            return PollAgain(5.0)
        if answer in ('transient', 'permanent'):
            raise exceptions.Transient('It is away.')
        self._discard(reservation)
        return None

    def start(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        assert reservation.is_made, 'what is not made is not woken'
        return super().start(lease, reservation)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        if not reservation.is_made:
            self._discard(reservation)
            return None
        return super().end(lease, reservation)

    def preempt(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._ledger.preempt(lease, reservation)

    def present(self) -> list[str]:
        """Return the things that are there, and so take room."""
        given_up = {e.thing for e in self._ledger.effects if e.action == 'preempt'}
        state = self._ledger.state
        return [
            each
            for each in self.made.values()
            if state[each] == 'awake'
            or (state[each] == 'asleep' and each not in given_up | self.homeless)
        ]

    def _discard(self, reservation: model.Reservation) -> None:
        thing = self.made.pop(reservation.id, None)
        if thing is not None:
            self._ledger.state[thing] = 'gone'
