# SPDX-License-Identifier: Apache-2.0
"""Owners of servers that a lease with open matching deletes see that at their servers."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.conf import cloud as reconcile_conf
from climate_core.db import held_resources
from climate_core.repair.reconciliation import Reconciler
from climate_hosts.plugins.capacity import CapacityPlugin
from climate_hosts.plugins.host import HostPlugin
from climate_hosts.plugins.lane_options import MARK
from tests.conformance.lane_world import FLAVOR, Kind, LaneWorld
from tests.support.fakes import cloud_server, flavors
from tests.support.fakes import placement as fake_placement

KINDS = {
    'hosts': Kind(HostPlugin, {'min': 1}, None, 1, {}, {}, ()),
    'flavor': Kind(CapacityPlugin, {'flavor_id': FLAVOR['id'], 'amount': 3}, None, 3, {}, {}, ()),
}
Make = Callable[[], Reconciler]


@pytest.fixture(params=sorted(KINDS))
def world(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[LaneWorld]:
    with cloud_server.running(tmp_path / 'journal') as server:
        flavors.add(server.state, **FLAVOR)
        made = LaneWorld(server, f'sqlite:///{tmp_path}/climate.sqlite', KINDS[request.param])
        made.hosts.conf.register_opts(
            reconcile_conf.RECONCILE_OPTS, group=reconcile_conf.RECONCILE_GROUP
        )
        yield made
        made.engine.database.dispose()


@pytest.fixture
def make(world: LaneWorld) -> Make:
    """Return a function that makes the reconciler of one more manager."""
    plugins = {world.plugin.resource_type: world.plugin}
    trusts: Any = world.engine.trusts
    return lambda: Reconciler(world.hosts.conf, world.engine.database, plugins, trusts)


def marks(world: LaneWorld) -> dict[str, str]:
    """Return the marks of servers, by their ids."""
    found = {each['id']: each.get('metadata', {}) for each in world.state.servers.values()}
    return {one: metadata[MARK] for one, metadata in found.items() if MARK in metadata}


def marked(world: LaneWorld, reconciler: Reconciler) -> int:
    """Compare once; return how often metadata was set."""
    before = len(world.state.requests)
    reconciler.compare()
    sent = world.state.requests[before:]
    return sum(method == 'POST' and path.endswith('/metadata') for method, path, _ in sent)


def started(world: LaneWorld, **values: Any) -> Any:
    lease = world.lease(**values)
    world.engine.run_until_idle()
    _, reservation = world.read(lease)
    assert reservation.status == 'active'
    return lease


def test_server_that_entered_shows_the_lease_and_its_end(world: LaneWorld, make: Make) -> None:
    lease, reconciler = started(world, matching='open'), make()
    assert marked(world, reconciler) == 0
    server = world.enter(lease)
    assert [marked(world, reconciler), marked(world, reconciler)] == [1, 0]
    assert list(marks(world)) == [server]
    assert marks(world)[server] == (
        f'{lease.id}: this server is deleted when the lease ends, 2082-12-01 14:00 UTC'
    )
    world.engine.operations.update_lease(world.user, lease.id, {'end_date': '2082-12-01 15:00'})
    assert marked(world, reconciler) == 1
    assert marks(world)[server].endswith('2082-12-01 15:00 UTC')
    # Another manager, or one that restarts, finds the same.
    assert marked(world, make()) == 1
    assert list(marks(world)) == [server]


def test_server_of_a_targeted_reservation_is_not_marked(world: LaneWorld, make: Make) -> None:
    world.enter(started(world))
    assert marked(world, make()) == 0


def test_server_that_moves_at_the_end_shows_that(world: LaneWorld, make: Make) -> None:
    lease = started(world, matching='open', on_end='migrate')
    server = world.enter(lease)
    make().compare()
    assert 'is moved to another host when the lease ends' in marks(world)[server]


def test_mark_of_a_server_that_left_is_removed(world: LaneWorld, make: Make) -> None:
    lease, reconciler = started(world, matching='open'), make()
    left, kept = world.enter(lease), world.enter(lease)
    reconciler.compare()
    own = world.enter(lease)
    reconciler.compare()
    world.state.servers[own]['metadata'][MARK] = 'what its user wrote'
    for each in (left, own):
        fake_placement.remove_server(world.state, each)
    reconciler.compare()
    assert marks(world).keys() == {kept, own}


def test_server_that_cannot_be_marked_now_is_marked_later(world: LaneWorld, make: Make) -> None:
    lease, reconciler = started(world, matching='open'), make()
    server, gone = world.enter(lease), world.enter(lease)
    # As a migration, Placement has it, and Nova no server of this id.
    del world.state.servers[gone]
    world.state.servers[server]['task_state'] = 'migrating'
    reconciler.compare()
    assert not marks(world)
    world.state.servers[server]['task_state'] = None
    reconciler.compare()
    assert list(marks(world)) == [server]


def test_lease_that_is_deleted_meanwhile_keeps_no_other_server_unmarked(
    world: LaneWorld, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = world.enter(started(world, matching='open'))
    held = held_resources.read_held_page

    def with_deleted(*args: Any) -> Any:
        page = held(*args)
        return [dataclasses.replace(each, lease_id='deleted') for each in page[:1]] + page

    monkeypatch.setattr(held_resources, 'read_held_page', with_deleted)
    make().compare()
    assert list(marks(world)) == [server]


def test_mark_that_cannot_be_removed_now_is_removed_later(
    world: LaneWorld, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, reconciler = started(world, matching='open'), make()
    left = world.enter(lease)
    reconciler.compare()
    fake_placement.remove_server(world.state, left)

    def fail(*_: Any) -> None:
        raise exceptions.Transient('Nova answered 503: Unavailable')

    with monkeypatch.context() as patched:
        patched.setattr(world.plugin, 'remove_mark', fail)
        reconciler.compare()
    assert list(marks(world)) == [left]
    reconciler.compare()
    assert not marks(world)
