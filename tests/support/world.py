# SPDX-License-Identifier: Apache-2.0
"""A manager without a cloud: a clock to turn, a plugin that counts, trusts that are a set."""

import collections
import datetime
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg

from climate_common import dates
from climate_core import conf as config
from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.cloud import errors
from climate_core.context import RequestContext
from climate_core.db import events, leases, tables
from climate_core.db.engine import Database
from climate_core.db.sql import Clock
from climate_core.db.trusts import TrustScope
from climate_core.delivery import publisher
from climate_core.delivery.metrics import Metrics
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.claims import Claims
from climate_core.engine.fast_start import FastStarts
from climate_core.engine.plugin_calls import LeaseActions, PluginCaller
from climate_core.lease import model
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.services import Services
from climate_core.plugins.base import FastStarting, PollAgain, ReservedResource, ResourcePlugin
from climate_core.threads import Backoff
from tests.support import templates
from tests.support.created import get_id
from tests.support.executor import ScriptedExecutor

NOON = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)
TYPE = 'test:thing'


class Time:
    """A clock that stands still until it is turned."""

    def __init__(self, now: datetime.datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime.datetime:
        return self.now

    def forward(self, seconds: float = 0.0, **delta: float) -> None:
        self.now += datetime.timedelta(seconds=seconds, **delta)


class Things(FastStarting):
    """Things that sleep, are awake or gone, and a journal of every change.

    ``answers`` holds what the next calls for a thing give: an exception, a PollAgain, or None for
    doing it.
    """

    resource_type = TYPE
    title = 'Things'
    description = 'Things of the tests'
    schema = {'resource_id': {'type': 'string'}, 'colour': {'type': 'string'}}
    changeable = ('colour',)

    def __init__(self) -> None:
        self.cloud: Any = None
        self.state: dict[str, str] = {}
        self.journal: list[tuple[str, str]] = []
        self.calls: list[tuple[str, str]] = []
        self.answers: dict[tuple[str, str], list[Any]] = collections.defaultdict(list)
        self._lock = threading.Lock()

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        resource_id = values['resource_id']
        if resource_id == 'unknown':
            raise exceptions.ResourceNotFound('There is no such thing.', field='resource_id')
        self.state.setdefault(resource_id, 'asleep')
        return ReservedResource(resource_id, {'colour': values.get('colour', 'grey')})

    def start(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._act('wake', reservation.resource_id, 'awake')

    def is_started(self, lease: model.Lease, reservation: model.Reservation) -> bool:
        return False

    def end(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._act('end', reservation.resource_id, 'gone')

    def count(self, action: str, resource_id: str) -> int:
        """Return how often an action took effect."""
        return self.journal.count((action, resource_id))

    def _act(self, action: str, thing: str, state: str) -> PollAgain | None:
        with self._lock:
            self.calls.append((action, thing))
            answers = self.answers[action, thing]
            answer = answers.pop(0) if answers else None
        if callable(answer):
            answer = answer()
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, PollAgain):
            return answer
        with self._lock:
            if self.state.get(thing) not in (state, 'gone'):
                self.state[thing] = state
                self.journal.append((action, thing))
        return None


class Trusts:
    def __init__(self) -> None:
        self.made = 0
        self.present: set[str] = set()
        self.trouble: list[Exception] = []
        self.delegated: dict[str, list[str]] = {}

    def check(self, context: RequestContext) -> None:
        pass

    def scope(self, context: RequestContext) -> TrustScope | None:
        if not context.own_token:
            return None
        user_id, project_id = str(context.user_id), str(context.project_id)
        return TrustScope(user_id, project_id, 'climate', tuple(sorted(context.roles)))

    def create(self, context: RequestContext, roles: Sequence[str] | None = None) -> str:
        self.made += 1
        made = f'trust{self.made}'
        self.present.add(made)
        self.delegated[made] = list(context.roles if roles is None else roles)
        return made

    def roles(self, trust_id: str) -> Sequence[str]:
        if self.trouble:
            raise self.trouble.pop(0)
        if trust_id not in self.present:
            raise errors.TrustRejected('The trust is no more.')
        return self.delegated[trust_id]

    def delete(self, trust_id: str) -> None:
        if self.trouble:
            raise self.trouble.pop(0)
        self.present.discard(trust_id)


class World:
    """A manager without its loop; :meth:`run` does what is due, in order, in this thread."""

    def __init__(
        self,
        url: str,
        time: Time | None = None,
        things: Things | None = None,
        trusts: Trusts | None = None,
        **engine: Any,
    ) -> None:
        self.conf = configure(url, **engine)
        self.time = time
        self.database = Database(self.conf, clock=time)
        templates.fill('tables', sa.make_url(url), self._create)
        self.clock = Clock(self.database)
        self.things = things or Things()
        self.plugins: dict[str, ResourcePlugin] = {TYPE: self.things}
        self.trusts = trusts or Trusts()
        self.calendar = Calendar(self.database)
        self.claims = Claims(self.database, self.conf.engine.claim_ttl)
        services = Services(
            self.conf,
            self.database,
            self.clock,
            self.plugins,
            self.calendar,
            self.trusts,
            None,
        )
        self.operations = LeaseOperations(services)
        self.executor = self.new_executor()
        #: Returns the context in which a lease is changed, by its id.
        self.requester: Callable[[str], RequestContext] = lambda _: user()
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.publisher = publisher.Publisher(
            self.database, self.clock, lambda *item: self.sent.append(item), 600, 60
        )

    def _create(self) -> None:
        if not sa.inspect(self.database.engine).has_table('leases'):
            tables.load_metadata().create_all(self.database.engine)

    def new_executor(
        self,
        claims: Claims | None = None,
        bulkhead: ServiceBulkhead | None = None,
        actions: LeaseActions | None = None,
        backoff: Backoff | None = None,
        observer: Metrics | None = None,
    ) -> ScriptedExecutor:
        bulkhead = bulkhead or ServiceBulkhead(sys.maxsize, 100)
        calls = PluginCaller(
            self.clock,
            self.plugins,
            bulkhead,
            actions or self.operations,
            backoff or Backoff.of(self.conf),
            observer,
        )
        return ScriptedExecutor(
            self.clock,
            claims or self.claims,
            calls,
            self.calendar,
            FastStarts(self.database, self.clock, self.plugins, bulkhead),
            observer,
        )

    def wanted(self, thing: str) -> dict[str, str]:
        """Return the reservation of a thing as a request has it."""
        return {'resource_type': TYPE, 'resource_id': thing}

    def create(
        self,
        *things: str,
        start: str = 'now',
        end: str = '2082-12-01 14:00',
        context: RequestContext | None = None,
        **values: Any,
    ) -> str:
        body = {'name': 'lease1', 'start_date': start, 'end_date': end, **values}
        body['reservations'] = [self.wanted(t) for t in things]
        return get_id(self.operations.creator.create_lease(context or user(), body))

    def join(self, lease_id: str, thing: str, context: RequestContext | None = None) -> str:
        return self.operations.creator.add_reservation(
            context or user(), lease_id, self.wanted(thing)
        )

    def owner(self, lease_id: str) -> RequestContext:
        """Return the context of a request of the user who created a lease, if it exists."""
        lease = self.database.read(leases.find, lease_id, parts=())
        return user() if lease is None else user(lease.project_id, lease.user_id)

    def update(self, lease_id: str, generation: int | None = None, **values: Any) -> None:
        self.operations.update_lease(self.requester(lease_id), lease_id, values, generation)

    def delete(self, lease_id: str, generation: int | None = None) -> None:
        self.operations.delete_lease(self.requester(lease_id), lease_id, generation)

    def start(self, lease_id: str, generation: int | None = None) -> None:
        self.operations.start_lease(self.requester(lease_id), lease_id, generation)

    def end(self, lease_id: str, generation: int | None = None) -> None:
        self.operations.end_lease(self.requester(lease_id), lease_id, generation)

    def paint(self, lease_id: str, thing: str, **values: Any) -> None:
        reservation_id = self.reservation(lease_id, thing).id
        self.operations.update_reservation(
            self.requester(lease_id), lease_id, reservation_id, values
        )

    def remove(self, lease_id: str, thing: str, generation: int | None = None) -> None:
        reservation_id = self.reservation(lease_id, thing).id
        self.operations.remove_reservation(
            self.requester(lease_id), lease_id, reservation_id, generation
        )

    def reservation(self, lease_id: str, thing: str) -> model.Reservation:
        """Return the last reservation of a thing in a lease."""
        return [r for r in self.lease(lease_id).reservations if r.resource_id == thing][-1]

    def lease(self, lease_id: str) -> model.Lease:
        found = self.database.read(leases.find, lease_id)
        assert found is not None
        return found

    def due(self) -> list[events.DueEvent]:
        now, rows = self.database.read(events.read_due, 1000)
        return [] if now is None else [row for row in rows if row.next_at <= now]

    def run(self) -> int:
        """Do what is due now, once; return how many events that were."""
        due = self.due()
        for row in due:
            self.executor.run(row)
        return len(due)

    def run_until_idle(self, **later: float) -> None:
        """Do what is due until nothing is, now or so much later (``hours=2``)."""
        if later:
            assert self.time is not None
            self.time.forward(**later)
        while self.run():
            pass

    def settle(self, lease_id: str, **later: float) -> model.Lease:
        """Do what is due until nothing is; return a lease as it is then."""
        self.run_until_idle(**later)
        return self.lease(lease_id)

    def told(self) -> list[str]:
        """Send what is in the outbox; return the types of all that was ever sent."""
        while self.publisher.publish() == 0:
            pass
        return [event_type for event_type, _ in self.sent]

    def statements(self, function: Callable[[], Any]) -> list[str]:
        """Return the SQL statements of a call, without BEGIN and COMMIT."""
        return [statement for statement, _ in executed(self.database, function)]


def executed(database: Database, function: Callable[[], Any]) -> list[tuple[str, Any]]:
    """Return the SQL statements of a call with their parameters, without BEGIN and COMMIT."""
    seen: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if not statement.startswith('BEGIN'):
            seen.append((statement, parameters))

    sa.event.listen(database.engine, 'before_cursor_execute', note)
    try:
        function()
    finally:
        sa.event.remove(database.engine, 'before_cursor_execute', note)
    return seen


def configure(url: str, **engine: Any) -> cfg.ConfigOpts:
    conf = config.load([], [])
    conf.set_override('connection', url, group='database')
    conf.set_override('transport_url', 'fake:/')
    conf.set_override('driver', 'none', group='limits')
    for name, value in engine.items():
        conf.set_override(name, value, group='engine')
    return conf


def user(
    project: str = 'project1',
    name: str = 'user1',
    own_token: bool = False,
    roles: Sequence[str] = ('member',),
) -> RequestContext:
    """Return the context of a request; with ``own_token`` its leases share a trust."""
    return RequestContext(
        auth_token='token',
        user_id=name,
        project_id=project,
        roles=list(roles),
        overwrite=False,
        own_token=own_token,
    )


def at(text: str) -> datetime.datetime:
    return dates.parse(text, NOON)


def statuses(things: Iterable[model.Reservation | model.Event]) -> Sequence[str]:
    return [str(each.status) for each in things]
