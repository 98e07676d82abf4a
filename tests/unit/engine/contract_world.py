# SPDX-License-Identifier: Apache-2.0
"""The world of the contract's state machine: managers that die, things that keep a ledger."""

import dataclasses
import datetime
import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import orm

from climate_common import resource_types
from climate_core import exceptions, test_points
from climate_core.calendar.admission import Calendar
from climate_core.calendar.emptying import RunningServer, TargetHost
from climate_core.calendar.forecast import Nouns
from climate_core.calendar.model import Demand, ReservationDemand
from climate_core.context import RequestContext
from climate_core.db import events, tables
from climate_core.engine import retry
from climate_core.lease import changes, model, states
from climate_core.operations.draft import Draft
from climate_core.plugins.base import Claimed, ResourcePlugin, Wait
from tests.support.world import NOON, TYPE, Things, Time, World

Row = Mapping[str, Any]
Rows = Mapping[str, list[Row]]

BASE, PARENT, MADE, HOST = 'test:base', 'test:parent', 'test:made', resource_types.HOST
#: Type -> rank at the start, rank at the end.
RANKS = {
    HOST: (Things.rank + 10, Things.rank + 10),
    PARENT: (Things.rank - 15, Things.rank + 80),
    BASE: (Things.rank - 10, Things.rank - 10),
    MADE: (Things.rank, Things.rank),
    TYPE: (Things.rank, Things.rank),
}

#: So many rooms there are for all leases.
ROOMS = 2
ROOM = {
    'kind': 'room',
    'pool': 'default',
    'available': True,
    'capacity': {},
    'lanes': 1,
    'properties': {},
    'generation': 0,
    'changed_at': NOON,
}
#: So long rooms may be emptied for a lease.
ROOM_TIMEOUT = datetime.timedelta(minutes=10)
#: So long before the start of a scheduled lease things are made for it.
LEAD = datetime.timedelta(minutes=5)

#: What several leases want; there is more of which each is wanted once.
THINGS = [f'thing{n}' for n in range(5)]

#: Answers of a thing: done; on its way; done, but the answer was lost; away; never; no room for
#: it, which is as done where none is looked for; a bug.
ANSWERS = ('done', 'wait', 'lost', 'transient', 'permanent', 'no_room', 'bug')


#: Points at which a manager still needs its claim.
HOLDING = ('event.claimed', 'remote.before', 'remote.after', 'finish.before')


class Killed(BaseException):
    """The manager is dead."""


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


class Ledger(Things):
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

    def reserve(self, context: RequestContext, values: Mapping[str, Any]) -> Claimed:
        thing = values['resource_id']
        state = self.state.setdefault(thing, 'asleep')
        if state == 'gone':
            raise exceptions.ResourceNotFound('It is gone.', field='resource_id')
        if state == 'awake':
            raise exceptions.BadRequest('It is awake already.', field='resource_id')
        return Claimed(thing, {'colour': values.get('colour', 'grey')}, {'servers': 1})

    def wake_up(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        return self._answer('wake', 'awake', lease, reservation)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        return self._answer('end', 'gone', lease, reservation)

    def done(self, thing: str) -> list[str]:
        """What took effect on a thing, in order."""
        return [e.action for e in self.effects if e.thing == thing]

    def _answer(
        self, action: str, state: str, lease: model.Lease, reservation: model.Reservation
    ) -> Wait | None:
        thing = reservation.resource_id
        answer = self.mood.pop(0) if self.mood else 'done'
        if answer == 'wait':
            return Wait(5.0)
        if answer == 'transient':
            raise exceptions.Transient('It is away.')
        late = (lease.end_date - self.time()).total_seconds() < retry.TOO_LATE
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
            theirs, own = RANKS[other.resource_type], RANKS[reservation.resource_type]
            if state == 'awake':
                asleep = self.state.get(other.resource_id) == 'asleep'
                waits = other.status == 'pending' and other.id not in self.hopeless
                return theirs[0] < own[0] and asleep and waits
            there = other.live and self.state.get(other.resource_id, 'gone') != 'gone'
            return theirs[1] > own[1] and there

        return frozenset(each.id for each in lease.reservations if before(each))


class Others(ResourcePlugin):
    """Things of a ledger with a rank of their own."""

    title, description, schema = Things.title, Things.description, Things.schema
    changeable = Things.changeable

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def reserve(self, context: RequestContext, values: Mapping[str, Any]) -> Claimed:
        return self._ledger.reserve(context, values)

    def wake_up(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        return self._ledger.wake_up(lease, reservation)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        return self._ledger.end(lease, reservation)


class Bases(Others):
    """What others stand on."""

    resource_type = BASE
    rank, _ = RANKS[BASE]


class Parents(Others):
    """What comes first at both ends."""

    resource_type = PARENT
    rank, rank_at_end = RANKS[PARENT]


class Rooms(Others):
    """What the calendar promises, and what leases wait for; there are two."""

    resource_type = HOST
    rank, _ = RANKS[HOST]

    def reserve(self, context: RequestContext, values: Mapping[str, Any]) -> Claimed:
        claimed = self._ledger.reserve(context, values)
        return dataclasses.replace(claimed, unit_kind='room')

    def matches_request(self, reservation: model.Reservation, values: Mapping[str, Any]) -> bool:
        return reservation.resource_id == values.get('resource_id')

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {'servers': 1}

    def wanted(self, reservation: model.Reservation) -> ReservationDemand:
        demand = Demand(kind='room', least=1, most=1)
        return ReservationDemand(
            reservation_id=reservation.id, demand=demand, field='min', noun='rooms'
        )

    def wake_up(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        assert reservation.allocations, 'what is not promised is not woken'
        return super().wake_up(lease, reservation)


class MadeThings(Others):
    """Things that are made for their lease; ``made`` has them by their reservations."""

    resource_type = MADE
    rank, _ = RANKS[MADE]

    def __init__(
        self, ledger: Ledger, fresh: Callable[[], str], is_held: Callable[[str], bool]
    ) -> None:
        super().__init__(ledger)
        self._fresh, self._is_held = fresh, is_held
        self.made: dict[str, str] = {}

    def reserve(self, context: RequestContext, values: Mapping[str, Any]) -> Claimed:
        params = {'name': values['name'], model.GROUP: uuidutils.generate_uuid()}
        first, *others = (
            Claimed(f'{model.UNMADE}{uuidutils.generate_uuid()}', params, {'servers': 1})
            for _ in range(values['count'])
        )
        return dataclasses.replace(first, others=others)

    def make(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        claimed: Claimed,
    ) -> Claimed:
        return dataclasses.replace(claimed, prepare=True, prepare_before=LEAD)

    def matches_request(self, reservation: model.Reservation, values: Mapping[str, Any]) -> bool:
        return reservation.params['name'] == values.get('name')

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {'servers': 1}

    def prepare(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        if reservation.is_made:
            return None
        answer = self._ledger.mood.pop(0) if self._ledger.mood else 'done'
        if answer == 'wait':
            return Wait(5.0)
        failures = {
            'transient': exceptions.Transient('It is away.'),
            'permanent': exceptions.Permanent('It never will.'),
            'no_room': exceptions.NoRoom('Others were faster.'),
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
        return Wait(0.0, resource_id=thing)

    def rollback_prepare(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        answer = self._ledger.mood.pop(0) if self._ledger.mood else 'done'
        if answer == 'wait':
            return Wait(5.0)
        if answer in ('transient', 'permanent'):
            raise exceptions.Transient('It is away.')
        self._discard(reservation)
        return None

    def wake_up(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        assert reservation.is_made, 'what is not made is not woken'
        return super().wake_up(lease, reservation)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        if not reservation.is_made:
            self._discard(reservation)
            return None
        return super().end(lease, reservation)

    def _discard(self, reservation: model.Reservation) -> None:
        thing = self.made.pop(reservation.id, None)
        if thing is not None:
            self._ledger.state[thing] = 'gone'


class Boundless:
    """As much room for things that are made as there can be."""

    nouns, hosts, places = Nouns(), (TargetHost(name='host', free={'VCPU': 1000}),), {}

    def __init__(self, conn: None) -> None:
        pass

    def demand(
        self, name: str, params: Mapping[str, Any], amounts: Mapping[str, int]
    ) -> RunningServer:
        return RunningServer(id=name, amounts={'VCPU': 1})

    def released(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        return {}


class Room:
    """Has rooms emptied in no time, as the mood of the ledger is."""

    #: Nobody tells what is free for servers.
    cloud = None

    def __init__(self, world: 'ContractWorld') -> None:
        self._world = world

    def find(self, draft: Draft, refused: exceptions.NotEnough) -> tuple[int, ...]:
        return (1,)

    def add(self, session: orm.Session, draft: Draft, lease: model.Lease) -> model.Lease:
        assert draft.asked is not None
        return changes.wait.begin_room(lease, {'moved': 0}, draft.asked.lasts, None, draft.now)

    def step(self, lease: model.Lease) -> Wait | None:
        mood = self._world.ledger.mood
        answer = mood.pop(0) if mood else 'done'
        if answer == 'wait':
            return Wait(5.0, 'moved 0 of 1', {'moved': 1})
        if answer == 'permanent' or self._world.ledger.time() > lease.created_at + ROOM_TIMEOUT:
            raise exceptions.Permanent('They were not empty in time.')
        if answer == 'transient':
            raise exceptions.Transient('Nova is away.')
        self._world.operations.queue.grant(lease, states.LeaseStatus.IN_PROGRESS)
        return None


class ContractWorld(World):
    """Managers that can be killed at a point of the engine or before an SQL statement."""

    things: Ledger

    def __init__(self) -> None:
        self.ledger = Ledger()
        super().__init__('sqlite://', self.ledger.time, things=self.ledger)
        others = {BASE: Bases, PARENT: Parents, HOST: Rooms}
        self.plugins |= {kind: made(self.ledger) for kind, made in others.items()}
        self.made = MadeThings(self.ledger, self.fresh, self._is_held)
        self.plugins[MADE] = self.made
        self.operations.queue.cloud = mock.Mock(spec=['service', 'user'])
        self.conf.set_override('retry_interval', 60, group='queue')
        self.conf.set_override('max_retries', 3, group='queue')
        room: Any = Room(self)
        self.operations.room = self.operations.room_steps = room
        self.operations.write_path.room = room
        self.executor = self.new_executor()
        self.ledger.look = self._look
        self._dead = False
        self._elsewhere = False
        self._statements_left: int | None = None
        self._fresh = itertools.count(len(THINGS))
        self._taken: set[str] = set()
        self._generation: int | None = None
        self.when_lost: Rows | None = None
        sa.event.listen(self.database.engine, 'before_cursor_execute', self._execute)

    def reset(self) -> None:
        """Begin anew, at noon, without a lease."""
        self.revive()
        self.ledger.time.now = NOON
        with self.database.engine.begin() as connection:
            for table in reversed(tables.METADATA.sorted_tables):
                connection.execute(table.delete())
            connection.execute(tables.UNITS.insert(), [ROOM] * ROOMS)
        # What is in memory is of other rooms; an example chooses the same ones each time.
        self.calendar = Calendar(self.database, random.Random(0))
        self.operations.promises.calendar = self.calendar
        self.executor.allocations.calendar = self.calendar
        self.ledger.forget()
        self.made.made.clear()
        self.trusts.present.clear()
        self.trusts.trouble.clear()
        self.sent.clear()
        self._fresh = itertools.count(len(THINGS))

    def wanted(self, thing: str) -> dict[str, str]:
        """Return the reservation of a thing; its number says its type."""
        kind = (PARENT, TYPE, BASE)[int(thing.removeprefix('thing')) % 3]
        return {'resource_type': kind, 'resource_id': thing}

    def fresh(self) -> str:
        """Return a thing that nobody has wanted yet."""
        return f'thing{next(self._fresh)}'

    def arm(
        self,
        killed_at: str | None = None,
        statements: int | None = None,
        disturbed_at: str | None = None,
        disturb: Callable[[], None] | None = None,
    ) -> None:
        """Prepare what happens to the manager that works next.

        :param killed_at: the point of the engine at which it dies
        :param statements: it dies before the SQL statement after so many
        :param disturbed_at: the point at which ``disturb`` is called, once
        """

        def hook(name: str, info: Mapping[str, Any]) -> None:
            nonlocal disturb
            if self._elsewhere:
                self._taken.update([info['event_id']] if name == 'event.claimed' else [])
                return
            if name == 'event.claimed':
                self._generation = self._event(info['event_id'])['generation']
            if name == disturbed_at and disturb is not None:
                call, disturb = disturb, None
                self._elsewhere = True
                call()
                if name in HOLDING and self._must_not_write(name, info['event_id']):
                    self.when_lost = self.rows()
                self._elsewhere = False
            if name == killed_at:
                self._die()

        self._statements_left = statements
        self.when_lost = None
        self._taken.clear()
        test_points.install(hook)

    def revive(self) -> None:
        """Let a new manager begin, of which nothing is planned."""
        self._dead, self._statements_left, self._elsewhere = False, None, False
        test_points.install(None)

    def claim(self, due: events.Due) -> bool:
        """Claim an event as a manager that does nothing with it; tell whether it got it."""
        claim = self.claims.take(due)
        if claim is None:
            return False
        self.claims.drop(claim)
        self._taken.add(due.id)
        return True

    def text(self, minutes: int) -> str:
        """Write the time so many minutes from now."""
        return (self.ledger.time.now + datetime.timedelta(minutes=minutes)).isoformat()

    def rows(self) -> Rows:
        """Read all tables, as they are in the database."""
        return dict(self._rows())

    def _rows(self) -> Iterator[tuple[str, list[Row]]]:
        with self.database.engine.connect() as connection:
            for table in tables.METADATA.sorted_tables:
                order = list(table.primary_key.columns)
                found = connection.execute(sa.select(table).order_by(*order)).mappings()
                yield table.name, [dict(row) for row in found]

    def _look(self, lease_id: str, reservation_id: str) -> tuple[Row, Row]:
        return self._row(tables.LEASES, lease_id), self._row(tables.RESERVATIONS, reservation_id)

    def _is_held(self, reservation_id: str) -> bool:
        return self._row(tables.RESERVATIONS, reservation_id).get('status') in states.LIVE

    def _event(self, event_id: str) -> Row:
        return self._row(tables.EVENTS, event_id)

    def _row(self, table: sa.Table, row_id: str) -> Row:
        """Read a row as one who is no manager; it is empty if there is none."""
        before, self._elsewhere = self._elsewhere, True
        with self.database.engine.connect() as connection:
            found = connection.execute(sa.select(table).where(table.c.id == row_id))
            row = dict(found.mappings().first() or {})
        self._elsewhere = before
        return row

    def _must_not_write(self, point: str, event_id: str) -> bool:
        """Tell whether the manager has lost what it claimed, and what it does needs the claim.

        Leases that wait are granted by any manager that looks: their own status judges that.
        """
        before_call = point in ('event.claimed', 'remote.before')
        grants = self._event(event_id).get('event_type') in (model.RETRY, model.MAKE_ROOM)
        return self._lost(event_id) and not (before_call and grants)

    def _lost(self, event_id: str) -> bool:
        """Tell whether what the manager claimed is not its own any more."""
        event = self._event(event_id)
        if event_id in self._taken or event.get('status') != 'IN_PROGRESS':
            return True
        return bool(event['generation'] != self._generation)

    def _execute(self, *_: Any) -> None:
        """Let no statement of a dead manager through, also not of its clean-up."""
        if self._elsewhere:
            return
        if self._dead or self._statements_left == 0:
            self._die()
        if self._statements_left is not None:
            self._statements_left -= 1

    def _die(self) -> None:
        self._dead = True
        raise Killed
