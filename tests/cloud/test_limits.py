# SPDX-License-Identifier: Apache-2.0
"""The limits of a project, out of the real Keystone through oslo.limit."""

from collections.abc import Iterator

import pytest

from climateclient import exceptions
from tests.cloud.people import REGION, Person, at


def leases(person: Person) -> tuple[int | None, int | None]:
    """Return the limit of leases of a person's project, and how many it has."""
    found = next(each for each in person.client.limits() if each.name == 'leases')
    return found.limit, found.used


@pytest.fixture
def one_more(stranger: Person, admin: Person) -> Iterator[int]:
    """Let the project have one lease more than it has; give how many those are."""
    _, used = leases(stranger)
    assert used is not None
    identity = admin.sdk.identity
    made = identity.create_limit(
        service_id=identity.find_service('climate').id,
        region_id=REGION,
        project_id=stranger.sdk.current_project_id,
        resource_name='leases',
        resource_limit=used + 1,
    )
    yield used + 1
    identity.delete_limit(made)


def test_lease_beyond_the_last_place_of_a_project_is_refused(
    stranger: Person, one_more: int
) -> None:
    start, end = at(hours=1), at(hours=2)
    last = stranger.leases.create('last', end, start)
    try:
        assert leases(stranger) == (one_more, one_more)
        with pytest.raises(exceptions.Forbidden, match='exceed its limits') as caught:
            stranger.leases.create('one too many', end, start)
        assert (caught.value.code, caught.value.field) == ('limits.exceeded', 'leases')
    finally:
        stranger.leases.delete(last.id)
    again = stranger.leases.create('again', end, start)
    stranger.leases.delete(again.id)
