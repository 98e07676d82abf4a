# SPDX-License-Identifier: Apache-2.0
"""Networks of leases on the real Neutron, with ordinary members and its policy."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.networking import PHYSICAL, filled
from tests.cloud.people import Person, at
from tests.support.kinds import kind_cell

#: Behind the range that Neutron chooses from.
FIRST, SECOND = 210, 211


@pytest.fixture(autouse=True)
def registered(admin: Person) -> Iterator[None]:
    """Two VLANs that are registered."""
    client = admin.client.networks
    made = client.create_range('vlan', FIRST, SECOND, PHYSICAL, extra={'switch': 'tor1'})
    yield
    for each in made:
        client.delete(each.id)


def wanted(**values: Any) -> list[dict[str, Any]]:
    both = {'resource_type': 'network', 'network_name': 'net1', 'physical_network': PHYSICAL}
    return [{**both, 'segment_id': FIRST, **values}]


def test_only_operators_set_segments_apart_and_choose_them(member: Person) -> None:
    with pytest.raises(exceptions.Forbidden):
        member.client.networks.create('vlan', 250, PHYSICAL)
    assert [each.segment_id for each in member.client.networks.list()] == [FIRST, SECOND]
    provider = {'network_type': 'vlan', 'physical_network': PHYSICAL, 'segmentation_id': FIRST}
    with pytest.raises(Exception, match='403'):
        member.sdk.network.create_network(
            name='taken', **{f'provider_{name}': value for name, value in provider.items()}
        )


@kind_cell('Networks', 'scheduled')
def test_network_from_its_promise_to_the_next_lease(
    admin: Person, member: Person, stranger: Person
) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=7)
    times = {'start': later, 'end': later + datetime.timedelta(hours=1)}
    promised = stranger.leases.create('week', reservations=wanted(), **times)
    assert promised.reservations[0].params['segment_id'] == FIRST
    with pytest.raises(
        exceptions.Conflict, match=f'VLAN {FIRST} of {PHYSICAL} is allocated to another'
    ):
        member.leases.create('same time', reservations=wanted(), **times)

    option = f'name=net1,physical_network={PHYSICAL},segment={FIRST},switch==tor1'
    span = ('--from', times['start'].isoformat(), '--for', '30m', '--limit', '1')
    asked = ('lease', 'availability', *span, '--network', option, '-f', 'json')
    (free,) = json.loads(member.cli('openstack', *asked).stdout)
    assert datetime.datetime.fromisoformat(free['Start']) >= times['end'].replace(microsecond=0)
    create = ('lease', 'create', 'now', '--for', '1h', '--network', option, '-f', 'json')
    lease_id = json.loads(member.cli('openstack', *create).stdout)['id']
    lease = member.wait_lease(lease_id, 'ACTIVE')
    sdk = member.sdk.network
    network = sdk.get_network(lease.reservations[0].params['network_id'])
    assert (network.name, network.project_id) == ('net1', member.sdk.current_project_id)
    assert list(network.tags) == [f'reservation:{lease.reservations[0].id}']

    with filled(member, stranger, network) as check_gone:
        stranger.leases.delete(promised.id)
        stranger.wait_lease_gone(promised.id)
        assert sdk.get_network(network.id)
        member.leases.end(lease.id)
        assert member.wait_lease(lease.id, 'TERMINATED').status_reason is None
        check_gone(admin)
    following = stranger.leases.create('next', at(hours=1), reservations=wanted())
    stranger.wait_lease(following.id, 'ACTIVE')
    stranger.leases.end(following.id)
    stranger.wait_lease(following.id, 'TERMINATED')


@kind_cell('Networks', 'immediate')
@kind_cell('Networks', 'retry')
def test_lease_waits_for_a_segment_until_another_gives_it_back(
    member: Person, stranger: Person
) -> None:
    first = member.leases.create('first', at(hours=1), reservations=wanted(), kind='immediate')
    member.wait_lease(first.id, 'ACTIVE')
    with pytest.raises(exceptions.Conflict, match=f'VLAN {FIRST} of'):
        stranger.leases.create('no', at(hours=1), reservations=wanted(), kind='immediate')
    option = f'name=net1,physical_network={PHYSICAL},segment={FIRST}'
    create = ('lease', 'create', 'later', '--for', '1h', '--kind', 'retry', '--network', option)
    done = stranger.cli('openstack', *create, '-f', 'json')
    assert done.returncode == 0, done.stderr
    waiting = stranger.leases.get(json.loads(done.stdout)['id'])
    assert waiting.status == 'WAITING'
    member.leases.end(first.id)
    granted = stranger.wait_lease(waiting.id, 'ACTIVE')
    made = stranger.sdk.network.get_network(granted.reservations[0].params['network_id'])
    assert made.name == 'net1'
    stranger.leases.end(waiting.id)
    stranger.wait_lease(waiting.id, 'TERMINATED')
    member.wait_lease(first.id, 'TERMINATED')
