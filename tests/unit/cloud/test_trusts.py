# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from climate_core import exceptions
from climate_core.cloud import errors


def test_every_role_of_the_token_is_delegated(world):
    trust = world.state.trusts[world.trust()]
    assert trust['roles'] == ['member', 'reader']
    assert trust['impersonation'] is True
    assert trust['project_id'] == 'demo-id'
    assert trust['trustor_user_id'] == 'alice-id'
    assert trust['trustee_user_id'] == 'climate-id'


def test_roles_are_delegated_by_their_ids_where_these_are_known(world):
    context = world.context('alice')
    context.role_ids = {'member': 'member-id'}
    trust = world.state.trusts[world.trusts.create(context)]
    assert trust['roles'] == ['member', 'reader']


def test_only_the_roles_that_are_wanted(world):
    world.conf.set_override('trust_roles', ['member', 'heat'], group='cloud')
    assert world.state.trusts[world.trust()]['roles'] == ['member']


def test_no_role_of_an_administrator_is_delegated(world):
    roles = ['admin', 'manager', 'member', 'reader', 'service', 'creator', 'Cloud_Admin']
    user = world.state.user('root', 'secret', 'demo', roles)
    trust = world.state.trusts[world.trusts.create(world.context('root'))]
    assert (trust['trustor_user_id'], trust['roles']) == (
        user['id'],
        ['member', 'reader', 'creator'],
    )
    world.conf.set_override('trust_roles', ['admin'], group='cloud')
    assert world.state.trusts[world.trusts.create(world.context('root'))]['roles'] == ['admin']


@pytest.mark.parametrize('configured', [[], ['member']])
def test_token_without_a_role_to_delegate_is_rejected(world, configured):
    world.state.user('root', 'secret', 'demo', ['admin'])
    world.conf.set_override('trust_roles', configured, group='cloud')
    for call in (world.trusts.create, world.trusts.scope, world.trusts.check):
        with pytest.raises(exceptions.Forbidden, match='no role that can be delegated'):
            call(own(world, roles=['admin']))
    assert not world.state.trusts


def test_roles_of_a_trust_are_those_that_it_gives_now(world):
    trust_id = world.trusts.create(world.context('alice'), ['reader'])
    assert world.state.trusts[trust_id]['roles'] == ['reader']
    assert world.trusts.roles(trust_id) == ['reader']
    world.state.users['alice-id']['enabled'] = False
    with pytest.raises(errors.TrustRejected):
        world.trusts.roles(trust_id)
    world.state.users['alice-id']['enabled'] = True
    assert world.trusts.roles(trust_id) == ['reader']
    world.trusts.delete(trust_id)
    with pytest.raises(errors.TrustRejected):
        world.trusts.roles(trust_id)


def test_roles_of_a_trust_while_keystone_is_away_are_not_none(world):
    trust_id = world.trust()
    with world.unreachable(), pytest.raises(exceptions.Transient):
        world.trusts.roles(trust_id)


@pytest.mark.parametrize('call', ['create', 'check'])
def test_a_token_that_may_not_delegate(world, call):
    user = world.state.users['alice-id']
    context = world.context('alice')
    context.auth_token = world.state.token(user, 'demo-id', user['roles'], 'some-trust')
    advice = (
        '^Use a token .*keystone.conf. Every lease and feed needs .*answered 403: .*make a trust'
    )
    with pytest.raises(exceptions.Forbidden, match=advice):
        getattr(world.trusts, call)(context)


def test_advice_for_delegated_tokens_is_not_given_for_others(world):
    user = world.state.users['alice-id']
    token = world.state.token(user, 'demo-id', user['roles'], 'some-trust')
    with pytest.raises(exceptions.Forbidden) as caught:
        world.trusts.create(own(world, auth_token=token))
    assert 'Use a token' not in caught.value.message


def test_check_creates_no_trust_and_asks_nothing_about_the_own_token(world):
    world.trusts.check(world.context('alice'))
    with world.counted() as sent:
        world.trusts.check(own(world))
    assert (sent, world.state.trusts) == ([], {})


def test_create_of_a_trust_while_keystone_is_away_is_unavailable(world):
    with world.unreachable(), pytest.raises(exceptions.ServiceUnavailable):
        world.trust()


def test_trust_that_is_gone_is_deleted_again_without_error(world):
    trust_id = world.trust()
    world.trusts.delete(trust_id)
    world.trusts.delete(trust_id)
    assert not world.state.trusts


def test_delete_as_the_owner_if_the_service_may_not(world):
    trust_id = world.trust()
    world.service_has('service')
    world.trusts.delete(trust_id)
    assert not world.state.trusts


def test_delete_of_a_trust_without_the_right_names_the_administrator(world):
    trust_id = world.trust()
    world.service_has('service')
    world.state.users['alice-id']['enabled'] = False
    with pytest.raises(exceptions.Permanent, match='administrator'):
        world.trusts.delete(trust_id)


def test_trusts_of_the_service_are_listed(world):
    made = {world.trust(), world.trust()}
    assert set(world.trusts.list_own()) == made


def own(world, **more):
    context = world.context('alice')
    context.own_token = True
    for name, value in more.items():
        setattr(context, name, value)
    return context


def test_scope_is_what_the_trust_delegates(world):
    scope = world.trusts.scope(own(world))
    trust = world.state.trusts[world.trusts.create(own(world), scope.roles)]
    assert (scope.user_id, scope.project_id) == (trust['trustor_user_id'], trust['project_id'])
    assert scope.trustee_id == trust['trustee_user_id']
    assert list(scope.roles) == trust['roles'] == ['member', 'reader']
    world.conf.set_override('trust_roles', ['reader'], group='cloud')
    assert world.trusts.scope(own(world)).roles == ('reader',)


def test_scopes_that_differ_have_other_digests(world):
    scope = world.trusts.scope(own(world))
    others = [{'user_id': 'x'}, {'project_id': 'x'}, {'roles': ['member']}]
    digests = {world.trusts.scope(own(world, **each)).digest for each in others}
    digests.add(dataclasses.replace(scope, trustee_id='x').digest)
    assert len(digests | {scope.digest}) == 5
    assert world.trusts.scope(own(world, roles=['reader', 'member'])) == scope


@pytest.mark.parametrize('lacks', [{'own_token': False}, {'project_id': None}])
def test_delegated_token_has_no_scope_to_share(world, lacks):
    assert world.trusts.scope(own(world, **lacks)) is None


def test_scope_is_known_without_asking_keystone_again(world):
    world.trusts.scope(own(world))
    with world.counted() as sent:
        world.trusts.scope(own(world))
    assert sent == []


def test_scope_while_keystone_is_away_is_unavailable(world):
    with world.unreachable(), pytest.raises(exceptions.ServiceUnavailable):
        world.trusts.scope(own(world))
