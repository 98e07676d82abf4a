# SPDX-License-Identifier: Apache-2.0
"""Which tokens of users are accepted, and what they delegate: with Keystone itself."""

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import webob
from keystoneauth1 import session as ks_session

from climate_core.db import leases
from climate_core.db.engine import Database
from tests.functional.api import world
from tests.support import real_keystone
from tests.support.real_keystone import Keystone

NAMES = (f'name{n}' for n in itertools.count())
LATER = {'start_date': '2098-01-01 10:00', 'end_date': '2099-01-01 10:00'}
OPTION = 'allow_insecure_application_credential_trust_escalation'


@pytest.fixture(scope='module')
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    with real_keystone.running(tmp_path_factory.mktemp('keystone')) as made:
        made.user('climate', 'service', 'service')
        made.service('reservation', 'http://127.0.0.1:9/v1')
        yield made


class Api:
    """The API, and a member of a project.

    :param application: in front of it
    :param member: the session of the member
    """

    def __init__(self, application: Any, database: Database, member: ks_session.Session) -> None:
        self._application, self._database, self.member = application, database, member

    def ask(
        self, session: ks_session.Session, method: str, path: str, body: Any = None
    ) -> webob.Response:
        headers = {'X-Auth-Token': str(session.get_token())}
        return world.ask(self._application, method, path, body, headers)

    def create(self, session: ks_session.Session, query: str = '') -> webob.Response:
        return self.ask(session, 'POST', f'/v1/leases{query}', {'name': next(NAMES), **LATER})

    def trust_of(self, lease_id: str) -> str:
        return str(self._database.read(leases.get, lease_id).trust_id)


@pytest.fixture
def api(keystone: Keystone, tmp_path: pathlib.Path) -> Iterator[Api]:
    common = {'auth_type': 'password', 'auth_url': keystone.url, **real_keystone.DOMAINS}
    common['password'] = real_keystone.PASSWORD
    users = {
        'keystone_authtoken': {'username': 'admin', 'project_name': 'admin'},
        'cloud': {'username': 'climate', 'project_name': 'service'},
    }
    options = [
        (section, name, value)
        for section, own in users.items()
        for name, value in {**common, **own}.items()
    ]
    conf = world.configure(tmp_path, ('api', 'auth_strategy', 'keystone'), *options)
    database = Database(conf)
    name = next(NAMES)
    keystone.user(name, name, 'member', 'reader')
    with world.running(conf, database, with_trusts=True) as application:
        yield Api(application, database, keystone.session(name))


def test_access_rules_of_an_application_credential_are_applied(
    api: Api, keystone: Keystone
) -> None:
    lease_id = api.create(api.member).json['lease']['id']
    rules = [{'service': 'reservation', 'method': 'GET', 'path': '/v1/leases'}]
    robot = keystone.credential(api.member, access_rules=rules)
    (lease,) = api.ask(robot, 'GET', '/v1/leases?status=PENDING').json['leases']
    assert lease['id'] == lease_id
    for method, path in (
        ('GET', f'/v1/leases/{lease_id}'),
        ('DELETE', f'/v1/leases/{lease_id}'),
        ('POST', f'/v1/leases/{lease_id}/end'),
        ('GET', '/v1/limits'),
    ):
        answer = api.ask(robot, method, path)
        assert answer.status_code == 401
        assert f'do not allow {method} {path}. ' in answer.json['error_message']
        assert answer.json['error_message'].endswith('for the service reservation.')
        assert answer.headers['WWW-Authenticate'].startswith('Keystone uri=')
    # Of a token that is not valid nothing else is said.
    answer = world.ask(api._application, 'GET', '/v1/leases', None, {'X-Auth-Token': 'invalid'})
    assert answer.json['error_message'] == 'The request needs a valid token in X-Auth-Token.'
    assert api.ask(api.member, 'GET', f'/v1/leases/{lease_id}').status_code == 200


def test_rules_of_another_service_allow_nothing(api: Api, keystone: Keystone) -> None:
    rules = [{'service': 'compute', 'method': 'GET', 'path': '/v1/leases'}]
    robot = keystone.credential(api.member, access_rules=rules)
    assert api.ask(robot, 'GET', '/v1/leases').status_code == 401


def test_roles_of_a_domain_with_the_names_of_others_are_not_delegated(
    api: Api, keystone: Keystone
) -> None:
    domain_id = keystone.make('domain', name=next(NAMES))
    for name in ('member', 'reader'):
        keystone.make('role', name=name, domain_id=domain_id)
    assert api.create(api.member, '?dry_run=true').json['dry_run']['granted']
    answer = api.create(api.member)
    assert answer.status_code == 201, answer.text
    trust = keystone.ask(
        'GET', f'/OS-TRUST/trusts/{api.trust_of(answer.json["lease"]["id"])}', session=api.member
    )['trust']
    wanted = {keystone.role('member'), keystone.role('reader')}
    assert {role['id'] for role in trust['roles']} == wanted


@pytest.mark.parametrize('unrestricted', [False, True])
def test_application_credential_creates_leases_if_keystone_lets_it_delegate(
    api: Api, keystone: Keystone, unrestricted: bool
) -> None:
    robot = keystone.credential(api.member, unrestricted=unrestricted)
    check = api.create(robot, '?dry_run=true').json['dry_run']
    answer = api.create(robot)
    assert (answer.status_code, check['granted']) == (403, False)
    assert check['refusals'] == [answer.json]
    told = answer.json['error_message']
    assert 'Delegated tokens cannot manage trusts.' in told
    assert OPTION in told
    keystone.allow('security_compliance', OPTION, True)
    try:
        assert api.create(robot, '?dry_run=true').json['dry_run']['granted']
        answer = api.create(robot)
        assert answer.status_code == 201, answer.text
    finally:
        keystone.allow('security_compliance', OPTION, False)


@pytest.mark.parametrize(
    ('redelegation', 'roles', 'granted'),
    [
        (False, ['member', 'reader'], False),
        (True, ['member', 'reader'], True),
        # A member is a reader, too, and a lease delegates both.
        (True, ['member'], False),
    ],
)
def test_dry_run_tells_whether_a_trust_lets_its_trustee_delegate_again(
    api: Api, keystone: Keystone, redelegation: bool, roles: list[str], granted: bool
) -> None:
    trustee = next(NAMES)
    wanted = {
        'trustor_user_id': api.member.get_user_id(),
        'trustee_user_id': keystone.user(trustee, trustee, 'member'),
        'project_id': api.member.get_project_id(),
        'impersonation': True,
        'roles': [{'id': keystone.role(name)} for name in roles],
        'allow_redelegation': redelegation,
    }
    made = keystone.ask('POST', '/OS-TRUST/trusts', {'trust': wanted}, api.member)
    session = keystone.session(trustee, trust_id=made['trust']['id'])
    check = api.create(session, '?dry_run=true').json['dry_run']
    answer = api.create(session)
    assert (check['granted'], answer.status_code == 201) == (granted, granted), answer.text


def test_dry_run_creates_no_trust(api: Api, keystone: Keystone) -> None:
    keystone.allow('security_compliance', OPTION, True)
    try:
        robot = keystone.credential(api.member)
        for session in (robot, api.member):
            assert api.create(session, '?dry_run=true').json['dry_run']['granted']
    finally:
        keystone.allow('security_compliance', OPTION, False)
    path = f'/OS-TRUST/trusts?trustor_user_id={api.member.get_user_id()}'
    assert keystone.ask('GET', path, session=api.member)['trusts'] == []
