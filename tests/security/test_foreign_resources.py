# SPDX-License-Identifier: Apache-2.0
"""A service token reports resources of another project: what every nova-compute can do."""

import dataclasses
import uuid

import pytest
from oslo_config import cfg
from oslo_policy import policy

from climate_core import exceptions
from climate_core.cloud import servers
from climateclient.extension import policies
from tests.conformance.world import Case, lease_of, reservation_of, settle
from tests.support.fakes import nova
from tests.support.fakes.fixtures import fake, world

__all__ = ['fake', 'world']

AMOUNTS = {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}


def report(world, **server):
    """Have a nova-compute report a server of another project; return its reservation."""
    made = nova.add(world.state, project_id='other-id', **server)
    plugin = world.plugin()
    values = {'resource_id': made['id'], 'amounts': AMOUNTS}
    claimed = plugin.reserve(world.context('alice', ['service']), values)
    reservation = reservation_of(claimed, plugin.resource_type)
    return Case(world, plugin, lease_of(reservation, world.user(), world.trust()), reservation)


def test_end_without_a_trust_deletes_no_reported_server_of_another_project(world, caplog):
    case = report(world, status='ACTIVE')
    case.lease = dataclasses.replace(case.lease, trust_id=None)
    case.end()
    assert world.effects(case.resource_id) == []
    assert 'belongs to another project (other-id)' in caplog.text


def test_owner_who_is_an_administrator_starts_no_reported_server_of_another_project(world):
    with world.owner_is_administrator():
        case = report(world)
        case.lease = dataclasses.replace(case.lease, trust_id=world.trust())
        # Nova rejects the first try, which Climate sends without a look at the server.
        case.reservation = dataclasses.replace(case.reservation, progress={})
        with pytest.raises(exceptions.Permanent, match='belongs to another project'):
            case.wake()
    assert world.effects(case.resource_id) == []


@pytest.mark.parametrize(
    ('roles', 'service_roles', 'project_id', 'allowed'),
    [
        (['admin'], [], 'other', True),
        (['admin'], ['service'], 'other', False),
        (['admin'], ['service'], 'own', True),
        (['member'], ['service'], 'own', True),
        (['member'], ['service'], 'other', False),
        (['member'], [], 'own', False),
    ],
)
def test_lease_service_wakes_in_the_project_of_the_owner_only(
    roles, service_roles, project_id, allowed
):
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    enforcer = policy.Enforcer(conf)
    enforcer.register_default(policies.wake_up('wake', 'Start it.', '/'))
    caller = {'roles': roles, 'service_roles': service_roles, 'project_id': 'own'}
    assert enforcer.authorize('wake', {'project_id': project_id}, caller) is allowed


def test_image_that_another_project_shares_takes_the_place_of_none(world):
    """An active image deletes the server, and one that is queued is deleted itself."""
    case = report(world, status='ACTIVE')
    world.state.servers[case.resource_id]['project_id'] = 'demo-id'
    params = {**case.reservation.params, 'on_end': 'create_image'}
    case.reservation = dataclasses.replace(case.reservation, params=params, status='active')
    decoys = [str(uuid.uuid4()), str(uuid.uuid4())]
    for decoy, status in zip(decoys, ('active', 'queued'), strict=True):
        image = {
            'id': decoy,
            'name': 'decoy',
            'status': status,
            'project_id': 'other-id',
            'server_id': '',
            'metadata': {servers.RESERVATION_PROPERTY: case.reservation.id},
        }
        world.state.put('images', image, {'what': 'image create', 'id': decoy})
    case.lease = dataclasses.replace(case.lease, trust_id=None)
    settle(case.end_once)
    assert world.effects(case.resource_id) == ['createImage', 'delete']
    assert set(decoys) < set(world.state.images)
