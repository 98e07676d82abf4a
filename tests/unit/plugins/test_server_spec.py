# SPDX-License-Identifier: Apache-2.0
"""Servers that are made for a lease: what is checked, kept, shown and told of them."""

import dataclasses
import json

import pytest
from cryptography.fernet import Fernet

from climate_core import exceptions
from climate_core.lease import model, views
from climate_core.plugins import server_spec
from climate_core.plugins.server import ServerPlugin
from tests.support.created import get_id
from tests.support.fakes import flavors, neutron, nova
from tests.unit.plugins.leased import END

START = '2082-12-01 13:00'
SERVER = {
    'name': 'web',
    'flavorRef': 'small',
    'block_device_mapping_v2': [{'source_type': 'blank', 'boot_index': 0}],
}
SECRETS = {'user_data': 'c2VjcmV0', 'adminPass': 'secret'}


@pytest.fixture
def made(leased):
    """Return an engine in front of a cloud that has the flavors small, and none without room."""
    for each in ('small', 'none'):
        flavors.add(leased.stacks.state, id=each)
    key = Fernet.generate_key().decode()
    leased.stacks.conf.set_override('secret_keys', [key], group=ServerPlugin.resource_type)
    return leased


def request(*items, **values):
    listed = items or [item()]
    return {
        'name': 'lease1',
        'start_date': START,
        'end_date': END,
        'reservations': listed,
    } | values


def item(**server):
    return {'resource_type': 'virtual:instance', 'server': {**SERVER, **server}}


def create(made, *items, **values):
    return get_id(
        made.operations.creator.create_lease(made.stacks.user(), request(*items, **values))
    )


def names(made):
    return sorted(each['name'] for each in made.stacks.state.servers.values())


def test_secrets_reach_nova_and_are_shown_nowhere(made):
    lease_id = create(made, item(**SECRETS, count=2))
    before = made.lease(lease_id)
    made.look_around(5)
    servers = made.stacks.state.servers.values()
    assert {(each['asked']['user_data'], each['asked']['adminPass']) for each in servers} == {
        tuple(SECRETS.values())
    }
    made.told()
    everything = [views.lease_view(before), views.lease_view(made.lease(lease_id)), made.sent]
    text = json.dumps(everything)
    assert not any(secret in text for secret in SECRETS.values())
    kept = json.dumps([each.params for each in before.reservations])
    assert not any(secret in kept for secret in SECRETS.values())


@pytest.mark.parametrize('secret', SECRETS)
def test_secret_without_keys_is_refused(made, secret):
    made.stacks.conf.set_override('secret_keys', [], group=ServerPlugin.resource_type)
    with pytest.raises(exceptions.BadRequest) as caught:
        create(made, item(**{secret: SECRETS[secret]}))
    assert caught.value.field == f'reservations[0].server.{secret}'


def test_secret_whose_key_is_missing_waits_for_the_key(made, caplog):
    conf = made.stacks.conf
    before = conf[ServerPlugin.resource_type].secret_keys
    lease_id = create(made, item(**SECRETS))
    key = Fernet.generate_key().decode()
    conf.set_override('secret_keys', [key], group=ServerPlugin.resource_type)
    made.look_around(5)
    lease = made.lease(lease_id)
    assert lease.status != 'ERROR'
    (reservation,) = lease.reservations
    assert f'the password of reservation {reservation.id}' in caplog.text
    assert any('secret_keys of climate.conf' in (e.status_reason or '') for e in lease.events)
    assert names(made) == []
    conf.set_override('secret_keys', [key, *before], group=ServerPlugin.resource_type)
    made.time.forward(minutes=10)
    made.look_around(5)
    assert names(made) == ['web']
    (server,) = made.stacks.state.servers.values()
    assert server['asked']['adminPass'] == SECRETS['adminPass']


def test_secret_of_another_lease_does_not_open(made):
    conf = made.stacks.conf
    theirs = made.lease(create(made, item(**SECRETS)))
    mine = made.lease(create(made, item()))
    (stolen,), (own,) = theirs.reservations, mine.reservations
    sealed = stolen.params[model.SEALED]
    copied = dataclasses.replace(own, params={**own.params, model.SEALED: sealed})
    lease = dataclasses.replace(mine, reservations=(copied,))
    with pytest.raises(exceptions.Transient):
        server_spec.build_request(lease, copied, conf[ServerPlugin.resource_type].secret_keys)


LARGE = {'metadata': {'a': 'b'}, 'networks': 'none', 'security_groups': [{'name': 'default'}]}


def test_what_is_stored_once_reaches_every_server(made):
    """Also when the reservation that stores it was removed before they are made."""
    beside = nova.add(made.stacks.state, name='beside')['id']
    hints = {'same_host': [beside]}
    lease_id = create(made, item(**LARGE, **SECRETS, scheduler_hints=hints, count=3))
    first, *others = made.lease(lease_id).reservations
    assert 'metadata' in first.params['server']
    for each in others:
        assert each.params['server'] == {
            'name': each.params['server']['name'],
            'flavorRef': 'small',
            'networks': 'none',
        }
    made.operations.remove_reservation(made.stacks.user(), lease_id, first.id)
    made.look_around(10)
    assert names(made) == ['beside', 'web-2', 'web-3']
    del made.stacks.state.servers[beside]
    for each in made.stacks.state.servers.values():
        asked = each['asked']
        assert asked['metadata'] == {'a': 'b'}
        assert asked['block_device_mapping_v2'] == SERVER['block_device_mapping_v2']
        assert asked['security_groups'] == [{'name': 'default'}]
        assert asked['adminPass'] == 'secret'
        assert 'scheduler_hints' not in asked
        assert hints.items() <= each['hints'].items()


def test_request_that_is_repeated_makes_no_more(made):
    ours = '7c9b2e4d-1f6a-4b38-8e05-d2a9c7f41b60'
    assert create(made, item(count=2), id=ours) == create(made, item(count=2), id=ours)
    made.look_around(5)
    assert create(made, item(count=2), id=ours) == ours
    assert names(made) == ['web-1', 'web-2']
    assert len(made.lease(ours).reservations) == 2


def test_join_adds_servers_to_a_lease_that_runs(made):
    lease_id = create(made, start_date='now')
    made.run_for(lease_id, 'ACTIVE')
    made.operations.creator.add_reservation(made.stacks.user(), lease_id, item(name='db', count=2))
    made.look_around(5)
    lease = made.lease(lease_id)
    assert (lease.status, {each.status for each in lease.reservations}) == ('ACTIVE', {'active'})
    assert names(made) == ['db-1', 'db-2', 'web']
    assert {each['status'] for each in made.stacks.state.servers.values()} == {'ACTIVE'}


def test_one_without_room_takes_its_request_along(made):
    lease_id = create(made, item(), item(name='big', flavorRef='none', count=2))
    made.look_around(10)
    assert [each.status for each in made.lease(lease_id).reservations] == ['error'] * 3
    assert names(made) == []


def test_one_without_room_takes_no_other_request_along(made):
    lease_id = create(made)
    made.look_around(1)
    big = item(name='big', flavorRef='none', count=2)
    made.operations.creator.add_reservation(made.stacks.user(), lease_id, big)
    made.look_around(10)
    lease = made.lease(lease_id)
    assert [each.status for each in lease.reservations] == ['pending', 'error', 'error']
    assert names(made) == ['web']
    assert lease.status_reason.count('No valid host was found.') == 1
    for each in lease.reservations[1:]:
        made.operations.remove_reservation(made.stacks.user(), lease_id, each.id)
    made.look_around(3)
    assert made.lease(lease_id).status == 'PENDING'


def test_server_of_a_user_with_the_hint_of_another_reservation_does_not_join(made):
    lease_id = create(made)
    made.look_around(5)
    (reservation,) = made.lease(lease_id).reservations
    other = nova.add(made.stacks.state)['id']
    joining = {'resource_type': 'virtual:instance', 'resource_id': other}
    with pytest.raises(exceptions.InvalidState):
        made.operations.creator.add_reservation(
            made.stacks.user(), lease_id, {**joining, 'made_for': reservation.id}
        )


@pytest.mark.parametrize(
    ('server', 'field'),
    [
        ({'flavorRef': 'large'}, 'flavorRef'),
        ({'imageRef': neutron.PORT}, 'imageRef'),
        ({'key_name': 'other'}, 'key_name'),
        ({'scheduler_hints': {'group': neutron.PORT}}, 'scheduler_hints.group'),
        ({'networks': [{'uuid': neutron.PORT}]}, 'networks[0].uuid'),
        ({'networks': [{'port': neutron.NETWORK}]}, 'networks[0].port'),
        ({'networks': [{}]}, 'networks[0]'),
        ({'networks': [{'port': neutron.PORT}], 'count': 2}, 'networks[0].port'),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_written(made, server, field):
    with pytest.raises(exceptions.ClimateError) as caught:
        create(made, item(), item(**server))
    assert caught.value.field == f'reservations[1].server.{field}'
    assert not made.stacks.state.trusts


def test_create_with_things_that_are_there_is_accepted(made):
    networks = [{'uuid': neutron.NETWORK}, {'port': neutron.PORT}]
    hints = {'group': nova.SERVER_GROUP}
    create(made, item(networks=networks, key_name='key', scheduler_hints=hints))


def test_external_network_is_accepted_if_nova_lets_members_attach_it(made):
    """The operator says so: Climate cannot read the policy of Nova."""
    wanted = item(networks=[{'uuid': neutron.PUBLIC}])
    with pytest.raises(exceptions.BadRequest) as caught:
        create(made, wanted)
    assert caught.value.field == 'reservations[0].server.networks[0].uuid'
    made.stacks.conf.set_override('external_networks', True, group=ServerPlugin.resource_type)
    create(made, wanted)


@pytest.mark.parametrize('path', ['os-availability-zone', '/networks/'])
def test_zones_and_networks_that_a_policy_hides_are_not_checked(made, path):
    """Nova rejects no port of the project because its network is hidden."""
    status = 403 if path == 'os-availability-zone' else 404
    fault = {'method': 'GET', 'path': path, 'status': status, 'count': 10}
    made.stacks.state.faults.append(fault)
    create(
        made,
        item(
            availability_zone='none' if status == 403 else 'nova',
            networks=[{'port': neutron.PORT}],
        ),
    )
    assert fault['count'] < 10


@pytest.mark.parametrize(
    ('values', 'field'),
    [({}, 'resource_id'), ({'resource_id': neutron.PORT, 'server': SERVER}, 'server')],
)
def test_neither_or_both_of_a_server_and_what_to_make_is_refused(made, values, field):
    with pytest.raises(exceptions.BadRequest) as caught:
        create(made, {'resource_type': 'virtual:instance', **values})
    assert caught.value.field == f'reservations[0].{field}'


def test_lost_deletion_of_a_server_that_is_made_again_is_repaired(made, monkeypatch):
    add = nova.add
    monkeypatch.setattr(nova, 'add', lambda state, **fields: add(state, **{**fields, 'next': []}))
    lease_id = create(made)
    made.look_around(1)
    monkeypatch.undo()
    (server_id,) = made.stacks.state.servers
    made.time.forward(minutes=11)
    made.run_until_idle()
    made.stacks.state.servers[server_id]['next'] = []
    made.look_around(70)
    told = [each['what'] for each in made.stacks.state.journal() if each['id'] == server_id]
    assert told == ['server create', 'delete', 'os-resetState', 'delete', 'server gone']
    assert names(made) == ['web']
    made.run_for(lease_id, 'ACTIVE')
