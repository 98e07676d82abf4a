# SPDX-License-Identifier: Apache-2.0
"""More requests at once than any API has threads: none of them waits for another in a circle."""

import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import Person, at
from tests.cloud.reserving import RESERVED, Reserving

pytestmark = pytest.mark.alone
#: nova-api, cinder-api and climate-api have four threads each.
MANY = 24


@pytest.fixture
def lease(member: Person) -> Iterator[str]:
    """Return a lease that holds nothing yet; its id."""
    made = member.leases.create('at-once', at(hours=3), at(hours=2))
    yield made.id
    member.leases.delete(made.id, ignore_missing=True)
    member.wait_lease_gone(made.id)


def at_once(post: Callable[[dict[str, Any]], Any], lease_id: str) -> list[dict[str, Any]]:
    """Send requests that join a lease; give the bodies of the answers."""
    with concurrent.futures.ThreadPoolExecutor(MANY) as threads:
        asked = [threads.submit(post, {'lease_id': lease_id}) for _ in range(MANY)]
        answers = [each.result() for each in asked]
    assert {each.status_code for each in answers} == {202}, [each.text for each in answers]
    return [each.json() for each in answers]


def members(person: Person, lease_id: str) -> list[str]:
    """Return the ids of what a lease holds."""
    return sorted(each.resource_id for each in person.leases.get(lease_id).reservations)


def test_servers_join_a_lease_at_once(booking: Booking, lease: str) -> None:
    made = [each['server']['id'] for each in at_once(booking.post, lease)]
    for each in made:
        booking.wait(each, 'RESERVED')
    assert members(booking.person, lease) == sorted(made)


def test_volumes_join_a_lease_at_once(volumes: Reserving, lease: str) -> None:
    made = [each['volume']['id'] for each in at_once(volumes.post, lease)]
    for each in made:
        volumes.wait(each, RESERVED)
    assert members(volumes.person, lease) == sorted(made)
