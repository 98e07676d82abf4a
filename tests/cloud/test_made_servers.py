# SPDX-License-Identifier: Apache-2.0
"""Servers that Climate makes for leases, with the real Nova. They fill a zone: see conftest.py."""

import base64
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.people import at, wait_for
from tests.cloud.templates import ZONE
from tests.support.kinds import kind_cell

USER_DATA = base64.b64encode(b'#!/bin/sh\n').decode()


class Making:
    """Leases of servers that are made for them, in the zone that these tests fill."""

    def __init__(self, booking: Booking) -> None:
        self.booking, self.person = booking, booking.person
        self.name = f'made-{uuid.uuid4().hex[:8]}'

    def lease(self, flavor: str = 'm1.tiny', kind: str | None = None, **server: Any) -> Any:
        """Make a lease that lasts ten minutes; ``start`` among the values is its start."""
        start, preemptible = server.pop('start', 'now'), server.pop('preemptible', False)
        found = self.person.sdk.compute.find_flavor(flavor, ignore_missing=False)
        wanted = {
            'name': self.name,
            'flavorRef': found.id,
            'imageRef': self.booking.image.id,
            'networks': [{'uuid': self.booking.network.id}],
            'availability_zone': ZONE,
            **server,
        }
        reservation = {'resource_type': 'virtual:instance', 'server': wanted}
        more: dict[str, Any] = {'kind': kind} if kind else {}
        if preemptible:
            more['preemptible'] = True
        lease = self.person.leases.create(
            self.name, start=start, duration='10m', reservations=[reservation], **more
        )
        self.booking.leases.add(lease.id)
        return lease

    def reserved(self, lease_id: str) -> list[Any]:
        """Wait until all of its servers are RESERVED; return the reservations."""
        wait_for(lambda: set(self.servers().values()) == {'RESERVED'}, f'{self.name} RESERVED')
        return list(self.person.leases.get(lease_id).reservations)

    def servers(self) -> dict[str, str]:
        """Return the status of each of its servers, by the name."""
        found = self.person.sdk.compute.servers()
        return {each.name: each.status for each in found if each.name.startswith(self.name)}


@pytest.fixture
def making(booking: Booking) -> Iterator[Making]:
    return Making(booking)


@kind_cell('New servers', 'immediate')
def test_made_at_once_are_reserved_and_woken(
    making: Making, allocations: Callable[[str], dict[str, Any]]
) -> None:
    lease = making.lease(start=at(hours=1), count=2, user_data=USER_DATA)
    ids = {each.resource_id for each in making.reserved(lease.id)}
    assert all(allocations(each) for each in ids)
    shown = making.person.leases.get(lease.id)
    assert USER_DATA not in str(shown)
    # However long the creation took.
    making.person.leases.update(lease.id, start=at(seconds=2))
    lease = making.person.wait_lease(lease.id, 'ACTIVE', 'ERROR')
    assert lease.status == 'ACTIVE', lease.status_reason
    assert making.servers() == {f'{making.name}-{n}': 'ACTIVE' for n in (1, 2)}
    making.person.leases.end(lease.id)
    making.person.wait_lease(lease.id, 'TERMINATED')
    assert making.servers() == {}


@kind_cell('New servers', 'scheduled')
def test_scheduled_are_made_shortly_before_the_start(making: Making) -> None:
    lease = making.lease(kind='scheduled', start=at(seconds=60), count=2)
    assert making.servers() == {}
    lease = making.person.wait_lease(lease.id, 'ACTIVE', 'ERROR')
    assert lease.status == 'ACTIVE', lease.status_reason
    assert set(making.servers().values()) == {'ACTIVE'}


@kind_cell('New servers', 'retry')
def test_retry_waits_until_one_is_freed(making: Making) -> None:
    other = making.lease('m1.xlarge')
    assert making.person.wait_lease(other.id, 'ACTIVE', 'ERROR').status == 'ACTIVE'
    lease = making.lease('m1.xlarge', kind='retry', name=f'{making.name}-waits')
    assert lease.status == 'WAITING', lease.status_reason
    making.person.leases.end(other.id)
    lease = making.person.wait_lease(lease.id, 'ACTIVE', 'ERROR')
    assert lease.status == 'ACTIVE', lease.status_reason
    assert making.servers() == {f'{making.name}-waits': 'ACTIVE'}


def test_preemptible_gives_way_is_locked_and_runs_again(
    making: Making, allocations: Callable[[str], dict[str, Any]]
) -> None:
    """A server of the zone's size gives way to another one."""
    name = f'{making.name}-filler'
    filler = making.lease('m1.xlarge', preemptible=True, name=name)
    filler = making.person.wait_lease(filler.id, 'ACTIVE', 'ERROR')
    assert filler.status == 'ACTIVE', filler.status_reason
    (reservation,) = filler.reservations
    other = making.lease('m1.xlarge', name=f'{making.name}-other')
    making.person.wait_lease(filler.id, 'WAITING')
    server = making.person.sdk.compute.get_server(reservation.resource_id)
    assert (server.status, server.is_locked) == ('SHELVED_OFFLOADED', True)
    assert server.locked_reason.startswith('Climate:')
    assert not allocations(reservation.resource_id)
    other = making.person.wait_lease(other.id, 'ACTIVE', 'ERROR')
    assert other.status == 'ACTIVE', other.status_reason
    making.person.leases.end(other.id)
    making.person.wait_lease(filler.id, 'ACTIVE')
    server = making.person.sdk.compute.get_server(reservation.resource_id)
    assert (server.status, server.is_locked) == ('ACTIVE', False)
    assert making.servers() == {name: 'ACTIVE'}
