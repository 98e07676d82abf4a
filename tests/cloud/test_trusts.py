# SPDX-License-Identifier: Apache-2.0
"""Which requests share the trust of an owner, and what is told if Keystone refuses it."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keystoneauth1 import session as ks_session
from keystoneauth1.identity import v3

from climate_core.api.policy import is_own_token
from climateclient.client import Client
from tests.cloud.people import REGION, Person, at

Lease = Callable[[Client], str]


@pytest.fixture
def lease() -> Iterator[Lease]:
    """Make a lease without resources that starts in an hour; return its id."""
    made: list[tuple[Client, str]] = []

    def lease(client: Client) -> str:
        name = f'lease-{uuid.uuid4().hex[:8]}'
        lease_id = client.leases.create(name, start=at(hours=1), end=at(hours=3)).id
        made.append((client, lease_id))
        return lease_id

    yield lease
    for client, lease_id in made:
        client.leases.delete(lease_id)


def identity(person: Person, plugin: type[Any], **options: Any) -> Client:
    """Return a client with another identity than the password of a user."""
    auth = plugin(person.environment['OS_AUTH_URL'], **options)
    return Client(ks_session.Session(auth), region_name=REGION)


def credential(person: Person, **options: Any) -> Client:
    """Return a client with a new application credential."""
    name = f'robot-{uuid.uuid4().hex[:8]}'
    made = person.sdk.identity.create_application_credential(
        person.sdk.current_user_id, name=name, **options
    )
    given = {'id': made.id, 'secret': made.secret}
    options = {f'application_credential_{name}': value for name, value in given.items()}
    return identity(person, v3.ApplicationCredential, **options)


def shown(admin: Person, client: Client) -> Any:
    """Return what Keystone says of the token of a client, as keystonemiddleware reads it."""
    headers = {'X-Subject-Token': client.session.get_token()}
    return admin.sdk.identity.get('/auth/tokens', headers=headers).json()


def test_leases_of_a_user_share_a_trust(
    admin: Person, colleague: Person, member: Person, lease: Lease
) -> None:
    assert is_own_token(shown(admin, colleague.client))
    for _ in range(3):
        lease(colleague.client)
    (trust,) = colleague.trusts()
    # Another user of the project has another one.
    lease(member.client)
    assert trust not in member.trusts()


def test_user_with_other_roles_has_another_trust(
    admin: Person, colleague: Person, lease: Lease
) -> None:
    """The first one is good again when the role was given back."""
    lease(colleague.client)
    (first,) = colleague.trusts()
    where = colleague.sdk.current_project_id, colleague.sdk.current_user_id
    role = admin.sdk.identity.find_role('heat_stack_owner')
    admin.sdk.identity.unassign_project_role_from_user(*where, role)
    fewer = Person(colleague.environment)
    lease(fewer.client)
    assert len(fewer.trusts()) == 2
    admin.sdk.identity.assign_project_role_to_user(*where, role)
    again = Person(colleague.environment)
    lease(again.client)
    assert len(again.trusts()) == 2
    assert first in again.trusts()
