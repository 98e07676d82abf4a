# SPDX-License-Identifier: Apache-2.0
import dataclasses
import datetime
import logging
import threading

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.conf import cloud as reconcile_conf
from climate_core.db import outbox, sql, tables
from climate_core.db import trusts as db_trusts
from climate_core.db.trusts import TrustScope
from climate_core.repair import cleanup, reconciliation
from tests.support.fakes import leases, nova
from tests.support.stopping import stop
from tests.support.world import executed
from tests.unit.repair.notified import Engine


def age(database, seconds):
    """Let it be known for longer that trusts have no lease."""
    with database.writer() as session:
        table = tables.STRAY_TRUSTS
        for each in session.execute(sa.select(table)).all():
            since = each.since - datetime.timedelta(seconds=seconds)
            session.execute(sa.update(table).where(table.c.id == each.id).values(since=since))


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def nudged(engine):
    return engine.nudged


@pytest.fixture
def make(world, database, engine):
    """Return a function that makes a reconciler, as one more manager has it."""
    world.conf.register_opts(reconcile_conf.RECONCILE_OPTS, group=reconcile_conf.RECONCILE_GROUP)
    plugins = {'virtual:instance': world.plugin()}
    return lambda: reconciliation.Reconciler(world.conf, database, plugins, world.trusts, engine)


@pytest.fixture
def reconciler(make):
    return make()


def reserve(world, database, count=1, **fields):
    servers = [nova.add(world.state)['id'] for _ in range(count)]
    return leases.write(database, leases.make(database, servers, world.trust(), **fields))


def told(database):
    _, notices, _ = database.write(outbox.claim_notifications, 60.0, 100)
    return [notice.event_type for notice in notices]


def test_compare_of_a_lease_that_lacks_nothing_changes_nothing(
    world, database, reconciler, nudged
):
    lease = reserve(world, database)
    reconciler.compare()
    assert leases.read(database, lease.id) == lease
    assert not nudged


def test_one_of_two_is_missing(world, database, reconciler):
    lease = reserve(world, database, 2)
    lost, kept = lease.reservations
    world.destroy(lost.resource_id)
    # What is found twice is told once.
    reconciler.compare()
    reconciler.compare()
    after = leases.read(database, lease.id)
    by_id = {r.id: r for r in after.reservations}
    assert (by_id[lost.id].status, by_id[lost.id].missing_resources) == ('deleted', True)
    assert (by_id[kept.id].status, by_id[kept.id].missing_resources) == ('pending', False)
    assert after.degraded
    assert 'deleted outside of the lease' in after.status_reason
    assert told(database) == ['lease.update']


def test_all_are_missing_on_every_page(world, database, reconciler, nudged, monkeypatch):
    monkeypatch.setattr(reconciliation, '_HELD_PAGE_SIZE', 2)
    made = [reserve(world, database) for _ in range(5)]
    for lease in made:
        world.destroy(lease.reservations[0].resource_id)
    reconciler.compare()
    assert nudged
    for lease in made:
        after = leases.read(database, lease.id)
        assert after.status == 'TERMINATED'
        assert 'deleted outside of the lease' in after.status_reason
        assert any(e.event_type == 'release_trust' and e.open for e in after.events)


@pytest.mark.parametrize('status', ['TERMINATING', 'DELETING'])
def test_a_lease_that_is_ending_is_left_alone(world, database, reconciler, status):
    lease = reserve(world, database, status=status)
    world.destroy(lease.reservations[0].resource_id)
    reconciler.compare()
    assert leases.read(database, lease.id) == lease


def test_a_service_user_that_does_not_see_all_loses_nothing(world, database, reconciler, caplog):
    lease = reserve(world, database)
    world.state.users['climate-id']['roles'] = ['service']
    world.state.tokens.clear()
    reconciler.compare()
    assert leases.read(database, lease.id) == lease
    assert 'missing resources' in caplog.text


def test_a_cloud_that_is_away_loses_nothing(world, database, reconciler):
    lease = reserve(world, database)
    with world.unreachable():
        reconciler.compare()
    assert leases.read(database, lease.id) == lease


def test_a_server_that_waits_for_no_lease_is_reported_once(world, database, reconciler, caplog):
    reserve(world, database)
    stray = nova.add(world.state)
    with caplog.at_level(logging.WARNING):
        reconciler.compare()
        reconciler.compare()
    lines = [r.getMessage() for r in caplog.records if 'it waits for no lease' in r.getMessage()]
    assert len(lines) == 1
    assert stray['id'] in lines[0]


def test_a_trust_without_a_lease_is_deleted_after_an_hour(world, database, reconciler, make):
    world.conf.set_override('sweep_trusts', True, group='cloud')
    lease = reserve(world, database)
    stray = world.trust()
    reconciler.compare()
    age(database, 3590)
    reconciler.compare()
    assert stray in world.state.trusts
    age(database, 10)
    # Another manager does it as well.
    make().compare()
    assert list(world.state.trusts) == [lease.trust_id]


def test_a_trust_that_gets_its_lease_is_kept(world, database, reconciler):
    world.conf.set_override('sweep_trusts', True, group='cloud')
    trust_id = world.trust()
    reconciler.compare()
    lease = leases.make(database, [nova.add(world.state)['id']], trust_id)
    leases.write(database, lease)
    age(database, 7200)
    reconciler.compare()
    leases.write(database, dataclasses.replace(leases.make(database, []), name='x'))
    assert trust_id in world.state.trusts


def test_trusts_are_not_swept_unless_it_is_asked_for(world, database, reconciler):
    stray = world.trust()
    reconciler.compare()
    age(database, 7200)
    reconciler.compare()
    assert stray in world.state.trusts


def test_the_thread_compares_and_ends(world, database, reconciler, monkeypatch):
    compared = threading.Event()
    monkeypatch.setattr(reconciler, 'compare', compared.set)
    reconciler.start()
    reconciler.nudge()
    assert compared.wait(20)
    assert stop(reconciler)


@pytest.mark.parametrize(
    'trouble',
    [errors.Gone('404'), sa.exc.TimeoutError('no connection left'), exceptions.Transient('away')],
)
def test_trouble_with_one_part_is_told_and_the_others_are_compared(
    world, database, reconciler, monkeypatch, caplog, trouble
):
    def fail(self, pages):
        raise trouble

    monkeypatch.setattr(type(world.plugin()), 'reconcile', fail)
    reserve(world, database)
    stray = nova.add(world.state)
    reconciler.compare()
    assert 'Could not check for missing resources' in caplog.text
    assert stray['id'] in caplog.text


def test_a_trust_that_keystone_keeps_does_not_keep_the_others(
    world, database, reconciler, monkeypatch, caplog
):
    world.conf.set_override('sweep_trusts', True, group='cloud')
    refused, *_ = sorted(world.trust() for _ in range(3))
    delete = world.trusts.delete

    def refuse(trust_id):
        if trust_id == refused:
            raise exceptions.Permanent('only an administrator may')
        delete(trust_id)

    monkeypatch.setattr(world.trusts, 'delete', refuse)
    reconciler.compare()
    age(database, 3600)
    reconciler.compare()
    assert list(world.state.trusts) == [refused]
    assert 'only an administrator may' in caplog.text


def lock(world, reason):
    """Return a server that the service has locked; its id."""
    locked = nova.add(world.state, status='SHELVED_OFFLOADED')
    locked.update(locked='admin', locked_reason=reason)
    return locked['id']


def test_lock_that_a_lease_has_left_is_undone(world, database, reconciler, caplog):
    ours = 'Climate: the preemptible lease {} was preempted by another one.'
    left, kept, unknown, theirs = (lock(world, each) for each in (ours, ours, ours, 'Do not.'))
    over = leases.make(database, [left, theirs], world.trust(), status='TERMINATED')
    freed = [
        dataclasses.replace(each, status='deleted', freed_at=each.created_at)
        for each in over.reservations
    ]
    leases.write(database, dataclasses.replace(over, reservations=tuple(freed)))
    leases.write(database, leases.make(database, [kept], world.trust(), preemptible=True))
    reconciler.compare()
    reconciler.compare()
    assert {each: world.effects(each) for each in (left, kept, unknown, theirs)} == {
        left: ['unlock'],
        kept: [],
        unknown: [],
        theirs: [],
    }
    assert caplog.text.count(f'Unlocked Server {left}, which no lease needs locked') == 1


def test_looking_for_locks_costs_no_statement_where_there_are_none(world, database):
    lock(world, 'Do not.')
    plugin = world.plugin()
    assert executed(database, lambda: list(reconciliation.undo_locks(database, plugin))) == []


SCOPE = TrustScope('alice-id', 'demo-id', 'climate-id', ('member', 'reader'))


def shared(world, database, seconds=None):
    """Return a trust that leases shared.

    :param seconds: for which it is retired; None: it is live
    """
    trust_id = world.trust()
    database.write(db_trusts.insert, trust_id, SCOPE)
    if seconds is not None:
        with database.writer() as session:
            values = {'retired_at': sql.read_time(session) - datetime.timedelta(seconds=seconds)}
            where = tables.OWNER_TRUSTS.c.trust_id == trust_id
            session.execute(sa.update(tables.OWNER_TRUSTS).where(where).values(**values))
    return trust_id


def test_trust_that_no_lease_needs_is_deleted_some_time_after_it_was_retired(
    world, database, reconciler, make
):
    grace = db_trusts.GRACE_SECONDS
    live, new, old, needed = (shared(world, database, each) for each in (None, 9, grace, grace))
    leases.write(database, leases.make(database, [nova.add(world.state)['id']], needed))
    over = leases.make(database, [], old, status='TERMINATED')
    leases.write(database, over)
    reconciler.compare()
    # Another manager does it as well.
    make().compare()
    assert set(world.state.trusts) == {live, new, needed}
    # The sweep leaves to it what leases shared.
    world.conf.set_override('sweep_trusts', True, group='cloud')
    reconciler.compare()
    age(database, 7200)
    reconciler.compare()
    assert set(world.state.trusts) == {live, new, needed}
    with database.reader() as session:
        found = session.execute(sa.select(tables.OWNER_TRUSTS)).all()
    assert {row.trust_id for row in found} == {live, new, needed}
    assert all(row.retired_at is not None for row in found)


def test_trust_that_keystone_does_not_delete_is_tried_again(
    world, database, reconciler, monkeypatch, caplog
):
    trusts = {shared(world, database, db_trusts.GRACE_SECONDS) for _ in range(2)}
    delete, refused = world.trusts.delete, min(trusts)

    def refuse(trust_id):
        if trust_id == refused:
            raise exceptions.Permanent('only an administrator may')
        delete(trust_id)

    with monkeypatch.context() as refusing:
        refusing.setattr(world.trusts, 'delete', refuse)
        reconciler.compare()
        reconciler.compare()
    assert set(world.state.trusts) == {refused}
    assert caplog.text.count('only an administrator may') == 1
    assert [*database.read(db_trusts.find_rejected)] == [refused]
    with database.writer() as session:
        session.execute(sa.update(tables.OWNER_TRUSTS).values(next_at=None))
    reconciler.compare()
    assert not world.state.trusts


def test_looking_for_retired_trusts_costs_one_statement_where_there_are_none(world, database):
    assert len(executed(database, lambda: list(cleanup.find_retired_trusts(database)))) == 1
