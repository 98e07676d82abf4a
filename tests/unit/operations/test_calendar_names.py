# SPDX-License-Identifier: Apache-2.0
"""Bars of the calendar name the addresses and the segments that leases have."""

import sqlalchemy as sa

from climate_core.db import sql, tables, timeline
from climate_networks import db
from climate_networks.units import Segment
from tests.support.mixed import Mixed, a_network, some_addresses, some_hosts, thing
from tests.support.world import World, at, executed, user

ADDRESSES = ['203.0.113.20', '203.0.113.21', '203.0.113.22']
NOW, LATER = 'now', '2099-01-01 14:00'
#: The clock is that of the database.
SPAN = {'since': at('2000-01-01 00:00'), 'until': at('2100-01-01 00:00')}


def pages(
    world: World, group_by: str = 'resource', limit: int = 100
) -> list[timeline.TimelineRow]:
    """Read all bars, each page of them with one statement, and one for the marker."""
    found: list[timeline.TimelineRow] = []
    more = True
    while more:
        marker = found[-1].reservation_id if found else None
        query = timeline.TimelineQuery(
            **SPAN, project_id=None, group_by=group_by, marker=marker, limit=limit
        )

        def read(query: timeline.TimelineQuery = query) -> None:
            nonlocal more
            page, more = world.database.read(timeline.read_timeline, query)
            found.extend(page)

        assert len(executed(world.database, read)) == (1 if marker is None else 2)
    return found


def names(world: World) -> dict[str, list[str]]:
    return {each.resource_type: [*each.names] for each in pages(world)}


def test_addresses_and_segments_are_named_and_nothing_else(any_world: World) -> None:
    mixed = Mixed(any_world)
    mixed.add_hosts(2)
    mixed.add_addresses(*ADDRESSES)
    mixed.add_segments(100)
    asked = [some_hosts(2), some_addresses(2), a_network(), thing('instance')]
    lease = mixed.lease(NOW, LATER, asked)
    mixed.world.run_until_idle()
    given = next(e for e in lease.reservations if e.resource_type == 'virtual:floatingip')
    expected = {
        'physical:host': [],
        'virtual:floatingip': [each.unit['address'] for each in given.allocations],
        'network': ['VLAN 100 of physnet1'],
        'virtual:instance': [],
    }
    assert len(expected['virtual:floatingip']) == 2
    assert names(any_world) == expected
    # What a lease that is over has had is still said.
    any_world.operations.end_lease(user(), lease.id)
    mixed.world.run_until_idle()
    assert any_world.lease(lease.id).status == 'TERMINATED'
    assert names(any_world) == expected


def test_address_that_was_given_up_is_named_no_more(any_world: World) -> None:
    mixed = Mixed(any_world)
    mixed.add_addresses(*ADDRESSES)
    lease = mixed.lease(NOW, LATER, [some_addresses(3)])
    mixed.world.run_until_idle()
    (mine,) = lease.reservations
    with any_world.database.writer() as session:
        kept = mine.allocations[0].unit_id
        where = tables.ALLOCATIONS.c.unit_id != kept
        sql.change(session, sa.update(tables.ALLOCATIONS).where(where).values(released=True))
    assert names(any_world) == {'virtual:floatingip': [mine.allocations[0].unit['address']]}


def test_tunnel_and_a_floating_ip_of_its_owner_are_named(any_world: World) -> None:
    mixed = Mixed(any_world)
    unit = {'available': True, 'access': None}
    any_world.database.write(db.insert_segments, [Segment('vxlan', None, 5)], unit, {})
    mixed.lease(NOW, LATER, [thing('instance'), a_network()])
    own = {'resource_type': 'held:floatingip', 'params': {'floatingips': [ADDRESSES[0]]}}
    with any_world.database.writer() as session:
        server = tables.RESERVATIONS.c.resource_type == 'virtual:instance'
        sql.change(session, sa.update(tables.RESERVATIONS).where(server).values(own))
    assert names(any_world) == {'held:floatingip': [ADDRESSES[0]], 'network': ['VXLAN 5']}


def test_pages_with_names_have_so_many_bars_and_their_order(any_world: World) -> None:
    mixed = Mixed(any_world)
    mixed.add_addresses(*ADDRESSES)
    mixed.add_segments(*range(100, 104))
    for _ in range(2):
        mixed.lease(NOW, LATER, [a_network(), a_network(), thing('volume')])
    mixed.lease(NOW, LATER, [some_addresses(3), thing('volume')])
    for group_by in timeline.ORDERS:
        whole = pages(any_world, group_by)
        assert len(whole) == 8
        assert sorted(len(each.names) for each in whole) == [0, 0, 0, 1, 1, 1, 1, 3]
        for limit in (1, 3):
            assert pages(any_world, group_by, limit) == whole
