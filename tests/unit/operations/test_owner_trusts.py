# SPDX-License-Identifier: Apache-2.0
"""Leases of an owner share a trust, which is deleted after the last of them."""

import datetime
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.db import leases, tables, trusts
from climate_core.lease import model
from climate_core.plugins.base import Prepared, ReservedResource
from climate_core.repair import cleanup
from tests.support.world import TYPE, Things, Time, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
GRACE = datetime.timedelta(seconds=trusts.GRACE_SECONDS)


def owner(**whose: Any) -> RequestContext:
    """Return the context of a request with the user's own token."""
    return user(own_token=True, **whose)


def create(
    world: World, *things: str, context: RequestContext | None = None, **values: Any
) -> str:
    end = values.pop('end', '2099-01-01 10:00')
    return world.create(*things, end=end, context=context or owner(), **values)


def trust_of(world: World, lease_id: str) -> str:
    found = world.lease(lease_id).trust_id
    assert found is not None
    return found


def rows(world: World) -> dict[str, bool]:
    """Return the ids of trusts that are shared, and whether each is live."""
    table = tables.OWNER_TRUSTS
    with world.database.reader() as session:
        return {row.trust_id: row.retired_at is None for row in session.execute(sa.select(table))}


def end(world: World, lease_id: str) -> None:
    """End a lease, and do what follows from that at once."""
    world.end(lease_id)
    world.run_until_idle()
    assert world.lease(lease_id).trust_id is None


def let_time_pass(world: World, **since: Any) -> None:
    """Have shared trusts no more wait, and look for those that no lease needs."""
    with world.database.writer() as session:
        session.execute(sa.update(tables.OWNER_TRUSTS).values(next_at=None, **since))
    list(cleanup.find_retired_trusts(world.database))


def finish(world: World, lease_id: str) -> None:
    """End a lease, and do what follows from that, also what is done an hour later."""
    end(world, lease_id)
    let_time_pass(world)


def sweep(world: World, older: bool = True) -> list[str]:
    """Look for trusts that no lease needs; return those that were deleted.

    :param older: those that are retired have been so for as long as it takes
    """
    table = tables.OWNER_TRUSTS
    with world.database.writer() as session:
        for row in session.execute(sa.select(table).where(table.c.retired_at.is_not(None))).all():
            since = row.retired_at - GRACE if older else row.retired_at
            where = table.c.trust_id == row.trust_id
            session.execute(sa.update(table).where(where).values(retired_at=since))
    deletes = cleanup.delete_retired_trust
    found = cleanup.find_retired_trusts(world.database)
    return [each for each in found if deletes(world.database, world.trusts, each)]  # type: ignore[arg-type]


def another_manager(world: World) -> World:
    """Return a manager beside, which has nothing in memory."""
    url = world.conf.database.connection
    return World(url, world.time, world.things, world.trusts)


def test_leases_of_an_owner_share_a_trust(any_world: World) -> None:
    made = [create(any_world, each) for each in 'abc']
    assert {trust_of(any_world, each) for each in made} == {'trust1'}
    assert (any_world.trusts.made, rows(any_world)) == (1, {'trust1': True})


def test_another_manager_takes_the_same_trust(any_world: World) -> None:
    create(any_world, 'a')
    other = another_manager(any_world)
    assert trust_of(other, create(other, 'b')) == 'trust1'
    other.database.dispose()


@pytest.mark.parametrize(
    'whose',
    [{'name': 'bob'}, {'project': 'p2'}, {'roles': ['reader']}, {'roles': ['member', 'reader']}],
)
def test_what_delegates_something_else_is_another_trust(
    world: World, whose: dict[str, Any]
) -> None:
    create(world, 'a')
    other = create(world, 'b', context=owner(**whose))
    assert trust_of(world, other) == 'trust2'
    assert world.trusts.delegated['trust2'] == list(whose.get('roles', ['member']))


def test_order_of_the_roles_makes_no_other_trust(world: World) -> None:
    for thing, roles in (('a', ['member', 'reader']), ('b', ['reader', 'member'])):
        create(world, thing, context=owner(roles=roles))
    assert world.trusts.made == 1


def test_token_that_was_delegated_neither_takes_nor_gives(world: World, time: Time) -> None:
    create(world, 'a')
    own = world.create('b', end='2099-01-01 10:00')
    assert trust_of(world, own) == 'trust2'
    assert rows(world) == {'trust1': True}
    finish(world, own)
    assert world.trusts.present == {'trust1'}


def test_create_that_shares_takes_five_statements(world: World) -> None:
    create(world, 'a')
    assert len(world.statements(lambda: create(world, 'b'))) == 5


def test_trust_is_deleted_after_the_last_lease(any_world: World) -> None:
    first, last = create(any_world, 'a'), create(any_world, 'b')
    finish(any_world, first)
    assert (rows(any_world), sweep(any_world)) == ({'trust1': True}, [])
    finish(any_world, last)
    assert rows(any_world) == {'trust1': False}
    assert sweep(any_world, older=False) == []
    assert any_world.trusts.present == {'trust1'}
    assert sweep(any_world) == ['trust1']
    assert (any_world.trusts.present, rows(any_world)) == (set(), {})


def test_lease_after_the_last_one_has_a_new_trust(world: World) -> None:
    finish(world, create(world, 'a'))
    later = create(world, 'b')
    assert trust_of(world, later) == 'trust2'
    assert sweep(world) == ['trust1']
    assert world.trusts.present == {'trust2'}


@pytest.mark.parametrize('kind', ['end_lease', 'delete_lease'])
def test_lease_that_never_started_lets_go(world: World, kind: str) -> None:
    lease_id = create(world, 'a', start='2098-01-01 10:00')
    getattr(world.operations, kind)(owner(), lease_id)
    world.run_until_idle()
    let_time_pass(world)
    assert rows(world) == {'trust1': False}


def test_two_that_are_over_at_once_retire_their_trust(any_world: World) -> None:
    """Each is over before the first of them looks whether another one needs the trust."""
    made = [create(any_world, each) for each in 'ab']
    for each in made:
        any_world.end(each)
    while not all(any_world.lease(each).status == 'TERMINATED' for each in made):
        due = [each for each in any_world.due() if each.event_type != 'release_trust']
        for each in due:
            any_world.executor.run(each)
    assert rows(any_world) == {'trust1': True}
    any_world.run_until_idle()
    let_time_pass(any_world)
    assert rows(any_world) == {'trust1': False}
    assert sweep(any_world) == ['trust1']


def test_trust_that_nobody_retired_is_found(world: World) -> None:
    """As after a kill, or if a node of a cluster that lagged behind said that another needs it."""
    lease_id = create(world, 'a')
    finish(world, lease_id)
    with world.database.writer() as session:
        session.execute(sa.update(tables.OWNER_TRUSTS).values(retired_at=None))
    assert sweep(world) == []
    assert rows(world) == {'trust1': False}
    assert sweep(world) == ['trust1']


def ended_meanwhile(world: World, lease_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lease end between the look of a create at its trust and the commit."""
    other = another_manager(world)

    class EndingThings(Things, Prepared):
        """Things whose creation takes as long as the end of the other lease."""

        def make(self, *args: Any) -> ReservedResource:
            if other.lease(lease_id).trust_id is not None:
                finish(other, lease_id)
            claimed: ReservedResource = args[-1]
            return claimed

        def prepare(self, lease: model.Lease, reservation: model.Reservation) -> None:
            """Do nothing."""

    monkeypatch.setitem(world.plugins, TYPE, EndingThings())


def test_create_while_the_last_lease_ends_gets_another_trust(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = create(any_world, 'a')
    ended_meanwhile(any_world, first, monkeypatch)
    later = create(any_world, 'b')
    assert trust_of(any_world, later) == 'trust2'
    assert rows(any_world) == {'trust1': False, 'trust2': True}
    assert sweep(any_world) == ['trust1']
    assert any_world.trusts.present == {'trust2'}


def test_create_that_finds_no_other_trust_and_may_make_none_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_meanwhile(world, create(world, 'a'), monkeypatch)
    refusal = exceptions.Forbidden('The token may not delegate.')
    monkeypatch.setattr(world.trusts, 'create', raising(refusal))
    with pytest.raises(exceptions.Forbidden):
        create(world, 'b', id=ID)
    assert world.database.read(leases.find, ID) is None
    assert world.trusts.present == {'trust1'}


def test_commit_after_the_trust_was_retired_keeps_the_trust(any_world: World) -> None:
    """The transaction that writes the lease has looked, and the trust is retired before it ends.

    Databases of one node let one wait for the other; those of a cluster do not.
    """
    first, second = create(any_world, 'a'), create(any_world, 'b')
    with any_world.database.writer() as session:
        assert trusts.retire(session, ['trust1']) == 1
    assert sweep(any_world) == []
    finish(any_world, first)
    assert sweep(any_world) == []
    assert any_world.trusts.present == {'trust1'}
    # New leases have another one meanwhile.
    assert trust_of(any_world, create(any_world, 'c')) == 'trust2'
    finish(any_world, second)
    assert sweep(any_world) == ['trust1']
    assert any_world.trusts.present == {'trust2'}


def test_lease_that_took_a_trust_at_the_last_moment_is_seen_before_it_is_deleted(
    world: World,
) -> None:
    lease_id = create(world, 'a')
    finish(world, lease_id)
    with world.database.writer() as session:
        values = {'trust_id': 'trust1', 'status': 'ACTIVE'}
        session.execute(sa.update(tables.LEASES).values(values))
    assert not cleanup.delete_retired_trust(world.database, world.trusts, 'trust1')  # type: ignore[arg-type]
    assert world.trusts.present == {'trust1'}


def raising(trouble: Exception) -> Callable[..., Any]:
    def fail(*_args: Any) -> Any:
        raise trouble

    return fail


def test_trust_that_keystone_refuses_is_taken_no_more(world: World) -> None:
    first = create(world, 'a')
    world.trusts.present.clear()
    other = another_manager(world)
    assert trust_of(other, create(other, 'b')) == 'trust2'
    assert rows(world) == {'trust1': False, 'trust2': True}
    # What this manager has in memory is not believed.
    assert trust_of(world, create(world, 'c')) == 'trust2'
    # A lease that has it keeps it, and has it deleted in the end.
    assert trust_of(world, first) == 'trust1'
    finish(world, first)
    assert sweep(world) == ['trust1']


def test_create_while_keystone_does_not_say_whether_a_trust_is_good_is_unavailable(
    world: World,
) -> None:
    create(world, 'a')
    other = another_manager(world)
    other.trusts.trouble = [exceptions.Transient('Keystone is away.')]
    with pytest.raises(exceptions.ServiceUnavailable):
        create(other, 'b', id=ID)
    assert other.database.read(leases.find, ID) is None
    assert rows(world) == {'trust1': True}


def test_keystone_is_asked_again_after_five_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(world.trusts, 'roles', asked.append)
    create(world, 'a')
    create(world, 'b')
    assert asked == []
    known = world.operations.owner_trusts._known
    later = known._clock() + 301
    monkeypatch.setattr(known, '_clock', lambda: later)
    create(world, 'c')
    create(world, 'd')
    assert asked == ['trust1']


def test_two_creates_at_the_same_moment_may_each_make_a_trust(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    make = any_world.trusts.create

    def together(*args: Any) -> str:
        both.wait()
        return make(*args)

    monkeypatch.setattr(any_world.trusts, 'create', together)
    managers = [any_world, another_manager(any_world)]
    made: dict[str, str] = {}

    def ask(manager: World, thing: str) -> None:
        made[thing] = create(manager, thing)

    threads = [
        threading.Thread(target=ask, args=each) for each in zip(managers, 'ab', strict=True)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert {trust_of(any_world, made[each]) for each in 'ab'} == {'trust1', 'trust2'}
    # From now on managers agree on one, except on what they have in memory.
    later = another_manager(any_world)
    assert trust_of(later, create(later, 'c')) in {'trust1', 'trust2'}
    for each in 'ab':
        finish(any_world, made[each])
    assert len(sweep(any_world)) == 1
    assert len(any_world.trusts.present) == 1


def test_equal_id_of_another_request_is_not_taken_for_ones_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the trust of their owner, so that tells nothing."""
    create(world, 'a')
    other = another_manager(world)
    write = world.database.write

    def late(*args: Any) -> Any:
        monkeypatch.setattr(world.database, 'write', write)
        create(other, 'theirs', id=ID, name='theirs')
        return write(*args)

    monkeypatch.setattr(world.database, 'write', late)
    with pytest.raises(exceptions.LeaseConflict):
        create(world, 'mine', id=ID, name='mine')
    assert world.lease(ID).name == 'theirs'
    assert world.trusts.present == {'trust1'}


def test_lost_answer_of_a_commit_is_noticed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world, 'a')
    write = world.database.write

    def broken(*args: Any) -> None:
        write(*args)
        raise sa.exc.TimeoutError('no connection left')

    monkeypatch.setattr(world.database, 'write', broken)
    assert trust_of(world, create(world, 'b')) == 'trust1'


def test_trust_that_a_commit_was_not_known_to_need_is_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of a commit is lost, then its trust is retired, and another one is made."""
    create(world, 'a')
    write = world.database.write

    def lost(*args: Any) -> None:
        monkeypatch.setattr(world.database, 'write', write)
        write(*args)
        write(trusts.retire, ['trust1'])
        raise trusts.TrustRetired

    monkeypatch.setattr(world.database, 'write', lost)
    assert trust_of(world, create(world, 'b')) == 'trust1'
    assert (world.trusts.made, world.trusts.present) == (2, {'trust1'})


def test_create_that_is_not_written_keeps_the_trust_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, 'a')
    monkeypatch.setattr(world.database, 'write', raising(sa.exc.TimeoutError('none left')))
    with pytest.raises(sa.exc.TimeoutError):
        create(world, 'b')
    assert (world.trusts.present, rows(world)) == ({'trust1'}, {'trust1': True})


def test_new_trust_of_a_create_that_is_not_written_is_deleted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(world.database, 'write', raising(sa.exc.TimeoutError('none left')))
        with pytest.raises(sa.exc.TimeoutError):
            create(world, 'a')
    assert (world.trusts.present, rows(world)) == (set(), {})
    # Nor is it kept in memory.
    assert trust_of(world, create(world, 'b')) == 'trust2'


def test_leases_that_follow_one_another_share_a_trust(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of Keystone but once for a trust."""
    monkeypatch.setattr(any_world.trusts, 'roles', raising(AssertionError('asked')))
    monkeypatch.setattr(any_world.trusts, 'delete', raising(AssertionError('asked')))
    for each in 'abcde':
        end(any_world, create(any_world, each))
        assert sweep(any_world) == []
    assert (any_world.trusts.made, rows(any_world)) == (1, {'trust1': True})


def test_trust_is_kept_from_its_last_lease_on(any_world: World) -> None:
    end(any_world, create(any_world, 'a'))
    with any_world.database.writer() as session:
        session.execute(sa.update(tables.OWNER_TRUSTS).values(next_at=None))
    end(any_world, create(any_world, 'b'))
    assert sweep(any_world) == []
    assert rows(any_world) == {'trust1': True}
    let_time_pass(any_world)
    assert rows(any_world) == {'trust1': False}
    assert sweep(any_world) == ['trust1']


def test_lease_with_a_webhook_and_reminders_shares(any_world: World) -> None:
    """Its columns of JSON are written by a statement of their own."""
    create(any_world, 'a')
    hook = {'url': 'https://example.org/hook', 'secret': 'x' * 16}
    more: dict[str, Any] = {'webhook': hook, 'before_start': [60, 600]}
    lease_id = create(any_world, 'b', start='2098-01-01 10:00', **more)
    found = any_world.lease(lease_id)
    assert (found.trust_id, any_world.trusts.made) == ('trust1', 1)
    assert found.before_start == (600, 60) or found.before_start == (60, 600)
    assert found.webhook is not None
    assert found.webhook['url'] == hook['url']
    assert len(found.events_of('before_start_lease')) == 2


def test_trust_that_does_not_look_shared_on_a_node_that_lags_behind_is_kept(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = create(any_world, 'a'), create(any_world, 'b')
    with monkeypatch.context() as lagging:
        lagging.setattr(trusts, 'read_use', lambda *_: trusts.TrustUse(False, False, False))
        end(any_world, first)
    assert (any_world.trusts.present, rows(any_world)) == ({'trust1'}, {'trust1': True})
    assert any_world.lease(second).trust_id == 'trust1'


def test_trust_of_one_lease_that_still_looks_needed_is_deleted_later(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease_id = any_world.create('a', end='2099-01-01 10:00')
    with monkeypatch.context() as lagging:
        lagging.setattr(trusts, 'read_use', lambda *_: trusts.TrustUse(False, False, True))
        end(any_world, lease_id)
    assert (any_world.trusts.present, rows(any_world)) == ({'trust1'}, {'trust1': False})
    assert sweep(any_world) == ['trust1']
    assert any_world.trusts.present == set()


def test_passing_trouble_with_the_trust_of_one_lease_is_tried_again(
    world: World, time: Time
) -> None:
    lease_id = world.create('a', end='2099-01-01 10:00')
    world.trusts.trouble = [exceptions.Transient('Keystone is away.')]
    world.end(lease_id)
    world.run_until_idle()
    event = world.lease(lease_id).event('release_trust')
    assert event is not None
    assert event.open
    world.trusts.trouble = []
    time.forward(hours=1)
    world.run_until_idle()
    assert (world.trusts.present, rows(world)) == (set(), {})


def attempts(world: World, now: datetime.datetime) -> tuple[int, float]:
    """Return how often a trust was refused, and in how many minutes it is tried again."""
    with world.database.reader() as session:
        (row,) = session.execute(sa.select(tables.OWNER_TRUSTS)).all()
    again = 0.0 if row.next_at is None else (row.next_at - now).total_seconds()
    return row.attempts, round(again / 60)


def test_trust_that_keystone_keeps_is_told_once_and_tried_later_and_later(
    world: World, time: Time, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    finish(world, create(world, 'a'))
    monkeypatch.setattr(world.trusts, 'delete', raising(exceptions.Permanent('not allowed')))
    told: list[int] = []
    observer: Any = types.SimpleNamespace(record_trust_refusal=lambda: told.append(1))

    def look() -> None:
        for each in cleanup.find_retired_trusts(world.database):
            assert not cleanup.delete_retired_trust(
                world.database,
                world.trusts,  # type: ignore[arg-type]
                each,
                observer,
            )

    seen = []
    for _ in range(9):
        time.forward(days=1, seconds=1)
        look()
        look()
        seen.append(attempts(world, time.now))
    minutes = [20, 40, 80, 160, 320, 640, 1280, 1440, 1440]
    assert seen == [*zip(range(1, 10), minutes, strict=True)]
    assert told == [1]
    assert caplog.text.count('not allowed') == 1


def test_keystone_that_does_not_answer_counts_as_nothing(
    world: World, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(world, create(world, 'a'))
    with monkeypatch.context() as away:
        away.setattr(world.trusts, 'delete', raising(exceptions.Transient('away')))
        with pytest.raises(exceptions.Transient):
            sweep(world)
    assert attempts(world, time.now)[0] == 0
    assert sweep(world) == ['trust1']


def test_create_asks_about_three_trusts_at_most(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a node that still has as live what was retired."""
    create(world, 'a')
    other = another_manager(world)
    other.trusts.present.clear()
    asked: list[int] = []

    def find(*_args: Any) -> str:
        asked.append(1)
        return 'gone'

    monkeypatch.setattr(trusts, 'find_live', find)
    assert trust_of(other, create(other, 'b')) == 'trust2'
    assert len(asked) == 3
    other.database.dispose()


def test_create_whose_trusts_are_retired_again_and_again_is_to_be_tried_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, 'a')
    tries = []

    def retired(*_args: Any) -> None:
        tries.append(1)
        raise trusts.TrustRetired

    monkeypatch.setattr(world.operations.creator, '_run_transaction', retired)
    with pytest.raises(exceptions.ServiceUnavailable):
        create(world, 'b', id=ID)
    assert len(tries) == 3
    assert world.database.read(leases.find, ID) is None
    assert world.trusts.present == {'trust1'}
