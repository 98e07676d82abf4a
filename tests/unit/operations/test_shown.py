# SPDX-License-Identifier: Apache-2.0
"""What a create returns to the API."""

import json
from typing import Any, cast

import pytest

from climate_core.cloud import Cloud
from climate_core.lease import views
from climate_hosts import nodes
from climate_hosts.db import hosts as db_hosts
from climate_hosts.plugins.host import HostPlugin
from tests.support.world import World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LEASE = {'name': 'n', 'start_date': '2082-12-01 13:00', 'end_date': '2082-12-01 14:00'}
NOTES = [
    {'event_type': 'late', 'time': '2082-12-01 13:50'},
    {'event_type': 'early', 'time': '2082-12-01 13:10'},
]
HOSTS = {'resource_type': HostPlugin.resource_type, 'min': 2}


@pytest.fixture
def world(world: World) -> World:
    world.conf.register_opts(HostPlugin.options, group=HostPlugin.resource_type)
    world.plugins[HostPlugin.resource_type] = HostPlugin(world.conf, cast(Cloud, None))
    for name in ('cn1', 'cn2', 'cn3', 'cn4'):
        known = nodes.Node(
            hypervisor_hostname=name, service_name=name, capacity={'vcpus': 4}, details={}
        )
        world.database.write(db_hosts.insert, 'default', name, (f'{name}-lane',), known, {})
    return world


def _create(world: World, **values: Any) -> Any:
    return world.operations.creator.create_lease(user(), {**LEASE, **values})


@pytest.mark.parametrize(
    'values',
    [
        {'events': NOTES, 'before_start': [60, 600]},
        {'webhook': {'url': 'https://example.org/hook', 'secret': 'correct horse battery'}},
        {'reservations': [HOSTS, HOSTS]},
        {'idempotency_key': 'k', 'start_policy': 'manual', 'before_end_date': '2082-12-01 13:30'},
    ],
)
def test_a_new_lease_is_shown_as_it_is_read(world: World, values: dict[str, Any]) -> None:
    things = [world.wanted('a') | {'colour': 'red'}, world.wanted('b')]
    made = _create(world, **{'reservations': things, **values})
    shown = views.lease_view(world.lease(made['id']), viewer_id=user().user_id)
    assert made == json.loads(json.dumps(shown))


def test_the_hosts_that_are_promised_are_shown(world: World) -> None:
    (first,) = _create(world, reservations=[HOSTS])['reservations']
    (second,) = _create(world, reservations=[HOSTS])['reservations']
    assert sorted(first['hosts'] + second['hosts']) == ['cn1', 'cn2', 'cn3', 'cn4']


def test_repeated_create_returns_the_lease_that_was_there(world: World) -> None:
    things = [world.wanted('a')]
    made = _create(world, id=ID, reservations=things)
    assert made['id'] == ID
    for reservations in (things, [*things, world.wanted('b')]):
        assert _create(world, id=ID, reservations=reservations) == ID
    equal = _create(world, reservations=[world.wanted('c')])['id']
    assert _create(world, reservations=[world.wanted('c')]) == equal
