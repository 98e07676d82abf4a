# SPDX-License-Identifier: Apache-2.0
"""Floating IPs of leases on the real Neutron, with ordinary members and its policy."""

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.networking import forward, has_policy_lines, public
from tests.cloud.people import Person, at, upgrade_check, wait_for
from tests.cloud.stacking import Stacking
from tests.cloud.templates import documented
from tests.support.kinds import kind_cell

FIRST, SECOND = ADDRESSES = ['203.0.113.30', '203.0.113.31']


@pytest.fixture
def network(admin: Person) -> Any:
    return public(admin)


@pytest.fixture(autouse=True)
def registered(admin: Person, network: Any) -> Iterator[None]:
    """Return two addresses that are registered."""
    client = admin.client.floatingips
    made = client.create_range(network.id, FIRST, SECOND)
    yield
    for each in made:
        client.delete(each.id)


def wanted(network: Any, *addresses: str) -> list[dict[str, Any]]:
    both = {'resource_type': 'virtual:floatingip', 'network_id': network.id}
    return [{**both, 'required_floatingips': list(addresses or ADDRESSES)}]


def had(person: Person) -> dict[str, Any]:
    """Return the floating IPs of a project that are of leases, by address."""
    ips = person.sdk.network.ips(project_id=person.sdk.current_project_id)
    return {e.floating_ip_address: e for e in ips if e.floating_ip_address in ADDRESSES}


@pytest.fixture
def ports(member: Person) -> Iterator[list[Any]]:
    """Return two ports of the member's, behind a router."""
    sdk = member.sdk.network
    network = sdk.create_network(name='inside')
    subnet = sdk.create_subnet(network_id=network.id, ip_version=4, cidr='10.9.0.0/24')
    router = sdk.create_router(name='r', external_gateway_info={'network_id': public(member).id})
    sdk.add_interface_to_router(router, subnet_id=subnet.id)
    made = [sdk.create_port(network_id=network.id) for _ in ADDRESSES]
    yield made
    for each in made:
        sdk.delete_port(each)
    sdk.remove_interface_from_router(router, subnet_id=subnet.id)
    sdk.delete_router(router)
    sdk.delete_network(network)


def test_nobody_takes_an_address_that_is_set_apart(member: Person, network: Any) -> None:
    with pytest.raises(exceptions.Forbidden):
        member.client.floatingips.create(network.id, '203.0.113.40')
    with pytest.raises(Exception, match='403'):
        member.sdk.network.create_ip(floating_network_id=network.id, floating_ip_address=FIRST)
    ordinary = member.sdk.network.create_ip(floating_network_id=network.id)
    assert ordinary.floating_ip_address not in ADDRESSES
    member.sdk.network.delete_ip(ordinary)


def test_manager_of_a_project_takes_an_address_only_without_the_lines_of_the_policy(
    admin: Person, member: Person, colleague: Person, network: Any
) -> None:
    identity, project = admin.sdk.identity, member.sdk.current_project_id
    user = identity.find_user(colleague.environment['OS_USERNAME'], ignore_missing=False)
    manager = identity.find_role('manager', ignore_missing=False)
    identity.assign_project_role_to_user(project, user, manager)
    one = {'floating_network_id': network.id, 'floating_ip_address': FIRST}
    if has_policy_lines():
        with pytest.raises(Exception, match='403'):
            colleague.sdk.network.create_ip(**one)
        return
    taken = colleague.sdk.network.create_ip(**one)
    # What the upgrade check has said. The lease is told who has to free it, and waits for that.
    assert 'the manager of any project can create a floating IP' in upgrade_check()
    lease = member.leases.create('taken', at(hours=1), reservations=wanted(network, FIRST))
    wait_for(
        lambda: (
            'an operator must free it'
            in (member.leases.get(lease.id).reservations[0].status_reason or '')
        ),
        'the reason',
    )
    colleague.sdk.network.delete_ip(taken)
    member.wait_lease(lease.id, 'ACTIVE')
    member.leases.end(lease.id)
    member.wait_lease(lease.id, 'TERMINATED')


@kind_cell('Floating IPs', 'scheduled')
def test_addresses_from_their_promise_to_the_next_lease(
    member: Person, stranger: Person, network: Any, ports: list[Any]
) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=7)
    times = {'start': later, 'end': later + datetime.timedelta(hours=1)}
    promised = stranger.leases.create('week', reservations=wanted(network), **times)
    assert promised.reservations[0].params['floatingips'] == ADDRESSES
    with pytest.raises(exceptions.Conflict, match=f'{FIRST} is allocated to another reservation'):
        member.leases.create('same time', reservations=wanted(network, FIRST), **times)

    lease = member.leases.create('now', at(hours=1), reservations=wanted(network))
    lease = member.wait_lease(lease.id, 'ACTIVE')
    found = had(member)
    assert sorted(found) == ADDRESSES
    (tagged,) = {tuple(each.tags) for each in found.values()}
    assert tagged == (f'reservation:{lease.reservations[0].id}',)

    sdk = member.sdk.network
    sdk.update_ip(found[FIRST], port_id=ports[0].id)
    forward(member, found[SECOND], ports[1])
    # The end of a lease that has not begun is nothing to who has its addresses now.
    stranger.leases.delete(promised.id)
    stranger.wait_lease_gone(promised.id)
    assert sorted(had(member)) == ADDRESSES

    member.leases.end(lease.id)
    assert member.wait_lease(lease.id, 'TERMINATED').status_reason is None
    assert had(member) == {}
    assert all(sdk.get_port(each.id) for each in ports)
    lease = stranger.leases.create('next', at(hours=1), reservations=wanted(network))
    stranger.wait_lease(lease.id, 'ACTIVE')
    assert sorted(had(stranger)) == ADDRESSES
    stranger.leases.end(lease.id)
    stranger.wait_lease(lease.id, 'TERMINATED')


@kind_cell('Existing floating IPs', 'immediate')
def test_floating_ip_of_its_owner_ends_with_its_lease(member: Person, network: Any) -> None:
    sdk = member.sdk.network
    made = [sdk.create_ip(floating_network_id=network.id) for _ in range(2)]
    one, other = (each.floating_ip_address for each in made)
    create = ('lease', 'create', 'own', '--for', '1h', '--floating-ip', one, '-f', 'json')
    lease = json.loads(member.cli('openstack', *create).stdout)
    more = ('--floating-ip', other, '--on-end', 'nothing')
    added = member.cli('openstack', 'lease', 'reservation', 'add', lease['id'], *more)
    assert added.returncode == 0, added.stderr
    found = member.wait_lease(lease['id'], 'ACTIVE')
    assert [each.params['floatingips'] for each in found.reservations] == [[one], [other]]
    member.leases.end(lease['id'])
    assert member.wait_lease(lease['id'], 'TERMINATED').status_reason is None
    assert sdk.find_ip(one) is None
    sdk.delete_ip(made[1], ignore_missing=False)


def test_address_in_a_template_is_known_before_the_start(
    member: Person, stacks: Stacking, network: Any
) -> None:
    text = documented('public-address')
    stack_id = stacks.create(text, public=network.name, start=at(hours=1), end=at(hours=2))
    address = stacks.outputs(stack_id)['address']
    assert address in ADDRESSES
    assert had(member) == {}
    lease_id = stacks.id_of(stack_id, 'lease')
    stacks.start(lease_id)
    assert had(member)[address].port_id == stacks.id_of(stack_id, 'port')
    stacks.person.leases.end(lease_id)
    stacks.wait_gone(stack_id)
    assert stacks.wait_deleted(lease_id).status == 'TERMINATED'
    assert had(member) == {}


def test_upgrade_check_says_what_a_project_manager_could_do() -> None:
    said = upgrade_check()
    assert 'the manager of any project can create a floating IP' in said
    assert 'Floating IP 203' not in said


def test_floating_ip_that_is_created_with_its_lease_ends_with_it(member: Person) -> None:
    create = ('lease', 'create', 'new', '--for', '1h', '--new-floating-ip', 'public', '-f', 'json')
    done = member.cli('openstack', *create)
    assert done.returncode == 0, done.stderr
    lease = member.wait_lease(json.loads(done.stdout)['id'], 'ACTIVE')
    (held,) = lease.reservations
    sdk = member.sdk.network
    assert sdk.get_ip(held.resource_id).floating_ip_address == held.params['floatingips'][0]
    member.leases.end(lease.id)
    assert member.wait_lease(lease.id, 'TERMINATED').status_reason is None
    assert sdk.find_ip(held.resource_id) is None


@kind_cell('Floating IPs', 'immediate')
@kind_cell('Floating IPs', 'retry')
def test_lease_waits_for_an_address_until_another_gives_it_back(
    member: Person, stranger: Person, network: Any
) -> None:
    terms = {'reservations': wanted(network), 'kind': 'immediate'}
    first = member.leases.create('first', at(hours=1), **terms)
    member.wait_lease(first.id, 'ACTIVE')
    with pytest.raises(exceptions.Conflict, match=FIRST):
        stranger.leases.create('second', at(hours=1), **terms)
    own = f'network={network.id},address={FIRST}'
    create = ('lease', 'create', 'later', '--for', '1h', '--kind', 'retry', '--floating-ips', own)
    done = stranger.cli('openstack', *create, '-f', 'json')
    assert done.returncode == 0, done.stderr
    waiting = stranger.leases.get(json.loads(done.stdout)['id'])
    assert (waiting.status, had(stranger)) == ('WAITING', {})
    member.leases.end(first.id)
    stranger.wait_lease(waiting.id, 'ACTIVE')
    assert [*had(stranger)] == [FIRST]
    stranger.leases.end(waiting.id)
    stranger.wait_lease(waiting.id, 'TERMINATED')
    member.wait_lease(first.id, 'TERMINATED')
