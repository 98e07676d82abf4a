# SPDX-License-Identifier: Apache-2.0
"""What webhooks must be told, in the database: written with the change, claimed, given back."""

import collections
import dataclasses
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from climate_core.db import outbox, store, tables
from climate_core.db.outbox import DeliveriesInProgress, Delivery
from climate_core.lease.history import Cause
from climate_core.lease.transitions import Change
from tests.support.world import Time, World, user

SECRET = 'correct-horse-battery-staple'


def _hook(host: str = 'hook.example') -> dict[str, Any]:
    return {'url': f'http://{host}/', 'secret': SECRET}


def _claim(world: World, limit: int, busy: DeliveriesInProgress) -> list[Delivery]:
    return world.database.write(outbox.claim_deliveries, 60, limit, busy)


def _left(world: World) -> list[Any]:
    with world.database.reader() as session:
        return list(session.execute(sa.select(tables.DELIVERIES).order_by('id')).mappings())


def test_lease_without_a_webhook_takes_no_statement_for_deliveries(world: World) -> None:
    def mine(**values: Any) -> int:
        seen = world.statements(lambda: world.create(**values))
        return len([each for each in seen if 'webhook_deliveries' in each])

    assert mine() == 0
    assert mine(webhook=_hook()) == 1
    assert mine(webhook={**_hook(), 'events': ['lease.delete']}) == 0


def test_webhook_that_accepts_nothing_fills_no_database(any_world: World) -> None:
    """Only the last notifications of a lease wait; those of other leases stay."""
    other = any_world.create('a', webhook=_hook())
    lease_id = any_world.create('b', webhook=_hook())
    for number in range(outbox.MAX_QUEUED_DELIVERIES + 20):
        any_world.update(lease_id, name=f'name{number}')
    left = collections.defaultdict(list)
    for row in _left(any_world):
        left[row['lease_id']].append(row['payload']['name'])
    assert left[lease_id] == [f'name{number}' for number in range(20, number + 1)]
    assert len(left[other]) == 1


def test_what_is_rolled_back_is_not_told(world: World) -> None:
    lease = world.lease(world.create('a', webhook=_hook()))

    def fail(session: orm.Session) -> None:
        change = Change(dataclasses.replace(lease, name='new'), {'lease.update': None})
        store.save(session, lease, change, world.clock.now(), Cause('lease.update'))
        raise RuntimeError

    before = _left(world)
    assert len(before) == 1
    with pytest.raises(RuntimeError):
        world.database.write(fail)
    assert _left(world) == before


def test_one_project_takes_its_share(world: World) -> None:
    for n in range(9):
        world.create(f'a{n}', webhook=_hook(f'hook{n}.example'))
    world.create('b', webhook=_hook('other.example'), context=user('project2'))
    batch = _claim(world, 8, DeliveriesInProgress(2))
    assert [each.project_id for each in batch] == ['project1', 'project1', 'project2']
    busy = DeliveriesInProgress(2, batch)
    assert _claim(world, 8, busy) == []
    assert world.database.read(outbox.seconds_until_delivery, busy) is None
    assert (
        world.database.read(outbox.seconds_until_delivery, DeliveriesInProgress(2, batch[1:])) == 0
    )


def test_one_host_takes_half_of_that(world: World) -> None:
    for n in range(9):
        world.create(f'a{n}', webhook=_hook('hook.example:8000'))
    world.create('b', webhook=_hook())
    batch = _claim(world, 8, DeliveriesInProgress(4))
    assert [each.target for each in batch] == ['hook.example:8000'] * 2 + ['hook.example']
    assert (
        world.database.read(outbox.seconds_until_delivery, DeliveriesInProgress(4, batch)) is None
    )


def test_one_of_a_lease_at_a_time(world: World) -> None:
    world.create('a', webhook=_hook())
    world.run_until_idle()
    first = _claim(world, 8, DeliveriesInProgress(8))
    assert [each.event_type for each in first] == ['lease.create']
    assert _claim(world, 8, DeliveriesInProgress(8, first)) == []
    second = _claim(world, 8, DeliveriesInProgress(8))
    assert [each.event_type for each in second] == ['lease.event.start_lease']


def test_a_claim_that_expired_is_worth_nothing(world: World, time: Time) -> None:
    world.create('a', webhook=_hook())
    (old,) = _claim(world, 1, DeliveriesInProgress(4))
    assert _claim(world, 1, DeliveriesInProgress(4)) == []
    time.forward(seconds=60)
    (new,) = _claim(world, 1, DeliveriesInProgress(4))
    world.database.write(outbox.postpone_delivery, old, 1000.0)
    assert not world.database.write(outbox.delete_delivery, old)
    assert world.database.write(outbox.delete_delivery, new)
    assert _left(world) == []


def test_delivery_that_is_put_off_is_due_later(world: World, time: Time) -> None:
    world.create('a', webhook=_hook())
    (first,) = _claim(world, 1, DeliveriesInProgress(4))
    world.database.write(outbox.postpone_delivery, first, 5.0)
    assert world.database.read(outbox.seconds_until_delivery, DeliveriesInProgress(4)) == 5
    time.forward(seconds=5)
    (again,) = _claim(world, 1, DeliveriesInProgress(4))
    assert (first.attempts, again.attempts) == (0, 1)


def test_claim_of_deliveries_takes_the_same_statements_for_any_number(world: World) -> None:
    for n in range(4):
        world.create(f'a{n}', webhook=_hook(f'hook{n}.example'))
    batch: list[Delivery] = []
    # All four at once: find, claim, read.
    assert (
        len(world.statements(lambda: batch.extend(_claim(world, 4, DeliveriesInProgress(8))))) == 3
    )
    assert len(batch) == 4
    assert (
        len(world.statements(lambda: world.database.write(outbox.delete_delivery, batch[0]))) == 1
    )
