# SPDX-License-Identifier: Apache-2.0
"""Locks that a late manager leaves on the server of a preemptible lease."""

import dataclasses

import pytest

from climate_core.engine.allocations import AllocationKeeper
from tests.support.fakes import leases, nova

SERVER = 'virtual:instance'
OURS = 'Climate: the preemptible lease {} gave way to another one.'


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
    keeper = AllocationKeeper(None, {SERVER: world.plugin()})
    keeper.end_again(dataclasses.replace(over, reservations=freed))
    assert world.effects(server) == (['unlock'] if is_its_own else [])
