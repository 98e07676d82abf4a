# SPDX-License-Identifier: Apache-2.0
"""A manager dies at each named point of an event's way; the next one brings it to its end.

The cloud's journal has every call that it accepted: each effect must be there exactly once.
"""

import pytest

from tests.kill.deaths import (
    EVENT,
    check_no_error,
    check_told,
    end,
    kills,
    start,
    start_with_deaths,
)
from tests.support.databases import ENGINES
from tests.support.fakes import leases


@pytest.mark.parametrize('kill', kills('start_lease'))
def test_killed_start_wakes_the_server_once(stage, kill):
    (server,) = stage.cloud.servers(1)
    lease = leases.make(stage.database, [server], stage.cloud.trust())
    leases.write(stage.database, lease)

    start(stage, kill, lease)

    assert stage.cloud.effects()[server] == ['wake_up']
    check_told(stage, 'lease.event.start_lease', kill)


@pytest.mark.parametrize(
    ('kill', 'left'),
    [
        ('finish.before:start_lease:2', 'UNDONE'),
        ('finish.after:start_lease:2', 'DONE'),
        ('outbox.before:lease.event.start_lease:1', 'DONE'),
    ],
)
@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_killed_finish_of_a_server_that_is_awake_wakes_it_once(stage, kill, left):
    (server,) = stage.cloud.servers(1, is_fast=True)
    lease = leases.make(stage.database, [server], stage.cloud.trust())
    leases.write(stage.database, lease)
    stage.notified(server, kill).dies()
    # It was not claimed for that look.
    (event,) = stage.lease(lease).events_of('start_lease')
    assert event.status == left
    leases.end_waits(stage.database)
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
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
def test_killed_end_ends_the_server_once(stage, on_end, kill, effects):
    (server,) = stage.cloud.servers(1, status='ACTIVE')
    trust_id = stage.cloud.trust()
    lease = leases.started(leases.make(stage.database, [server], trust_id, on_end))
    leases.write(stage.database, leases.due(lease))

    end(stage, kill, lease)

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

    end(stage, kill, lease)

    assert stage.lease(lease).trust_id is None
    assert stage.cloud.effects()[trust_id] == ['trust delete']


@pytest.mark.parametrize('stage', ENGINES, indirect=True)
def test_the_whole_life_with_a_death_at_every_remote_call(stage):
    servers = stage.cloud.servers(3)
    lease = leases.make(stage.database, servers, stage.cloud.trust())
    leases.write(stage.database, lease)
    start_with_deaths(stage, lease)

    effects = stage.cloud.effects()
    assert [effects[each] for each in servers] == [['wake_up']] * 3
