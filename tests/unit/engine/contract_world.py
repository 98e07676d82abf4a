# SPDX-License-Identifier: Apache-2.0
"""The world of the contract's state machine: managers that can be killed."""

import datetime
import functools
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions, test_hooks
from climate_core.calendar.calendar import Calendar
from climate_core.db import events, tables
from climate_core.lease import model, states
from climate_core.lease.events import queue
from climate_core.operations.draft import Draft
from climate_core.plugins.base import PollAgain
from climate_core.plugins.forecast import Nouns
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.server_placement import RunningServer, TargetHost
from climate_core.repair import cleanup
from tests.support.world import NOON, TYPE, World
from tests.unit.engine.contract_things import (
    BASE,
    HOST,
    MADE,
    PARENT,
    BaseThings,
    Ledger,
    MadeThings,
    ParentThings,
    PromisedThings,
    Row,
    Rows,
)

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
#: What several leases want; there is more of which each is wanted once.
THINGS = [f'thing{n}' for n in range(5)]

#: Events whose call changes the database, whoever has claimed them.
_BY_ANY_MANAGER = (model.RETRY, model.MAKE_ROOM, model.RELEASE_TRUST)
#: Points at which a manager still needs its claim.
HOLDING = ('event.claimed', 'remote.before', 'remote.after', 'finish.before')


@functools.cache
def _whole_tables() -> list[tuple[str, sa.Select[Any]]]:
    # Built once: they are executed after each step.
    return [
        (table.name, sa.select(table).order_by(*table.primary_key.columns))
        for table in tables.load_metadata().sorted_tables
    ]


class Killed(BaseException):
    """The manager is dead."""


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


class FullHost:
    """The one host for things that are made, as the preemption of servers sees it: it is full."""

    nouns, hosts = Nouns(), (TargetHost(name='host', free={'VCPU': 0}),)

    def __init__(self, made: MadeThings) -> None:
        self.places = dict.fromkeys(made.present(), 'host')

    def demand(
        self, name: str, params: Mapping[str, Any], amounts: Mapping[str, int]
    ) -> RunningServer:
        return RunningServer(id=name, amounts={'VCPU': 1})

    def released(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        return {'VCPU': 1}


class InstantEvacuation:
    """Empty rooms in no time, as the mood of the ledger is."""

    def __init__(self, world: 'ContractWorld') -> None:
        self._world = world

    def choose_hosts(self, draft: Draft, refused: exceptions.NotEnough) -> tuple[int, ...]:
        return (1,)

    def take_hosts(self, session: orm.Session, draft: Draft, lease: model.Lease) -> model.Lease:
        assert draft.request is not None
        return queue.drain_hosts_for(lease, {'moved': 0}, draft.request.lasts, None, draft.now)

    def step(self, lease: model.Lease) -> PollAgain | None:
        mood = self._world.ledger.mood
        answer = mood.pop(0) if mood else 'done'
        if answer == 'wait':
            return PollAgain(5.0, 'moved 0 of 1', {'moved': 1})
        if answer == 'permanent' or self._world.ledger.time() > lease.created_at + ROOM_TIMEOUT:
            raise exceptions.Permanent('They were not empty in time.')
        if answer == 'transient':
            raise exceptions.Transient('Nova is away.')
        self._world.operations.queue.grant(lease)
        return None


class ContractWorld(World):
    """Managers that can be killed at a point of the engine or before an SQL statement."""

    things: Ledger

    def __init__(self) -> None:
        self.ledger = Ledger()
        # In a file: what reads beside a transaction that writes needs a connection of its own.
        self._directory = tempfile.TemporaryDirectory()
        url = f'sqlite:///{self._directory.name}/contract.sqlite'
        super().__init__(url, self.ledger.time, things=self.ledger)
        others = {BASE: BaseThings, PARENT: ParentThings, HOST: PromisedThings}
        self.plugins |= {kind: made(self.ledger) for kind, made in others.items()}
        self.made = MadeThings(self.ledger, self.fresh, self._is_held)
        self.plugins[MADE] = self.made
        cloud = mock.Mock(spec=['service', 'user'], service=lambda: self.made)
        self.operations.services.cloud = cloud
        self.conf.register_opts(ServerPlugin.options, group=MADE)
        self.conf.set_override('retry_interval', 60, group='queue')
        self.conf.set_override('max_retries', 3, group='queue')
        room: Any = InstantEvacuation(self)
        self.operations.host_evacuation = room
        self.operations.creator.host_evacuation = room
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
            for table in reversed(tables.load_metadata().sorted_tables):
                connection.execute(table.delete())
            connection.execute(tables.UNITS.insert(), [ROOM] * ROOMS)
        # What is in memory is of other rooms; an example chooses the same ones each time.
        self.calendar = Calendar(self.database, random.Random(0))
        self.operations.services.calendar = self.calendar
        self.executor._calendar = self.calendar
        self.ledger.forget()
        self.made.made.clear()
        self.made.homeless.clear()
        self.trusts.present.clear()
        self.trusts.trouble.clear()
        self.operations.owner_trusts._known._entries.clear()
        self.sent.clear()
        self._fresh = itertools.count(len(THINGS))

    def wanted(self, thing: str) -> dict[str, str]:
        """Return the reservation of a thing; its number says its type."""
        kind = (PARENT, TYPE, BASE)[int(thing.removeprefix('thing')) % 3]
        return {'resource_type': kind, 'resource_id': thing}

    def delete_retired_trusts(self) -> None:
        """Look for trusts that no lease needs, as the comparison with the cloud does."""
        for each in cleanup.find_retired_trusts(self.database):
            cleanup.delete_retired_trust(self.database, self.trusts, each)  # type: ignore[arg-type]

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
        test_hooks.install(hook)

    def revive(self) -> None:
        """Let a new manager begin, of which nothing is planned."""
        self._dead, self._statements_left, self._elsewhere = False, None, False
        test_hooks.install(None)

    @property
    def notice(self) -> datetime.timedelta:
        """So long before it has to a lease knows that it gives way."""
        return datetime.timedelta(seconds=self.conf.queue.preemption_notice)

    def claim(self, due: events.DueEvent) -> bool:
        """Claim an event as a manager that does nothing with it; tell whether it got it."""
        if self.database.write(self.claims.claim, due) is None:
            return False
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
            for name, statement in _whole_tables():
                yield name, [dict(row) for row in connection.execute(statement).mappings()]

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

        Leases that wait are granted by any manager that looks, and trusts are retired by any:
        what the leases are judges that.
        """
        before_call = point in ('event.claimed', 'remote.before')
        return self._lost(event_id) and not (
            before_call and self._event(event_id).get('event_type') in _BY_ANY_MANAGER
        )

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
