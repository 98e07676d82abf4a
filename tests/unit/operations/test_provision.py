# SPDX-License-Identifier: Apache-2.0
"""What is made with a lease: once, and not without it."""

import dataclasses
import datetime
from collections.abc import Hashable, Mapping, Sequence
from concurrent import futures
from typing import Any

import pytest
from oslo_db import exception as db_exc

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.db import leases
from climate_core.lease import model
from climate_core.plugins.base import LeaseManaged, PollAgain, Prepared, ReservedResource
from tests.support.quotas import limit, replace_plugins
from tests.support.world import TYPE, Things, Time, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LATER = '2082-12-01 13:00'


class Crafts(Things, Prepared, LeaseManaged):
    """Things that are made for their lease, under a name."""

    def __init__(self) -> None:
        super().__init__()
        #: Name -> the lease that it is made for.
        self.made: dict[str, str] = {}
        self.discarded: list[str] = []
        self.trouble: dict[str, Exception] = {}
        self.meanwhile = lambda: None

    def request_keys(self, lease_id: str, values: Mapping[str, Any]) -> Sequence[Hashable]:
        return [f'made-{values["resource_id"]}']

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> ReservedResource:
        return dataclasses.replace(
            super().reserve(context, values, lease_id),
            resource_id=f'new:{values["resource_id"]}',
            amounts={'servers': 1},
        )

    def make(
        self,
        context: RequestContext,
        lease_id: str,
        values: Mapping[str, Any],
        claimed: ReservedResource,
    ) -> ReservedResource:
        name = values['resource_id']
        if name in self.trouble:
            raise self.trouble[name]
        if self.made.setdefault(name, lease_id) != lease_id:
            raise exceptions.NameTaken(field='name')
        new = f'made-{name}' not in self.state
        self.state[f'made-{name}'] = 'asleep'
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return dataclasses.replace(
            claimed, resource_id=f'made-{name}', is_created=new, prepare=True
        )

    def unleased_since(self, resource_id: str) -> None:
        return None

    def discard(self, resource_id: str) -> None:
        if resource_id in self.trouble:
            raise self.trouble[resource_id]
        self.discarded.append(resource_id)
        del self.made[resource_id.removeprefix('made-')]
        del self.state[resource_id]

    def prepare(self, lease: model.Lease, reservation: model.Reservation) -> PollAgain | None:
        return self._act('prepare', reservation.resource_id, 'ready')

    def rollback_prepare(
        self, lease: model.Lease, reservation: model.Reservation
    ) -> PollAgain | None:
        return self._act('take back', reservation.resource_id, 'gone')


@pytest.fixture
def crafts(world: World) -> Crafts:
    made = Crafts()
    world.things = made
    world.plugins[TYPE] = made
    return made


def limited(world: World, **most: int) -> None:
    limit(world, **most)
    replace_plugins(world, world.plugins)


def preparations(world: World, lease_id: str) -> list[str]:
    events = world.lease(lease_id).events
    return [each.status for each in events if each.event_type == model.PREPARE]


def test_it_is_made_for_the_lease(world: World, crafts: Crafts) -> None:
    lease_id = world.create('a', 'b', start=LATER)
    assert crafts.made == {'a': lease_id, 'b': lease_id}
    found = world.lease(lease_id).reservations
    assert [each.resource_id for each in found] == ['made-a', 'made-b']
    assert preparations(world, lease_id) == ['UNDONE', 'UNDONE']
    world.run_until_idle()
    assert sorted(crafts.journal) == [('prepare', 'made-a'), ('prepare', 'made-b')]
    assert preparations(world, lease_id) == ['DONE', 'DONE']


def test_a_dry_run_makes_nothing(world: World, crafts: Crafts) -> None:
    body = {'name': 'n', 'end_date': LATER, 'reservations': [world.wanted('a')]}
    assert world.operations.check_lease(user(), body)['granted']
    assert crafts.made == {}


@pytest.mark.parametrize('error', [exceptions.BadRequest('no', field='template'), KeyError('x')])
def test_one_of_two_cannot_be_made(world: World, crafts: Crafts, error: Exception) -> None:
    """Nothing is left, also after a mistake in a plugin."""
    crafts.trouble['b'] = error
    with pytest.raises(type(error)) as caught:
        world.create('a', 'b', id=ID)
    if isinstance(error, exceptions.BadRequest):
        assert caught.value.field == 'reservations[1].template'
    assert crafts.discarded == ['made-a']
    assert world.trusts.present == set()
    assert world.database.read(leases.find, ID) is None


def test_nothing_is_made_of_what_is_refused(world: World, crafts: Crafts) -> None:
    limited(world, reserved_servers=1)
    with pytest.raises(exceptions.LimitExceeded):
        world.create('a', 'b')
    lease_id = world.create('a')
    with pytest.raises(exceptions.LimitExceeded):
        world.join(lease_id, 'b')
    assert set(crafts.made) == {'a'}
    assert crafts.discarded == []


def test_a_limit_that_is_reached_meanwhile(world: World, crafts: Crafts) -> None:
    limited(world, leases=1)
    crafts.meanwhile = lambda: world.create('b', name='other')  # type: ignore[assignment]
    with pytest.raises(exceptions.LimitExceeded):
        world.create('a')
    assert crafts.discarded == ['made-a']
    assert set(crafts.made) == {'b'}
    assert (world.trusts.made, len(world.trusts.present)) == (2, 1)


@pytest.mark.parametrize('joins', [True, False])
def test_the_commit_went_through(
    world: World, crafts: Crafts, monkeypatch: pytest.MonkeyPatch, joins: bool
) -> None:
    lease_id = world.create('a')
    write = world.database.write

    def broken(*args: Any) -> None:
        write(*args)
        raise db_exc.DBConnectionError

    monkeypatch.setattr(world.database, 'write', broken)
    if joins:
        with pytest.raises(db_exc.DBConnectionError):
            world.join(lease_id, 'b')
    else:
        assert world.create('b', name='other') == crafts.made['b']
    assert crafts.discarded == []
    assert set(crafts.made) == {'a', 'b'}


def test_what_cannot_be_discarded_is_logged(
    world: World, crafts: Crafts, caplog: pytest.LogCaptureFixture
) -> None:
    crafts.trouble['b'] = exceptions.BadRequest('no')
    crafts.trouble['made-a'] = exceptions.Transient('Heat is away')
    with pytest.raises(exceptions.BadRequest, match='no'):
        world.create('a', 'b')
    assert 'made-a' in caplog.text


@pytest.mark.parametrize('refused', [False, True])
def test_a_request_that_was_broken_off_is_repeated(
    world: World, crafts: Crafts, refused: bool
) -> None:
    """What the first one made is taken, and not discarded: it may be about to write it."""
    limited(world, leases=1)
    crafts.made['a'] = ID
    crafts.state['made-a'] = 'asleep'
    if refused:
        crafts.meanwhile = lambda: world.create('b', name='other')  # type: ignore[assignment]
        with pytest.raises(exceptions.LimitExceeded):
            world.create('a', id=ID)
    else:
        assert world.create('a', id=ID) == world.create('a', id=ID) == ID
        assert world.lease(ID).reservations[0].resource_id == 'made-a'
    assert crafts.discarded == []


@pytest.mark.parametrize('chosen', ['id', 'idempotency_key'])
def test_an_equal_request_was_faster(world: World, crafts: Crafts, chosen: str) -> None:
    """Its stack is not unfilled any more, so that its name is just taken."""
    values = {chosen: ID}
    seen: list[str] = []
    create_trust = world.trusts.create

    def meanwhile(context: RequestContext) -> str:
        world.trusts.create = create_trust  # type: ignore[method-assign]
        seen.append(world.create('a', **values))
        crafts.trouble['a'] = exceptions.NameTaken(field='name')
        return create_trust(context)

    world.trusts.create = meanwhile  # type: ignore[method-assign]
    assert [world.create('a', **values)] == seen
    assert crafts.discarded == []
    assert len(world.trusts.present) == 1


def test_a_name_that_is_taken(world: World, crafts: Crafts) -> None:
    world.create('a')
    for make in (lambda: world.create('a', name='other'), lambda: world.create('a', id=ID)):
        with pytest.raises(exceptions.NameTaken):
            make()
    assert world.trusts.made == 3
    assert len(world.trusts.present) == 1


def test_two_joins_at_once_are_one(world: World, crafts: Crafts) -> None:
    lease_id = world.create('a')
    found: list[str] = []
    crafts.meanwhile = lambda: found.append(world.join(lease_id, 'b'))
    assert world.join(lease_id, 'b') == found[0]
    assert len(world.lease(lease_id).live) == 2
    assert crafts.discarded == []


def test_a_join_whose_name_was_taken_by_an_equal_one(world: World, crafts: Crafts) -> None:
    lease_id = world.create('a')
    found: list[str] = []
    reserve = crafts.reserve

    def slow(context: RequestContext, values: Mapping[str, Any], _: str) -> ReservedResource:
        if not found:
            found.append('')
            found[0] = world.join(lease_id, 'b')
            raise exceptions.NameTaken(field='name')
        return reserve(context, values)

    crafts.reserve = slow  # type: ignore[method-assign]
    assert world.join(lease_id, 'b') == found[0]


def test_a_join_that_is_refused_in_the_end(world: World, crafts: Crafts) -> None:
    lease_id = world.create('a')
    crafts.meanwhile = lambda: world.update(lease_id, name='new')
    with pytest.raises(exceptions.GenerationConflict):
        world.operations.creator.add_reservation(
            user(), lease_id, world.wanted('b'), world.lease(lease_id).generation
        )
    assert crafts.discarded == ['made-b']


def test_a_lease_that_is_over_takes_nothing(world: World, crafts: Crafts) -> None:
    lease_id = world.create('a')
    world.end(lease_id)
    with pytest.raises(exceptions.InvalidState):
        world.join(lease_id, 'b')
    assert set(crafts.made) == {'a'}


def test_many_requests_for_one_name(world: World, crafts: Crafts) -> None:
    """Of different leases one gets it, the others leave nothing."""

    def ask(number: int) -> str | None:
        try:
            return world.create('a', name=f'lease{number}')
        except exceptions.NameTaken:
            return None

    with futures.ThreadPoolExecutor(4) as pool:
        made = [each for each in pool.map(ask, range(4)) if each]
    assert len(made) == 1
    assert len(world.trusts.present) == 1


def test_a_mistake_in_a_plugin_is_tried_again(world: World, crafts: Crafts, time: Time) -> None:
    crafts.answers['prepare', 'made-a'] = [KeyError('x')]
    lease_id = world.create('a', start=LATER)
    world.run_until_idle()
    assert preparations(world, lease_id) == ['UNDONE']
    assert 'KeyError' in str(world.lease(lease_id).status_reason)
    time.forward(minutes=5)
    world.run_until_idle()
    assert preparations(world, lease_id) == ['DONE']
    assert world.lease(lease_id).status_reason is None


def test_what_cannot_be_prepared_is_taken_back(world: World, crafts: Crafts, time: Time) -> None:
    """Also if that fails for good at first: it holds capacity."""
    crafts.answers['prepare', 'made-a'] = [PollAgain(5, 'long'), exceptions.Permanent('no room')]
    crafts.answers['take back', 'made-a'] = [PollAgain(5), exceptions.Permanent('not now')]
    lease_id = world.create('a', 'b', start=LATER)
    for _ in range(60):
        world.run_until_idle()
        time.forward(seconds=10)
    lease = world.lease(lease_id)
    assert [each.status for each in lease.reservations] == ['error', 'pending']
    assert lease.reservations[0].status_reason == 'no room'
    assert (lease.status, crafts.state['made-a']) == ('ERROR', 'gone')
    assert sorted(preparations(world, lease_id)) == ['DONE', 'ERROR']
    assert crafts.count('take back', 'made-a') == 1


def run_due(world: World, time: Time, moment: datetime.datetime, kind: str) -> None:
    """Do an event of this type at its time, in the middle of another one."""
    time.now = moment
    (due,) = [each for each in world.due() if each.event_type == kind]
    world.executor.run(due)


@pytest.mark.parametrize('kind', [model.START, model.END])
def test_another_event_is_due_while_it_is_prepared(
    world: World, crafts: Crafts, time: Time, kind: str
) -> None:
    """The preparation fails then; the end is that of a lease that its user did not start."""
    starts = kind == model.START
    lease_id = world.create('a', start=LATER, start_policy='auto' if starts else 'manual')
    lease = world.lease(lease_id)

    def late() -> Exception:
        run_due(world, time, lease.start_date if starts else lease.end_date, kind)
        return exceptions.Permanent('It failed meanwhile.')

    crafts.answers['prepare', 'made-a'] = [late]
    crafts.answers['wake' if starts else 'end', 'made-a'] = [PollAgain(5)]
    world.run_until_idle()
    assert world.lease(lease_id).status == ('STARTING' if starts else 'TERMINATING')
    time.forward(seconds=5)
    world.run_until_idle()
    lease = world.lease(lease_id)
    held = lease.reservations[0].status
    assert (lease.status, held) == (('ACTIVE', 'active') if starts else ('TERMINATED', 'deleted'))
    assert crafts.journal == [('wake' if starts else 'end', 'made-a')]


@pytest.mark.parametrize('ask', ['end', 'delete', 'remove'])
def test_the_end_comes_while_it_is_prepared(world: World, crafts: Crafts, ask: str) -> None:
    lease_id = world.create('a', start=LATER)

    def late() -> Exception:
        asked = (lease_id, 'made-a') if ask == 'remove' else (lease_id,)
        getattr(world, ask)(*asked)
        return exceptions.Permanent('no room')

    crafts.answers['prepare', 'made-a'] = [late]
    world.run_until_idle()
    assert crafts.journal == [('end', 'made-a')]
    assert world.lease(lease_id).live == ()


@pytest.mark.parametrize('begun', [True, False])
def test_joining_a_lease_that_failed(
    world: World, crafts: Crafts, time: Time, begun: bool
) -> None:
    crafts.answers['prepare', 'made-a'] = [exceptions.Permanent('no room')]
    lease_id = world.create('a', start=LATER)
    world.run_until_idle()
    assert world.lease(lease_id).status == 'ERROR'
    if begun:
        time.now = world.lease(lease_id).start_date
        world.run_until_idle()
    world.join(lease_id, 'b')
    world.run_until_idle()
    assert crafts.state['made-b'] == ('awake' if begun else 'ready')
    assert world.lease(lease_id).status == 'ERROR'


def test_what_cannot_be_taken_back_is_tried_rarely(
    world: World, crafts: Crafts, time: Time
) -> None:
    """As an end that is refused: an operator may mend it."""
    crafts.answers['prepare', 'made-a'] = [exceptions.Permanent('no room')]
    crafts.answers['take back', 'made-a'] = [exceptions.Permanent('not allowed')]
    lease_id = world.create('a', start=LATER)
    world.run_until_idle()
    assert crafts.state['made-a'] != 'gone'
    (event,) = [e for e in world.lease(lease_id).events if e.event_type == model.PREPARE]
    assert event.open
    assert event.status_reason == 'not allowed'
    time.forward(seconds=world.conf.engine.retry_max_seconds)
    world.run_until_idle()
    assert crafts.state['made-a'] == 'gone'
