# SPDX-License-Identifier: Apache-2.0
"""Boots with the hints of a reservation whose server the lease service creates itself."""

import dataclasses
import uuid

import pytest

from climate_core import exceptions
from climate_core.api import policy
from climate_core.lease import model, transitions
from tests.support.created import get_id
from tests.support.fakes import flavors, nova
from tests.support.fakes.fixtures import fake, stacks
from tests.unit.plugins.leased import END, Leased

__all__ = ['fake', 'stacks']

DATES = {'start_date': '2082-12-01 13:00', 'end_date': END}
SERVER = {
    'name': 'web',
    'flavorRef': 'small',
    'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
}


@pytest.fixture
def made(stacks):
    """Return an engine in front of a cloud that has the flavor small."""
    flavors.add(stacks.state, id='small')
    leased = Leased(stacks)
    yield leased
    leased.database.dispose()


def create(made):
    wanted = {'resource_type': 'virtual:instance', 'server': SERVER}
    body = {'name': 'lease1', **DATES, 'reservations': [wanted]}
    return get_id(made.operations.creator.create_lease(made.stacks.user(), body))


def join(made, lease_id, reservation_id, resource_id, trust_id, *service_roles):
    """Have a nova-compute ask for a lease with the token that a server was created with."""
    context = made.stacks.context('alice', service_roles or None)
    context.trust_id = trust_id
    values = {
        'resource_type': 'virtual:instance',
        'resource_id': resource_id,
        'made_for': reservation_id,
    }
    if service_roles:
        values['amounts'] = {'servers': 1, 'vcpus': 1, 'memory_mb': 512, 'disk_gb': 1}
    return made.operations.creator.add_reservation(context, lease_id, values)


def asked_for(made):
    """Return a lease whose server is about to be asked for, as a manager leaves it that died."""
    lease_id = create(made)
    made.run()
    lease = made.lease(lease_id)
    (reservation,) = lease.reservations
    assert (reservation.progress['asked'], reservation.is_made) == ('server', False)
    return lease, reservation


@pytest.mark.parametrize('service_roles', [(), ('service',)])
@pytest.mark.parametrize('trust_id', [None, 'trust-of-another-lease'])
def test_boot_of_a_member_is_no_server_of_a_reservation(made, trust_id, service_roles):
    lease, reservation = asked_for(made)
    server_id = nova.add(made.stacks.state)['id']
    with pytest.raises(exceptions.InvalidState, match='climate_reservation') as caught:
        join(made, lease.id, reservation.id, server_id, trust_id, *service_roles)
    assert (caught.value.status, caught.value.field) == (409, 'made_for')
    assert not made.lease(lease.id).reservations[0].is_made


def test_first_server_of_the_lease_service_is_recorded_and_the_second_one_is_not(made):
    lease, reservation = asked_for(made)
    first, second = (nova.add(made.stacks.state)['id'] for _ in range(2))
    asked = lease.id, reservation.id
    for _ in range(2):
        assert join(made, *asked, first, lease.trust_id, 'service') == reservation.id
    assert made.lease(lease.id).reservations[0].resource_id == first
    with pytest.raises(exceptions.InvalidState) as caught:
        join(made, *asked, second, lease.trust_id, 'service')
    assert caught.value.field == 'made_for'
    # The manager that comes next creates no other one, and the end deletes it.
    made.look_around(5)
    assert made.lease(lease.id).reservations[0].resource_id == first
    made.operations.delete_lease(made.stacks.user(), lease.id)
    made.look_around(5)
    assert first not in made.stacks.state.servers


def test_nothing_is_recorded_before_a_server_is_asked_for(made):
    lease = made.lease(create(made))
    (reservation,) = lease.reservations
    server_id = nova.add(made.stacks.state)['id']
    with pytest.raises(exceptions.InvalidState):
        join(made, lease.id, reservation.id, server_id, lease.trust_id, 'service')


def test_new_lease_takes_no_server_of_another_reservation(made):
    wanted = {
        'resource_type': 'virtual:instance',
        'resource_id': nova.add(made.stacks.state)['id'],
        'made_for': str(uuid.uuid4()),
    }
    with pytest.raises(exceptions.InvalidState) as caught:
        body = {'name': 'other', **DATES, 'reservations': [wanted]}
        made.operations.creator.create_lease(made.stacks.user(), body)
    assert caught.value.field == 'reservations[0].made_for'


def test_late_answer_of_nova_does_not_replace_what_is_recorded(made):
    _, reservation = asked_for(made)
    recorded = dataclasses.replace(reservation, resource_id='first')
    late = transitions.Outcome(transitions.Result.WAIT, 0.0, resource_id='second')
    assert transitions.with_progress(recorded, late).resource_id == 'first'
    again = dataclasses.replace(late, resource_id=f'{model.UNMADE}again')
    assert not transitions.with_progress(recorded, again).is_made


def test_token_says_by_which_trust_it_was_issued():
    trust = {'id': 'trust', 'trustee_user': {'id': 'climate'}}
    request = policy.webob.Request.blank('/', headers={'X-User-Id': 'alice'})
    request.environ['keystone.token_info'] = {'token': {'OS-TRUST:trust': trust}}
    assert policy._context(request).trust_id == 'trust'
    request.environ['keystone.token_info'] = {'token': {}}
    assert policy._context(request).trust_id is None
