# SPDX-License-Identifier: Apache-2.0
"""Reserved servers and reserved stacks live in leases of hosts."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from climate_common import lanes
from tests.cloud import templates
from tests.cloud.booking import Booking
from tests.cloud.people import Person, at
from tests.cloud.pooling import host_of, hosts_of, lease_hosts
from tests.cloud.stacking import Stacking

pytestmark = pytest.mark.usefixtures('pool')


def test_reserved_server_holds_its_place_on_a_host_of_a_lease(
    booking: Booking, admin: Person, allocations: Callable[[str], dict[str, Any]]
) -> None:
    lease = lease_hosts(booking)
    params = {'name': 'inside', 'start': at(minutes=20), 'end': at(minutes=40)}
    hints = {'reserved': 'True', 'lease_params': json.dumps(params)}
    server = booking.reserve({**hints, 'reservation': lease.reservations[0].id})
    assert server.status == 'RESERVED'
    assert [host_of(admin, server.id)] == hosts_of(lease)
    assert slots(allocations(server.id)) == 1

    own = booking.lease_of(server.id)
    booking.person.leases.update(own.id, start='now')
    booking.wait(server.id, 'ACTIVE')
    assert [host_of(admin, server.id)] == hosts_of(lease)
    assert slots(allocations(server.id)) == 1


def slots(held: dict[str, Any]) -> int:
    return sum(each['resources'].get(lanes.SLOT, 0) for each in held.values())


def test_reserved_stack_lives_on_a_host_of_a_lease(
    booking: Booking, stacks: Stacking, admin: Person
) -> None:
    hosts = lease_hosts(booking)
    hints = {'reservation': hosts.reservations[0].id}
    text = templates.template({'server': templates.server(scheduler_hints=hints)})
    lease_id = stacks.lease()
    stack_id = stacks.create(text, lease_id)
    assert stacks.servers(stack_id) == ['RESERVED']
    (server_id,) = stacks.ids(stack_id, 'OS::Nova::Server')
    stacks.start(lease_id)
    assert stacks.servers(stack_id) == ['ACTIVE']
    assert [host_of(admin, server_id)] == hosts_of(hosts)
    stacks.end(lease_id)
    stacks.wait_gone(stack_id)
