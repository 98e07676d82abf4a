# SPDX-License-Identifier: Apache-2.0
"""All of a host is held in a real Placement, or nothing."""

import pytest

from climate_core.cloud import errors
from climate_hosts import lane_providers, placement
from tests.support.fakes import placement as fake_placement
from tests.support.fakes.fixtures import database, fake
from tests.support.hosts import EnrolledHosts

__all__ = ('database', 'fake')

SERVER = '00000000-0000-4000-8000-000000000001'


@pytest.fixture
def hosts(fake, database):
    return EnrolledHosts(fake, database, 1)


@pytest.fixture
def provider(hosts):
    return hosts.read().provider_id


def consumers(hosts, provider):
    return placement.list_consumers(hosts.conn, provider)


def set_memory(hosts, provider, **inventory):
    path = f'/resource_providers/{provider}/inventories/MEMORY_MB'
    ask = fake_placement.of(hosts.state).ask
    generation = ask('GET', path).json['resource_provider_generation']
    body = {'resource_provider_generation': generation, **inventory}
    assert ask('PUT', path, body).status_code == 200


def test_host_is_held_once(hosts, provider):
    for _ in range(2):
        assert lane_providers.claim_host(hosts.conn, provider)
    assert len(consumers(hosts, provider)) == 1
    for _ in range(2):
        lane_providers.release_host(hosts.conn, provider)
    assert consumers(hosts, provider) == []


def test_host_with_a_server_is_not_held(hosts, provider):
    fake_placement.add_server(hosts.state, provider, SERVER)
    assert not lane_providers.claim_host(hosts.conn, provider)
    lane_providers.release_host(hosts.conn, provider)
    assert consumers(hosts, provider) == [SERVER]


def test_host_that_a_server_came_to_is_not_held_any_more(hosts, provider):
    """It has no memory, so that it finds room."""
    assert lane_providers.claim_host(hosts.conn, provider)
    fake_placement.add_server(hosts.state, provider, SERVER)
    assert not lane_providers.claim_host(hosts.conn, provider)
    assert consumers(hosts, provider) == [SERVER]


def test_host_with_more_memory_than_one_allocation_may_have_is_held(hosts, provider):
    set_memory(hosts, provider, total=1000, reserved=0, allocation_ratio=2.5, max_unit=1000)
    for _ in range(2):
        assert lane_providers.claim_host(hosts.conn, provider)
    found = placement.read_allocations(hosts.conn, provider).values()
    assert sorted(each['MEMORY_MB'] for each in found) == [500, 1000, 1000]
    # What was held before the capacity changed is held anew.
    set_memory(hosts, provider, total=1000, reserved=0, allocation_ratio=2.6, max_unit=1000)
    assert lane_providers.claim_host(hosts.conn, provider)
    found = placement.read_allocations(hosts.conn, provider).values()
    assert sorted(each['MEMORY_MB'] for each in found) == [600, 1000, 1000]
    lane_providers.release_host(hosts.conn, provider)
    assert consumers(hosts, provider) == []


def test_hold_that_was_released_in_part_is_released(hosts, provider):
    set_memory(hosts, provider, total=1000, reserved=0, allocation_ratio=1.5, max_unit=1000)
    assert lane_providers.claim_host(hosts.conn, provider)
    first = lane_providers._id(provider, 0)
    ask = fake_placement.of(hosts.state).ask
    assert ask('DELETE', f'/allocations/{first}').status_code == 204
    assert len(consumers(hosts, provider)) == 1
    lane_providers.release_host(hosts.conn, provider)
    assert consumers(hosts, provider) == []


def test_host_that_needs_too_many_allocations_is_not_held(hosts, provider):
    set_memory(hosts, provider, total=4097, reserved=0, allocation_ratio=1.0, max_unit=1)
    assert not lane_providers.claim_host(hosts.conn, provider)
    assert consumers(hosts, provider) == []


def test_host_of_which_all_is_reserved_is_not_held(hosts, provider):
    set_memory(hosts, provider, total=1000, reserved=1000)
    assert not lane_providers.claim_host(hosts.conn, provider)


def test_node_without_memory_in_placement_is_not_held(hosts, provider):
    ask = fake_placement.of(hosts.state).ask
    path = f'/resource_providers/{provider}/inventories/MEMORY_MB'
    assert ask('DELETE', path).status_code == 204
    assert not lane_providers.claim_host(hosts.conn, provider)


def test_claim_at_the_same_moment_wins(hosts, provider, monkeypatch):
    """Placement refuses the hold if a server was faster."""
    read = placement.read_allocations

    def late(*args):
        monkeypatch.setattr(placement, 'read_allocations', read)
        found = read(*args)
        body = {
            'allocations': {provider: {'resources': {'MEMORY_MB': 1}}},
            'project_id': 'p',
            'user_id': 'u',
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        }
        assert fake_placement.of(hosts.state).ask('PUT', f'/allocations/{SERVER}', body)
        return found

    monkeypatch.setattr(placement, 'read_allocations', late)
    assert not lane_providers.claim_host(hosts.conn, provider)
    assert consumers(hosts, provider) == [SERVER]


def test_host_that_is_gone_is_said_so(hosts):
    with pytest.raises(errors.Gone):
        lane_providers.claim_host(hosts.conn, SERVER)
