# SPDX-License-Identifier: Apache-2.0
"""Resources that join a lease by a POST with its id: the lease itself says who may."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import webob
from oslo_config import cfg
from sqlalchemy import orm

from climate_core.api.handlers import leases as handler
from climate_core.db import leases
from climate_core.db.engine import Database
from climate_core.lease import model
from tests.functional.api import world

ID = '77777777-7777-4777-8777-777777777777'
OWNER = {'X-User-Id': 'owner', 'X-Project-Id': 'ours', 'X-Roles': 'member,reader'}
COLLEAGUE = OWNER | {'X-User-Id': 'colleague'}
STRANGER = OWNER | {'X-User-Id': 'stranger', 'X-Project-Id': 'theirs'}
#: Only its owner lets resources join a lease.
OWNERS = '"climate:reservations:create": "user_id:%(user_id)s"\n'

Post = Callable[..., webob.Response]


def thing(number: int) -> dict[str, str]:
    return {
        'resource_type': 'test:thing',
        'resource_id': f'aaaaaaaa-0000-4000-8000-{number:012}',
    }


def body(*numbers: int, **values: Any) -> dict[str, Any]:
    return {
        'id': ID,
        'name': 'ours',
        'start_date': '2099-01-01 10:00',
        'end_date': '2099-01-01 12:00',
        'reservations': [thing(number) for number in numbers],
    } | values


@pytest.fixture
def rules() -> str:
    return OWNERS


@pytest.fixture
def conf(tmp_path: pathlib.Path, rules: str) -> cfg.ConfigOpts:
    policy = tmp_path / 'policy.yaml'
    policy.write_text(rules)
    return world.configure(tmp_path, ('oslo_policy', 'policy_file', str(policy)))


@pytest.fixture
def post(application: Any) -> Post:
    return functools.partial(world.ask, application, 'POST', '/v1/leases')


def held(database: Database) -> int:
    return len(database.read(leases.get, ID).reservations)


def test_the_lease_says_who_may_join(post: Post, database: Database) -> None:
    assert post(body(1), OWNER).status_code == 201
    refused = post(body(2), COLLEAGUE)
    assert refused.status_code == 403
    assert 'climate:reservations:create' in refused.json['error_message']
    assert held(database) == 1
    assert post(body(2), OWNER).status_code == 201
    assert held(database) == 2


def test_a_repeated_request_without_resources_only_shows(post: Post) -> None:
    assert post(body(1), OWNER).status_code == 201
    again = post(body(), COLLEAGUE)
    assert again.status_code == 201
    assert len(again.json['lease']['reservations']) == 1


@pytest.mark.parametrize('rules', ['"climate:leases:get": "user_id:%(user_id)s"\n'])
def test_a_lease_that_may_not_be_seen_is_not_shown(post: Post) -> None:
    assert post(body(1), OWNER).status_code == 201
    again = post(body(), COLLEAGUE)
    assert again.status_code == 404
    assert 'lease' not in again.json


def test_another_project_learns_only_that_the_id_is_taken(post: Post, database: Database) -> None:
    assert post(body(1), OWNER).status_code == 201
    theirs = post(body(2), STRANGER)
    different = post(body(2, name='different'), OWNER)
    assert theirs.status_code == different.status_code == 409
    assert theirs.json == different.json
    assert held(database) == 1


class Blind:
    """The way to leases, which does not see that one is there at the first look."""

    def __init__(self) -> None:
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(leases, name)

    def find(self, session: orm.Session, lease_id: str) -> model.Lease | None:
        self.looks += 1
        return None if self.looks == 1 else leases.find(session, lease_id)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Blind:
    made = Blind()
    monkeypatch.setattr(handler, 'db', made)
    return made


def test_a_lease_that_was_made_at_this_moment_is_asked_too(
    post: Post, database: Database, blind: Blind
) -> None:
    """Two requests at once with one new id: the policy is asked about the second one as well."""
    blind.looks = 1
    assert post(body(1), OWNER).status_code == 201
    blind.looks = 0
    assert post(body(2), COLLEAGUE).status_code == 403
    assert (blind.looks, held(database)) == (2, 1)
    blind.looks = 0
    assert post(body(2), OWNER).status_code == 201
    assert (blind.looks, held(database)) == (2, 2)


@pytest.mark.parametrize('rules', ['"climate:leases:get": "user_id:%(user_id)s"\n'])
def test_a_repeated_request_of_another_user_does_not_show_the_lease(post: Post) -> None:
    values = body(1)
    del values['id']
    assert post(values, OWNER | {'Idempotency-Key': 'k'}).status_code == 201
    for headers in (COLLEAGUE | {'Idempotency-Key': 'k'}, COLLEAGUE):
        again = post(values, headers)
        assert again.status_code == 404
        assert 'lease' not in again.json
