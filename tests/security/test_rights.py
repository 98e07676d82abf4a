# SPDX-License-Identifier: Apache-2.0
"""What one user asks for never runs with the rights of another user."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease.model import Lease
from tests.support.created import get_id
from tests.support.fakes import cinder, flavors, hypervisors, neutron, nova
from tests.support.fakes.fixtures import fake, stacks
from tests.unit.plugins.leased import Leased

__all__ = ('fake', 'stacks')

LATER, END = '2082-12-01 13:00', '2082-12-01 14:00'
FORCED = 'nova:host'
IMAGE = '0f1e2d3c-4b5a-4968-8776-655443322110'
SNAPSHOT = '5a2c6d1e-8f3b-4a7d-9c50-1e2f3a4b5c6d'
TEMPLATE = {'resources': {'s': {'type': 'OS::Nova::Server', 'properties': {}}}}


@pytest.fixture
def cloud(stacks: Any) -> Iterator[Leased]:
    """Return an engine in front of a cloud with the administrator root and the member eve."""
    made = Leased(stacks)
    stacks.state.user('root', 'secret', 'demo', ['admin', 'manager', 'member', 'reader'])
    stacks.state.user('eve', 'secret', 'demo', ['member', 'reader'])
    flavors.add(stacks.state, id='small')
    hypervisors.add(stacks.state, 'cn1')
    yield made
    made.database.dispose()


def server(**values: Any) -> dict[str, Any]:
    wanted = {
        'name': 'web',
        'flavorRef': 'small',
        'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
        **values,
    }
    return {'resource_type': 'virtual:instance', 'server': wanted}


def device(source: str, source_id: str) -> dict[str, Any]:
    wanted = {'source_type': source, 'uuid': source_id, 'destination_type': 'volume'}
    return {'block_device_mapping_v2': [{'boot_index': 0, **wanted}]}


def foreign_volume(cloud: Leased) -> str:
    return str(cinder.add(cloud.stacks.state, project_id='other-id', status='available')['id'])


def lease_of(cloud: Leased, context: RequestContext, *items: Mapping[str, Any]) -> Lease:
    values = {'name': 'n', 'start_date': LATER, 'end_date': END, 'reservations': [*items]}
    return cloud.lease(get_id(cloud.operations.creator.create_lease(context, values)))


def dry(cloud: Leased, context: RequestContext, *items: Mapping[str, Any], **more: Any) -> Any:
    values = {'name': 'n', 'start_date': LATER, 'end_date': END, 'reservations': [*items], **more}
    found = cloud.operations.check_lease(context, values)
    return [(each['error_code'], each.get('field')) for each in found['refusals']]


def existing(cloud: Leased, kind: str) -> dict[str, Any]:
    state = cloud.stacks.state
    if kind == 'stack':
        resource_id = cloud.stack(owner='eve')['id']
    else:
        resource_id = {'instance': nova, 'volume': cinder}[kind].add(state)['id']
    return {'resource_type': f'virtual:{kind}', 'resource_id': resource_id}


def asked(cloud: Leased) -> dict[str, tuple[dict[str, Any], str]]:
    """Return what a user can add to a lease that runs with its owner's rights, and the field."""
    volume = {'resource_type': 'virtual:volume', 'volume': {'name': 'v', 'size': 1}}
    stack = {'resource_type': 'virtual:stack', 'name': 's', 'template': TEMPLATE}
    return {
        'server to be created': (server(), 'server'),
        'volume to be created': (volume, 'volume'),
        'stack to be created': (stack, 'name'),
        **{
            f'existing {kind}': (existing(cloud, kind), 'resource_id')
            for kind in ('instance', 'volume', 'stack')
        },
    }


def assert_adds_nothing(cloud: Leased, lease: Lease, context: RequestContext, match: str) -> None:
    """Check that nothing joins a lease that would run with its owner's rights."""
    for what, (values, field) in asked(cloud).items():
        with pytest.raises(exceptions.Forbidden, match=match) as caught:
            cloud.operations.creator.add_reservation(context, lease.id, values)
        assert (what, caught.value.status, caught.value.field) == (what, 403, field)
        told = dry(cloud, context, values, id=lease.id)
        assert (what, told) == (what, [(403, f'reservations[0].{field}')])
    cloud.look_around(5)
    assert not cloud.lease(lease.id).reservations
    assert not any(each.get('asked') for each in cloud.stacks.state.servers.values())


@pytest.mark.parametrize(('owner', 'other'), [('root', 'eve'), ('eve', 'root')])
def test_only_the_owner_adds_what_runs_with_the_owners_rights(
    cloud: Leased, owner: str, other: str
) -> None:
    lease = lease_of(cloud, cloud.stacks.context(owner))
    assert_adds_nothing(cloud, lease, cloud.stacks.context(other), 'a lease of your own')


def delegated(cloud: Leased, *roles: str) -> RequestContext:
    """Return the context of an application credential of the owner with these roles."""
    context = cloud.stacks.user()
    # A role of another domain may have the name of one that the token lacks.
    context.own_token = False
    context.role_ids = {each: f'{each}-id' for each in roles}
    return context


def test_token_with_fewer_roles_than_the_trust_adds_nothing_that_runs_with_it(
    cloud: Leased,
) -> None:
    lease = lease_of(cloud, cloud.stacks.user())
    (trust,) = cloud.stacks.state.trusts.values()
    first, *rest = trust['roles']
    assert rest
    match = f'a token that has the roles {", ".join(sorted(rest))}, with which'
    assert_adds_nothing(cloud, lease, delegated(cloud, first, 'other'), match)


def test_token_with_the_roles_of_the_trust_adds_to_the_lease(cloud: Leased) -> None:
    lease = lease_of(cloud, cloud.stacks.user())
    (trust,) = cloud.stacks.state.trusts.values()
    context = delegated(cloud, *trust['roles'], 'other')
    assert dry(cloud, context, server(), id=lease.id) == []
    cloud.operations.creator.add_reservation(context, lease.id, server())
    # A token of the trust itself is not compared.
    context = delegated(cloud)
    context.trust_id = lease.trust_id
    cloud.operations.creator.add_reservation(context, lease.id, existing(cloud, 'instance'))
    assert len(cloud.lease(lease.id).live) == 2


def test_token_with_fewer_roles_than_the_trust_chooses_no_end_action(cloud: Leased) -> None:
    lease = lease_of(cloud, cloud.stacks.user(), existing(cloud, 'instance'))
    (held,) = lease.reservations
    context, change = delegated(cloud, 'other'), {'on_end': 'create_image'}
    with pytest.raises(
        exceptions.Forbidden, match='on_end: must be given with a lease created with this token'
    ):
        cloud.operations.update_reservation(context, lease.id, held.id, change)
    with pytest.raises(
        exceptions.Forbidden, match='on_end: must be given with a lease created with this token'
    ):
        cloud.operations.update_lease(
            context, lease.id, {'reservations': [{'id': held.id, **change}]}
        )
    assert cloud.lease(lease.id) == lease
    cloud.operations.update_lease(context, lease.id, {'end_date': '2082-12-01 15:00'})


def test_trust_of_a_new_lease_has_no_more_roles_than_the_token(cloud: Leased) -> None:
    """Keystone checks it, since the token creates the trust."""
    owner = cloud.stacks.user()
    lease_of(cloud, owner)
    context = delegated(cloud, 'reader')
    context.roles = ['reader']
    lease = lease_of(cloud, context)
    assert cloud.stacks.state.trusts[lease.trust_id]['roles'] == ['reader']


def test_member_cannot_have_a_server_created_with_an_administrators_rights(cloud: Leased) -> None:
    """It forces a host, and attaches the volume of another project."""
    lease = lease_of(cloud, cloud.stacks.context('root'), server())
    volume_id = foreign_volume(cloud)
    wanted = server(availability_zone=FORCED, **device('volume', volume_id))
    with pytest.raises(exceptions.ClimateError) as caught:
        cloud.operations.creator.add_reservation(cloud.stacks.context('eve'), lease.id, wanted)
    assert 400 <= caught.value.status < 500
    cloud.look_around(5)
    (made,) = cloud.stacks.state.servers.values()
    assert 'availability_zone' not in made['asked']


@pytest.mark.parametrize('kind', ['instance', 'volume', 'stack'])
def test_another_user_chooses_no_end_action_that_runs_with_the_owners_rights(
    cloud: Leased, kind: str
) -> None:
    alice, eve = cloud.stacks.user(), cloud.stacks.context('eve')
    values = existing(cloud, kind)
    if kind == 'stack':
        values['resource_id'] = cloud.stack()['id']
    lease = lease_of(cloud, alice, values)
    (held,) = lease.reservations
    copies = {'instance': 'create_image', 'volume': 'backup', 'stack': 'snapshot'}
    change = {'on_end': copies[kind]}
    with pytest.raises(exceptions.Forbidden, match='a lease of your own') as caught:
        cloud.operations.update_reservation(eve, lease.id, held.id, change)
    assert caught.value.field == 'on_end'
    together = {'reservations': [{'id': held.id, **change}]}
    with pytest.raises(exceptions.Forbidden) as caught:
        cloud.operations.update_lease(eve, lease.id, together)
    assert caught.value.field == 'reservations[0].on_end'
    assert cloud.lease(lease.id) == lease
    # A change to what it has is none.
    cloud.operations.update_reservation(eve, lease.id, held.id, {'on_end': 'delete'})
    cloud.operations.update_reservation(alice, lease.id, held.id, change)
    assert cloud.lease(lease.id).reservations[0].params['on_end'] == copies[kind]


def test_another_user_extends_shrinks_and_ends_a_lease(cloud: Leased) -> None:
    alice, eve = cloud.stacks.user(), cloud.stacks.context('eve')
    lease = lease_of(cloud, alice, existing(cloud, 'instance'), existing(cloud, 'volume'))
    cloud.operations.update_lease(eve, lease.id, {'end_date': '2082-12-01 15:00'})
    cloud.operations.remove_reservation(eve, lease.id, lease.reservations[0].id)
    cloud.look_around(3)
    assert len(cloud.lease(lease.id).live) == 1
    cloud.operations.end_lease(eve, lease.id)


def foreign(cloud: Leased) -> dict[str, dict[str, Any]]:
    """Return what a specification can name of another project or of no project, by the field."""
    state = cloud.stacks.state
    volume_id = foreign_volume(cloud)
    state.images[IMAGE] = {'id': IMAGE, 'project_id': 'other-id', 'visibility': 'private'}
    state.snapshots[SNAPSHOT] = {
        'id': SNAPSHOT,
        'volume_id': volume_id,
        'project_id': 'other-id',
        'status': 'available',
    }
    stranger = nova.add(state, project_id='other-id')['id']
    uuid_field = 'block_device_mapping_v2[0].uuid'
    return {
        uuid_field: device('volume', volume_id),
        f'{uuid_field} ': device('volume', neutron.NETWORK),
        f'{uuid_field}  ': device('image', IMAGE),
        f'{uuid_field}   ': device('snapshot', SNAPSHOT),
        f'{uuid_field}    ': device('volume', '../os-services'),
        'block_device_mapping_v2[0].source_type': device('blank', volume_id),
        'imageRef': {'imageRef': IMAGE},
        'key_name': {'key_name': 'other'},
        'networks[0].uuid': {'networks': [{'uuid': neutron.PORT}]},
        'networks[0].port': {'networks': [{'port': neutron.NETWORK}]},
        'security_groups[1].name': {'security_groups': [{'name': 'default'}, {'name': 'theirs'}]},
        'scheduler_hints.group': {'scheduler_hints': {'group': stranger}},
        'scheduler_hints.same_host': {'scheduler_hints': {'same_host': stranger}},
        'scheduler_hints.different_host[0]': {'scheduler_hints': {'different_host': [stranger]}},
        'availability_zone': {'availability_zone': FORCED},
        'availability_zone ': {'availability_zone': 'nova::node'},
    }


@pytest.mark.parametrize('user', ['alice', 'root'])
def test_ids_in_a_specification_of_a_server_are_the_users_own(cloud: Leased, user: str) -> None:
    """Administrators see those of other projects; they are not delegated that right."""
    context = cloud.stacks.context(user)
    for name, values in foreign(cloud).items():
        field = f'reservations[0].server.{name.strip()}'
        with pytest.raises(exceptions.ClimateError) as caught:
            lease_of(cloud, context, server(**values))
        assert (values, caught.value.field) == (values, field)
        assert caught.value.status in (400, 403)
        assert dry(cloud, context, server(**values)) == [(caught.value.status, field)]
    assert not cloud.stacks.state.trusts


@pytest.mark.parametrize('user', ['alice', 'root'])
def test_ids_in_a_specification_of_a_volume_are_the_users_own(cloud: Leased, user: str) -> None:
    context = cloud.stacks.context(user)
    foreign(cloud)
    for name, value in {'source_volid': foreign_volume(cloud), 'imageRef': IMAGE}.items():
        item = {'resource_type': 'virtual:volume', 'volume': {'name': 'v', 'size': 1, name: value}}
        with pytest.raises(exceptions.ResourceNotFound) as caught:
            lease_of(cloud, context, item)
        assert caught.value.field == f'reservations[0].volume.{name}'
    assert not cloud.stacks.state.trusts


def test_own_ids_in_a_specification_are_accepted(cloud: Leased) -> None:
    state = cloud.stacks.state
    volume_id = cinder.add(state, status='available')['id']
    beside = nova.add(state)['id']
    wanted = server(
        availability_zone='nova',
        security_groups=[{'name': 'default'}],
        networks=[{'uuid': neutron.NETWORK}],
        scheduler_hints={'group': nova.SERVER_GROUP, 'different_host': [beside]},
        **device('volume', volume_id),
    )
    assert len(lease_of(cloud, cloud.stacks.user(), wanted).reservations) == 1


def test_token_without_a_role_to_delegate_is_rejected_in_the_dry_run_too(cloud: Leased) -> None:
    cloud.stacks.state.user('bare', 'secret', 'demo', ['admin'])
    context = cloud.stacks.context('bare')
    assert dry(cloud, context) == [(403, None)]
    with pytest.raises(exceptions.Forbidden, match='trust_roles'):
        lease_of(cloud, context)


def test_trust_of_an_administrator_does_nothing_that_a_member_may_not(cloud: Leased) -> None:
    lease_of(cloud, cloud.stacks.context('root'), server())
    (trust,) = cloud.stacks.state.trusts.values()
    assert trust['roles'] == ['member', 'reader']
