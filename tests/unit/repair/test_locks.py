# SPDX-License-Identifier: Apache-2.0
"""Locks that a late manager leaves on the server of a preemptible lease."""

import dataclasses

import pytest

from climate_core.db import sql
from climate_core.engine.plugin_calls import PluginCaller
from climate_core.lease.events import preemption
from climate_core.repair import reconciliation
from tests.support.fakes import leases, nova

SERVER = 'virtual:instance'
OURS = 'Climate: the preemptible lease {} was preempted by another one.'


def lock(world, lease_id, status='SHELVED_OFFLOADED'):
    """Return a server that the service has locked for a lease; its id."""
    locked = nova.add(world.state, status=status)
    locked.update(locked='admin', locked_reason=OURS.format(lease_id))
    return locked['id']


@pytest.mark.parametrize('is_its_own', [True, False])
def test_lease_that_is_over_undoes_its_own_lock_alone(world, database, is_its_own):
    over = leases.make(database, [], world.trust(), status='TERMINATED', preemptible=True)
    server = lock(world, over.id if is_its_own else 'other')
    had = leases.make(database, [server], world.trust()).reservations
    freed = (dataclasses.replace(had[0], status='deleted', lease_id=over.id),)
    caller = PluginCaller(None, {SERVER: world.plugin()}, None, None, None)
    caller.end_superseded(dataclasses.replace(over, reservations=freed))
    assert world.effects(server) == (['unlock'] if is_its_own else [])


@pytest.mark.parametrize(
    ('status', 'preempts', 'runs', 'is_unlocked'),
    [
        ('ACTIVE', False, True, True),
        ('SHUTOFF', False, True, True),
        # It gives way, and was not shelved yet.
        ('ACTIVE', True, True, False),
        # It is woken: its manager locks it again if there is no room for it.
        ('ACTIVE', False, False, False),
        # It was shelved after this was read.
        ('SHELVED', False, True, False),
        ('SHELVED_OFFLOADED', False, True, False),
    ],
)
def test_late_lock_of_a_server_that_runs_is_undone(
    world, database, status, preempts, runs, is_unlocked
):
    server = lock(world, 'late', status)
    lease = leases.make(database, [server], world.trust(), preemptible=True)
    leases.write(database, leases.started(lease) if runs else lease)
    if preempts:
        now = database.read(sql.read_time)
        leases.change(database, lease.id, preemption.preempt_lease, now, now)
    unlocked = [server] if is_unlocked else []
    assert list(reconciliation.undo_locks(database, world.plugin())) == unlocked
    assert list(reconciliation.undo_locks(database, world.plugin())) == []
    assert world.effects(server) == ['unlock'] * len(unlocked)


def test_late_lock_of_another_lease_is_undone_when_the_server_runs(world, database):
    server = lock(world, 'late', 'ACTIVE')
    lease = leases.started(leases.make(database, [server], world.trust()))
    leases.write(database, lease)
    assert list(reconciliation.undo_locks(database, world.plugin())) == [server]
