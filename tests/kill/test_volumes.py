# SPDX-License-Identifier: Apache-2.0
"""A manager dies on the way of leases with volumes, alone and with the server that has them."""

import pytest

from tests.kill.deaths import check_told, end, kills, start, start_with_deaths
from tests.support.databases import ENGINES
from tests.support.fakes import leases


def woken(stage):
    """Return a volume that is there."""
    (volume,) = stage.cloud.volumes(1, status='available', mark=False)
    return volume


def ending(stage, servers=(), volumes=(), volume_end='delete'):
    """Return a lease that has started and is over now, and its trust."""
    trust_id = stage.cloud.trust()
    made = leases.make(
        stage.database, [*servers], trust_id, volume_ids=[*volumes], volume_end=volume_end
    )
    return leases.write(stage.database, leases.due(leases.started(made))), trust_id


def survive(stage, kill, lease):
    """See a lease end in spite of a death, and its end told."""
    end(stage, kill, lease)
    check_told(stage, 'lease.event.end_lease', kill)


def order(stage, *entries):
    """Check that these are in the journal in this order: what, and of whom."""
    journal = [(entry['what'], entry['id']) for entry in stage.cloud.journal()]
    places = [journal.index(entry) for entry in entries]
    assert places == sorted(places)


@pytest.mark.parametrize(
    'kill',
    [
        *kills('start_lease', looks=(1, 2, 3)),
        # The third look calls for the volume and for the server.
        *(f'{point}:start_lease:5' for point in ('remote.before', 'remote.after')),
    ],
)
def test_start_of_a_server_with_its_volume(stage, kill):
    (server,), (volume,) = stage.cloud.servers(1), stage.cloud.volumes(1)
    lease = leases.make(stage.database, [server], stage.cloud.trust(), volume_ids=[volume])
    leases.write(stage.database, lease)

    start(stage, kill, lease)

    effects = stage.cloud.effects()
    assert (effects[volume], effects[server]) == (['os-wake_up'], ['wake_up'])
    order(stage, ('os-wake_up', volume), ('wake_up', server))
    states = [e for e in stage.cloud.journal() if e['id'] == volume and e['what'] == 'volume is']
    assert [each['status'] for each in states] == ['downloading', 'available']
    check_told(stage, 'lease.event.start_lease', kill)


@pytest.mark.parametrize('kill', kills('end_lease', looks=(1, 2, 3, 4)))
def test_end_of_a_server_with_its_volume(stage, kill):
    (server,), volume = stage.cloud.servers(1, status='ACTIVE'), woken(stage)
    stage.cloud.attach(volume, server)
    lease, trust_id = ending(stage, [server], [volume], 'backup')

    survive(stage, kill, lease)

    effects = stage.cloud.effects()
    assert (effects[server], effects[volume]) == (['delete'], ['backup', 'delete'])
    assert effects[trust_id] == ['trust delete']
    assert stage.made('backup create') == 1
    order(stage, ('server gone', server), ('backup', volume), ('volume gone', volume))


@pytest.mark.parametrize('kill', kills('end_lease', looks=(1, 2, 3)))
def test_end_of_the_volume_of_a_server_that_goes_on(stage, kill):
    (server,), volume = stage.cloud.servers(1, status='ACTIVE'), woken(stage)
    stage.cloud.attach(volume, server)
    lease, _ = ending(stage, [], [volume], 'snapshot')

    survive(stage, kill, lease)

    effects = stage.cloud.effects()
    assert (effects[server], effects[volume]) == ([], ['detach', 'snapshot'])
    assert stage.made('snapshot create') == 1


@pytest.mark.parametrize('kill', kills('end_lease', looks=(1,)))
def test_end_of_a_volume_that_was_never_there(stage, kill):
    (volume,) = stage.cloud.volumes(1)
    lease = leases.make(
        stage.database, [], stage.cloud.trust(), volume_ids=[volume], volume_end='nothing'
    )
    lease = leases.write(stage.database, leases.due(leases.started(lease)))
    survive(stage, kill, lease)
    assert stage.cloud.effects()[volume] == ['delete']


@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_the_whole_life_with_a_death_at_every_remote_call(stage):
    servers, volumes = stage.cloud.servers(1), stage.cloud.volumes(2)
    lease = leases.make(stage.database, servers, stage.cloud.trust(), volume_ids=volumes)
    leases.write(stage.database, lease)
    start_with_deaths(stage, lease)

    effects = stage.cloud.effects()
    assert [effects[each] for each in volumes] == [['os-wake_up']] * 2
    assert [effects[each] for each in servers] == [['wake_up']]
