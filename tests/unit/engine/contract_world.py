# SPDX-License-Identifier: Apache-2.0
"""The world of the contract's state machine: managers that die, things that keep a ledger."""

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.db import tables
from climate_core.engine import points
from climate_core.lease import model
from climate_core.plugins.base import Claimed, Wait
from tests.unit.engine.world import NOON, Things, Time, World

Row = Mapping[str, Any]
Rows = Mapping[str, list[Row]]

#: Answers of a thing: done; on its way; done, but the answer was lost; away; never; a bug.
ANSWERS = ('done', 'wait', 'lost', 'transient', 'permanent', 'bug')


class Killed(BaseException):
    """The manager is dead."""


@dataclasses.dataclass(frozen=True)
class Effect:
    """Something that was done to a thing.

    :param lease: the lease as the manager knew it
    :param now: as the lease was in the database at this moment
    """

    action: str
    thing: str
    time: datetime.datetime
    lease: model.Lease
    now: Row


class Ledger(Things):
    """Things that sleep, are awake or gone. What is gone does not come back.

    ``mood`` holds the next answers; without any, everything works.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mood: list[str] = []
        self.effects: list[Effect] = []
        self.look: Callable[[str], Row] = lambda _: {}
        self.time = Time()

    def forget(self) -> None:
        self.state.clear()
        self.mood.clear()
        self.effects.clear()

    def reserve(self, context: RequestContext, values: Mapping[str, Any]) -> Claimed:
        thing = values['resource_id']
        state = self.state.setdefault(thing, 'asleep')
        if state == 'gone':
            raise exceptions.ResourceNotFound('It is gone.', field='resource_id')
        if state == 'awake':
            raise exceptions.BadRequest('It is awake already.', field='resource_id')
        return Claimed(thing, {'colour': values.get('colour', 'grey')}, {'servers': 1})

    def wake_up(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        return self._answer('wake', 'awake', lease, reservation.resource_id)

    def end(self, lease: model.Lease, reservation: model.Reservation) -> Wait | None:
        return self._answer('end', 'gone', lease, reservation.resource_id)

    def done(self, thing: str) -> list[str]:
        """What took effect on a thing, in order."""
        return [e.action for e in self.effects if e.thing == thing]

    def _answer(self, action: str, state: str, lease: model.Lease, thing: str) -> Wait | None:
        answer = self.mood.pop(0) if self.mood else 'done'
        if answer == 'wait':
            return Wait(5.0)
        if answer == 'transient':
            raise exceptions.Transient('It is away.')
        if answer == 'permanent':
            raise exceptions.Permanent('It never will.')
        if answer == 'bug':
            raise KeyError(thing)
        if self.state[thing] == 'gone' and state == 'awake':
            raise exceptions.Permanent('It is gone.')
        if self.state[thing] not in (state, 'gone'):
            self.state[thing] = state
            self.effects.append(Effect(action, thing, self.time(), lease, self.look(lease.id)))
        if answer == 'lost':
            raise exceptions.Transient('The answer was lost.')
        return None


class ContractWorld(World):
    """Managers that can be killed at a point of the engine or before an SQL statement."""

    things: Ledger

    def __init__(self) -> None:
        self.ledger = Ledger()
        super().__init__('sqlite://', self.ledger.time, things=self.ledger)
        self.ledger.look = self._look
        self._dead = False
        self._elsewhere = False
        self._statements_left: int | None = None
        sa.event.listen(self.database.engine, 'before_cursor_execute', self._execute)

    def reset(self) -> None:
        """Begin anew, at noon, without a lease."""
        self.revive()
        self.ledger.time.now = NOON
        with self.database.engine.begin() as connection:
            for table in reversed(tables.Base.metadata.sorted_tables):
                connection.execute(table.delete())
        self.ledger.forget()
        self.trusts.present.clear()
        self.trusts.trouble.clear()
        self.sent.clear()

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

        def hook(name: str, _info: Mapping[str, Any]) -> None:
            nonlocal disturb
            if self._elsewhere:
                return
            if name == disturbed_at and disturb is not None:
                call, disturb = disturb, None
                self._elsewhere = True
                call()
                self._elsewhere = False
            if name == killed_at:
                self._die()

        self._statements_left = statements
        points.install(hook)

    def revive(self) -> None:
        """Let a new manager begin, of which nothing is planned."""
        self._dead, self._statements_left, self._elsewhere = False, None, False
        points.install(None)

    def text(self, minutes: int) -> str:
        """Write the time so many minutes from now."""
        return (self.ledger.time.now + datetime.timedelta(minutes=minutes)).isoformat()

    def rows(self) -> Rows:
        """Read all tables, as they are in the database."""
        return dict(self._rows())

    def _rows(self) -> Iterator[tuple[str, list[Row]]]:
        with self.database.engine.connect() as connection:
            for table in tables.Base.metadata.sorted_tables:
                order = list(table.primary_key.columns)
                found = connection.execute(sa.select(table).order_by(*order)).mappings()
                yield table.name, [dict(row) for row in found]

    def _look(self, lease_id: str) -> Row:
        table = tables.LEASES
        with self.database.engine.connect() as connection:
            found = connection.execute(sa.select(table).where(table.c.id == lease_id))
            return dict(found.mappings().one())

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
