# SPDX-License-Identifier: Apache-2.0
"""climate-manage lease stuck, orphans and repair, on the fake cloud."""

import dataclasses
import datetime
import json
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from climate_common import lanes
from climate_core import exceptions
from climate_core.cmd import manage
from climate_core.cmd.manage import repair as command
from climate_core.db import listing, sql, tables, trusts
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.repair import operator_repair
from climate_hosts.watch import repair
from tests.conformance.fake_servers import FakeServers
from tests.support import pools
from tests.support.fakes import cloud_server, leases, nova, settings
from tests.support.hosts import EnrolledHosts

Run = Callable[..., int]
Reserve = Callable[..., model.Lease]
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    made = leases.sqlite(tmp_path / 'climate.sqlite')
    yield made
    made.dispose()


@pytest.fixture
def run(tmp_path: pathlib.Path, fake: cloud_server.Server, database: Database) -> Run:
    """Run climate-manage with some words."""
    options = '\n'.join(f'{k} = {v}' for k, v in settings.cloud_options(fake.url).items())
    file = tmp_path / 'climate.conf'
    file.write_text(
        f'[DEFAULT]\ntransport_url = fake:/\n[database]\n'
        f'connection = sqlite:///{tmp_path}/climate.sqlite\n[cloud]\n{options}\n'
    )
    return lambda *words: manage.main(['--config-file', str(file), *words])


@pytest.fixture
def reserve(world: FakeServers, database: Database) -> Reserve:
    """Write a lease of a server."""

    def make(**fields: Any) -> model.Lease:
        server = nova.add(world.state)
        made = leases.make(database, [server['id']], world.trust(), **fields)
        return leases.write(database, leases.started(made))

    return make


def forget(database: Database, lease: model.Lease) -> None:
    """Let the end of a lease be due since long, and nobody there."""
    column = tables.EVENTS.c
    with database.writer() as session:
        session.execute(
            sa.update(tables.EVENTS)
            .where(column.lease_id == lease.id, column.event_type == model.END)
            .values(next_at=sql.now(session, -3600.0))
        )


def repairs(database: Database, lease: model.Lease) -> list[Any]:
    page = database.read(listing.read_history_page, lease.id)[0]
    return [entry for _, entry in page if entry.action == 'operator.repair']


def answer(capsys: Capsys) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_commands_find_nothing_wrong_in_a_sound_cloud(
    run: Run, reserve: Reserve, capsys: Capsys
) -> None:
    reserve()
    for words in (('lease', 'stuck'), ('orphans',), ('repair',), ('repair', '--yes')):
        assert run(*words) == 0
        assert capsys.readouterr().out == 'Nothing is wrong.\n'
        assert run(*words, '--format', 'json') == 0
        assert answer(capsys) == []


def test_stuck_lease_is_listed_with_its_reason(
    run: Run, database: Database, reserve: Reserve, capsys: Capsys
) -> None:
    lease = reserve()
    forget(database, lease)
    assert run('lease', 'stuck') == 1
    table = capsys.readouterr().out
    assert lease.id in table
    assert 'not_taken_up' in table
    assert run('lease', 'stuck', '-f', 'json') == 1
    [found] = answer(capsys)
    assert found['lease_id'] == lease.id
    assert 3600 <= found['age'] < 3700
    assert run('lease', 'stuck', '--grace', '7200') == 0


def test_control_characters_of_a_reason_reach_no_terminal(
    run: Run, database: Database, reserve: Reserve, capsys: Capsys
) -> None:
    reserve()
    values = {'status': 'ERROR', 'status_reason': 'a template: \x1b[2J\x9b2J'}
    with database.writer() as session:
        session.execute(sa.update(tables.LEASES).values(values))
    assert run('lease', 'stuck', '--older', '0') == 1
    assert r'a template: \x1b[2J\x9b2J' in capsys.readouterr().out


@pytest.mark.parametrize('words', [('lease', 'stuck'), ('repair',), ('repair', '--yes')])
def test_lease_that_is_not_there_is_trouble(
    run: Run, capsys: Capsys, words: tuple[str, ...]
) -> None:
    assert run(*words, '--lease', 'other') == 2
    assert capsys.readouterr().err.endswith('climate-manage: No lease has the id other.\n')


def test_deleted_lease_is_looked_at(run: Run, database: Database, reserve: Reserve) -> None:
    lease = reserve()
    with database.writer() as session:
        session.execute(sa.update(tables.LEASES).values(deleted_at=sql.now(session, 0.0)))
    assert run('lease', 'stuck', '--lease', lease.id) == 0


@pytest.mark.parametrize(
    ('option', 'value', 'said'),
    [
        ('--grace', '-3', "must be a number of seconds, 0 or more, not '-3'"),
        ('--older', 'nan', "must be a number of seconds, 0 or more, not 'nan'"),
        ('--attempts', '0', "must be a number from 1 on, not '0'"),
    ],
)
def test_thresholds_without_meaning_are_refused(
    run: Run, capsys: Capsys, option: str, value: str, said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run('lease', 'stuck', option, value)
    assert caught.value.code == 2
    assert said in ' '.join(capsys.readouterr().err.split())


def test_repair_does_nothing_without_yes(
    run: Run, world: FakeServers, database: Database, reserve: Reserve, capsys: Capsys
) -> None:
    stuck, lost = reserve(), reserve()
    forget(database, stuck)
    world.destroy(lost.reservations[0].resource_id)
    stray = nova.add(world.state)['id']
    trust = world.trust()
    before = [leases.read(database, each.id) for each in (stuck, lost)]
    assert run('repair', '--trusts') == 1
    out = capsys.readouterr().out
    assert 'pass --yes' in out
    assert all(each in out for each in (stuck.id, lost.id, stray, trust))
    assert [leases.read(database, each.id) for each in (stuck, lost)] == before
    assert stray in world.state.servers
    assert trust in world.state.trusts
    assert repairs(database, stuck) == repairs(database, lost) == []


def test_repair_makes_what_is_stuck_due_and_remembers_it(
    run: Run, database: Database, reserve: Reserve, capsys: Capsys
) -> None:
    lease = reserve()
    forget(database, lease)
    assert run('repair', '--yes', '-f', 'json') == 0
    [repaired] = answer(capsys)
    assert (repaired['what'], repaired['action'], repaired['done'], repaired['trouble']) == (
        lease.id,
        'make the event due now',
        True,
        None,
    )
    end = leases.read(database, lease.id).event(model.END)
    assert end is not None
    assert end.generation == 1
    [entry] = repairs(database, lease)
    assert entry.user_id
    assert run('lease', 'stuck') == 0
    capsys.readouterr()
    forget(database, lease)
    assert run('repair', '--yes') == 0
    assert 'within [engine] idle_seconds (600 s)' in capsys.readouterr().out


def test_repair_marks_what_is_lost(
    run: Run, world: FakeServers, database: Database, reserve: Reserve
) -> None:
    lease, other = reserve(), reserve()
    for each in (lease, other):
        world.destroy(each.reservations[0].resource_id)
    assert run('orphans') == 1
    assert run('repair', '--yes', '--lease', lease.id) == 0
    assert leases.read(database, lease.id).status == 'TERMINATED'
    [entry] = repairs(database, lease)
    assert 'status' in entry.changes
    assert 'deleted outside of the lease' in entry.reason
    assert leases.read(database, other.id).status == 'ACTIVE'
    assert run('repair', '--yes') == 0
    assert run('orphans') == 0


@pytest.mark.parametrize('status', ['ERROR', 'DELETING'])
def test_what_a_lease_has_freed_itself_is_not_lost(
    run: Run, world: FakeServers, database: Database, capsys: Capsys, status: str
) -> None:
    made = leases.make(database, [nova.add(world.state)['id']], world.trust(), status=status)
    [held] = made.reservations
    world.destroy(held.resource_id)
    now = made.created_at
    failed = model.new_event(made.id, model.PREPARE, now, now, held.id)
    failed = dataclasses.replace(failed, status='ERROR', next_at=None)
    held = dataclasses.replace(held, status='error', status_reason='No valid host was found.')
    leases.write(database, made.with_reservations(held).with_events(failed))
    before = leases.read(database, made.id)
    for words in (('orphans',), ('repair',), ('repair', '--yes')):
        assert run(*words) == 0, capsys.readouterr().out
    assert leases.read(database, made.id) == before


def test_both_sides_are_listed(
    run: Run, world: FakeServers, reserve: Reserve, capsys: Capsys
) -> None:
    lease = reserve()
    world.destroy(lease.reservations[0].resource_id)
    stray = nova.add(world.state)['id']
    assert run('orphans', '-f', 'json') == 1
    resource, reservation = answer(capsys)
    assert (resource['side'], resource['resource_id']) == ('resource', stray)
    assert resource['age'] > 0
    assert (reservation['side'], reservation['lease_id']) == ('reservation', lease.id)


def test_a_server_that_waits_for_no_lease_is_deleted(
    run: Run, world: FakeServers, reserve: Reserve
) -> None:
    stray = nova.add(world.state)['id']
    assert run('repair', '--yes', '--lease', reserve().id) == 0
    assert stray in world.state.servers
    assert run('repair', '--yes') == 0
    assert world.effects(stray) == ['delete']
    # Nova deletes it when it has time to.
    assert run('repair', '--yes') == 0
    assert world.gone(stray)


def test_a_server_whose_lease_may_be_on_its_way_is_left(
    run: Run, world: FakeServers, capsys: Capsys
) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
    made = nova.add(world.state, created=now, updated=now)['id']
    changed = nova.add(world.state, updated=now)['id']
    assert run('repair', '--yes', '-f', 'json') == 1
    assert [each['action'] for each in answer(capsys)] == [None, None]
    assert {made, changed} <= set(world.state.servers)
    assert run('repair', '--yes', '--safe', '0') == 0
    assert world.effects(made) == world.effects(changed) == ['delete']


def test_a_server_that_wakes_meanwhile_is_left(world: FakeServers) -> None:
    plugin = world.plugin()
    server = nova.add(world.state)
    assert plugin.unleased_since(server['id']) is not None
    server['status'] = 'ACTIVE'
    assert plugin.unleased_since(server['id']) is None
    world.destroy(server['id'])
    assert plugin.unleased_since(server['id']) is None
    plugin.discard(server['id'])


def test_a_server_that_gets_its_lease_meanwhile_is_left(
    world: FakeServers, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = nova.add(world.state)['id']
    plugin = world.plugin()
    since = plugin.unleased_since

    def reserved_meanwhile(resource_id: str) -> datetime.datetime | None:
        leases.write(database, leases.make(database, [server]))
        return since(resource_id)

    monkeypatch.setattr(plugin, 'unleased_since', reserved_meanwhile)
    repaired = operator_repair.OperatorRepair(database, {plugin.resource_type: plugin}, yes=True)
    (left,) = repaired.resources(database.read(sql.read_time), 60.0)
    assert (left.done, left.trouble) == (False, 'It belongs to a lease now.')
    assert world.effects(server) == []


def test_what_cannot_be_repaired_does_not_keep_the_rest(
    world: FakeServers, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = sorted(nova.add(world.state)['id'] for _ in range(2))
    plugin = world.plugin()
    discard = plugin.discard

    def refuse(resource_id: str) -> None:
        if resource_id == servers[0]:
            raise exceptions.Permanent('it is locked')
        discard(resource_id)

    monkeypatch.setattr(plugin, 'discard', refuse)
    repaired = operator_repair.OperatorRepair(database, {plugin.resource_type: plugin}, yes=True)
    found = list(repaired.resources(database.read(sql.read_time), 60.0))
    assert [(each.done, each.trouble) for each in found] == [(False, 'it is locked'), (True, None)]
    assert [world.effects(each) for each in servers] == [[], ['delete']]


def test_trusts_are_looked_at_twice(
    run: Run,
    world: FakeServers,
    database: Database,
    reserve: Reserve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = reserve().trust_id
    stray, new = world.trust(), world.trust()
    waited = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        leases.write(database, leases.make(database, [nova.add(world.state)['id']], new))

    # Not the function of the module: threads of other tests call it, too.
    monkeypatch.setattr(command, 'time', types.SimpleNamespace(sleep=pause))
    assert run('repair', '--yes') == 0
    assert stray in world.state.trusts
    assert run('repair', '--yes', '--trusts') == 0
    assert waited == [operator_repair.TRUST_PAUSE_SECONDS]
    assert set(world.state.trusts) == {kept, new}


def test_trust_that_keystone_did_not_let_the_manager_delete_is_deleted(
    run: Run, world: FakeServers, database: Database, capsys: Capsys
) -> None:
    refused = world.trust()
    database.write(trusts.insert_unshared, refused, 'alice-id', 'demo-id')
    database.write(trusts.count_rejection, refused)
    assert run('repair', '--trusts') == 1
    assert refused in capsys.readouterr().out
    assert refused in world.state.trusts
    assert run('repair', '--yes', '--trusts') == 0
    assert world.state.trusts == {}
    assert run('repair', '--trusts') == 0


@pytest.mark.parametrize('words', [('orphans',), ('repair', '--yes')])
def test_a_cloud_that_is_away_is_trouble(
    run: Run, world: FakeServers, reserve: Reserve, capsys: Capsys, words: tuple[str, ...]
) -> None:
    reserve()
    away = {'method': 'GET', 'path': '/servers', 'status': 503, 'count': 100}
    world.state.faults.append(away)
    assert run(*words) == 2
    assert 'climate-manage:' in capsys.readouterr().err


@pytest.mark.parametrize('words', [('orphans',), ('repair',)])
def test_what_another_service_has_is_looked_for(
    run: Run, world: FakeServers, capsys: Capsys, words: tuple[str, ...]
) -> None:
    stray = nova.add(world.state, updated='2020-01-01T00:00:00Z')['id']
    world.state.faults.append({'method': 'GET', 'path': '/stacks', 'status': 503, 'count': 100})
    assert run(*words, '-f', 'json') == 2
    told = capsys.readouterr()
    assert stray in told.out
    assert 'climate-manage: Stack: not checked:' in told.err


@pytest.mark.parametrize('words', [('lease', 'stuck'), ('orphans',), ('repair',)])
def test_a_database_that_does_not_fit_is_trouble(
    run: Run, database: Database, capsys: Capsys, words: tuple[str, ...]
) -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text('DELETE FROM alembic_version'))
    assert run(*words) == 2
    assert 'climate-manage db upgrade' in capsys.readouterr().err


def test_the_managers_are_told(
    run: Run, database: Database, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(command, '_notify_managers', told.append)
    lease = reserve()
    assert run('repair', '--yes') == 0
    assert told == []
    forget(database, lease)
    assert run('repair', '--yes') == 0
    assert len(told) == 1


def test_repair_of_hosts_needs_the_right_in_placement(
    run: Run, database: Database, fake: cloud_server.Server, capsys: Capsys
) -> None:
    forbidden = {'method': 'GET', 'path': 'placement', 'status': 403, 'count': 1}
    fake.state.faults.append(forbidden)
    # Without hosts Placement is not asked.
    assert run('repair') == 0
    fake.state.faults.clear()
    enrolled = EnrolledHosts(fake, database)
    pools.isolate(enrolled.conn, enrolled.read().provider_id, False)
    assert run('repair') == 1
    assert run('repair', '--yes') == 0
    assert 'ordinary servers are not kept off it' in capsys.readouterr().out
    assert enrolled.in_pool() == {'cn1', 'cn2'}
    fake.state.faults.append(forbidden)
    assert run('repair') == 2
    assert 'Host: not checked: Placement answered 403' in capsys.readouterr().err


def test_flavors_of_reservations_that_are_over_are_deleted(
    run: Run, database: Database, fake: cloud_server.Server, capsys: Capsys
) -> None:
    EnrolledHosts(fake, database)
    for flavor_id, name, reserved in (
        ('a', 'reservation:a', 'a'),
        ('b', 'b', 'b'),
        ('c', 'reservation:c', 'other'),
    ):
        fake.state.flavors[flavor_id] = {
            'id': flavor_id,
            'name': name,
            'os-flavor-access:is_public': False,
            'extra_specs': {lanes.EXTRA_SPEC: reserved},
        }
    assert run('orphans') == 1
    assert repair.STALE_FLAVOR in capsys.readouterr().out
    assert run('repair') == 1
    assert run('repair', '--yes') == 0
    assert list(fake.state.flavors) == ['b', 'c']
