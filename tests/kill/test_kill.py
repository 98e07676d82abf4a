# SPDX-License-Identifier: Apache-2.0
"""A manager dies at each named point of an event's way; the next one brings it to its end.

The cloud's journal has every call that it accepted: each effect must be there exactly once.
"""

import pytest

from tests.support.databases import ENGINES
from tests.support.fakes import leases

#: Points of an event; each look at a resource passes all of them.
EVENT = ('event.claimed', 'remote.before', 'remote.after', 'finish.before', 'finish.after')
OUTBOX = ('outbox.before', 'outbox.after')
#: The first look asks, the third sees that it is done.
LOOKS = (1, 3)


def kills(event_type, looks=LOOKS):
    """Every point at which to die on the way of an event."""
    found = [f'{point}:{event_type}:{look}' for point in EVENT for look in looks]
    return found + [f'{point}:lease.event.{event_type}:1' for point in OUTBOX]


def check_told(stage, event_type, kill):
    """It was told; again if the one who told it died, but a receiver knows it."""
    times = 2 if kill.startswith('outbox.after') else 1
    stage.until(lambda: len(stage.told(event_type)) >= times)
    told = stage.told(event_type)
    assert len(told) == times
    assert len({payload['event_id'] for payload in told}) == 1


def check_no_error(lease):
    assert {event.status for event in lease.events} <= {'DONE', 'UNDONE'}, lease.events
    assert lease.status_reason is None


@pytest.mark.parametrize('kill', kills('start_lease'))
def test_start(stage, kill):
    (server,) = stage.cloud.servers(1)
    lease = leases.make(stage.database, [server], stage.cloud.trust())
    leases.write(stage.database, lease)

    stage.manager(kill).dies()
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')

    after = stage.lease(lease)
    check_no_error(after)
    assert after.reservations[0].status == 'active'
    assert stage.cloud.effects()[server] == ['wake_up']
    check_told(stage, 'lease.event.start_lease', kill)


@pytest.mark.parametrize(
    ('on_end', 'kill', 'effects'),
    [
        *(('create_image', kill, ['createImage', 'delete']) for kill in kills('end_lease')),
        *(('delete', kill, ['delete']) for kill in kills('end_lease', looks=(1, 2))),
        *(('stop', kill, ['os-stop']) for kill in kills('end_lease', looks=(1,))),
    ],
)
def test_end(stage, on_end, kill, effects):
    (server,) = stage.cloud.servers(1, status='ACTIVE')
    trust_id = stage.cloud.trust()
    lease = leases.started(leases.make(stage.database, [server], trust_id, on_end))
    leases.write(stage.database, leases.due(lease))

    stage.manager(kill).dies()
    stage.manager()
    stage.until(lambda: stage.over(lease))

    after = stage.lease(lease)
    check_no_error(after)
    assert (after.status, after.reservations[0].status) == ('TERMINATED', 'deleted')
    assert stage.cloud.effects()[server] == effects
    assert stage.cloud.effects()[trust_id] == ['trust delete']
    assert stage.images() == effects.count('createImage')
    check_told(stage, 'lease.event.end_lease', kill)


@pytest.mark.parametrize('kill', [f'{point}:release_trust:1' for point in EVENT])
def test_release_of_the_trust(stage, kill):
    (server,) = stage.cloud.servers(1, status='ACTIVE')
    trust_id = stage.cloud.trust()
    lease = leases.started(leases.make(stage.database, [server], trust_id, 'nothing'))
    leases.write(stage.database, leases.due(lease))

    stage.manager(kill).dies()
    stage.manager()
    stage.until(lambda: stage.over(lease))

    check_no_error(stage.lease(lease))
    assert stage.lease(lease).trust_id is None
    assert stage.cloud.effects()[trust_id] == ['trust delete']


@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_the_whole_life_with_a_death_at_every_remote_call(stage):
    """Several resources; one manager after the other dies after a call.

    Each has to wait until the claims of the one before it have expired.
    """
    servers = stage.cloud.servers(3)
    lease = leases.make(stage.database, servers, stage.cloud.trust())
    leases.write(stage.database, lease)
    for count in (1, 2, 3):
        stage.manager(f'remote.after:start_lease:{count}', claims_expire=False).dies()
    stage.manager(claims_expire=False)
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')

    check_no_error(stage.lease(lease))
    effects = stage.cloud.effects()
    assert [effects[each] for each in servers] == [['wake_up']] * 3
