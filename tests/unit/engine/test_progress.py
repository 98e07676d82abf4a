# SPDX-License-Identifier: Apache-2.0
"""What a plugin keeps of a reservation from one look to the next."""

import json

import pytest

from climate_core import exceptions, notifications
from climate_core.db import listing
from climate_core.lease import model
from climate_core.plugins.base import PollAgain
from tests.support.world import NOON, Time, World

KEPT = {'failures': 2, 'asked': 'secretly'}


def of(world: World, lease_id: str) -> model.Reservation:
    (found,) = world.lease(lease_id).reservations
    return found


@pytest.mark.parametrize(
    'answer',
    [PollAgain(5, None, KEPT), PollAgain(5, 'Slow.', KEPT), exceptions.Transient('No.', KEPT)],
)
@pytest.mark.parametrize('action', ['wake', 'end'])
def test_a_plugin_gets_back_what_it_gave(
    world: World, time: Time, answer: object, action: str
) -> None:
    lease_id = world.create('thing')
    if action == 'end':
        world.run_until_idle()
        world.delete(lease_id)
    world.things.answers[action, 'thing'] = [
        answer,
        PollAgain(5),
        PollAgain(5, None, {'asked': 'more'}),
    ]
    seen = []
    for _ in range(4):
        world.run()
        seen.append(of(world, lease_id).progress)
        time.forward(minutes=1)
    assert seen == [KEPT, KEPT, {'asked': 'more'}, None]


def test_what_a_plugin_keeps_is_told_to_nobody(world: World) -> None:
    lease_id = world.create('thing')
    world.things.answers['wake', 'thing'] = [PollAgain(5, None, KEPT)]
    world.run()
    lease = world.lease(lease_id)
    assert of(world, lease_id).progress == KEPT
    with world.database.reader() as session:
        entries = listing.read_history_page(session, lease_id)[0]
    told = [notifications.build('lease.update', lease, NOON, None), world.sent, entries]
    assert 'secretly' not in json.dumps(told, default=str)


def test_what_fails_for_good_is_forgotten(world: World) -> None:
    lease_id = world.create('thing')
    world.things.answers['wake', 'thing'] = [exceptions.Permanent('No.', KEPT)]
    world.run()
    assert (of(world, lease_id).status, of(world, lease_id).progress) == ('error', None)
