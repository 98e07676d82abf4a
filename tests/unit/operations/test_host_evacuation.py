# SPDX-License-Identifier: Apache-2.0
"""What is asked of the cloud to choose hosts that are emptied, and what its answers mean."""

import datetime
from typing import Any

import pytest

from climate_core import exceptions
from climate_hosts.operations import draining, evacuation
from climate_hosts.plugins.host import HostPlugin
from tests.support.hosts import EnrolledHosts
from tests.support.world import Time, World, user

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def server(**shown: Any) -> dict[str, Any]:
    """Return a server as Nova shows it."""
    return {
        'status': 'ACTIVE',
        'OS-EXT-STS:task_state': None,
        'created': NOW.isoformat(),
        'image': '',
        'flavor': {'extra_specs': {}},
        **shown,
    }


def of(image: dict[str, str] | None = None, **extra_specs: str) -> dict[str, Any]:
    specs = {name.replace('__', ':'): value for name, value in extra_specs.items()}
    shown = {} if image is None else {'image': {'id': 'i', 'properties': image}}
    return server(flavor={'extra_specs': specs}, **shown)


@pytest.mark.parametrize(
    ('shown', 'obstacle'),
    [
        (server(), None),
        (server(flavor={}), None),
        (server(status='PAUSED'), None),
        (server(status='SUSPENDED'), 'in the status SUSPENDED'),
        (server(**{'OS-EXT-STS:task_state': 'rebooting'}), 'with the task rebooting'),
        (of(hw__tpm_version='2.0'), 'with an emulated TPM'),
        (of({'hw_tpm_version': '2.0'}), 'with an emulated TPM'),
        (of(hw__tpm_version='2.0', hw__tpm_secret_security='host'), None),
        (of({'hw_mem_encryption': 'True'}), 'with encrypted memory'),
        (of(hw__mem_encryption='false'), None),
        (of(accel__device_profile='fpga'), 'with an accelerator'),
        (of(pci_passthrough__alias='gpu:1'), 'with a PCI device'),
        (None, 'moving'),
    ],
)
def test_what_keeps_a_server_on_its_host(
    shown: dict[str, Any] | None, obstacle: str | None
) -> None:
    assert draining._describe_server('a', {}, shown).obstacle == obstacle


def test_server_that_was_created_with_a_zone_stays_there() -> None:
    assert draining._describe_server('a', {}, server(pinned_availability_zone='z')).zone == 'z'


@pytest.fixture
def pool(hosts: EnrolledHosts) -> World:
    """Return a manager of the hosts of the fake cloud, none of which is free."""
    hosts.conf.set_override('lanes_per_host', 1, group='hosts')
    for each in hosts.ids:
        hosts.operations.delete_host(hosts.context, each)
    world = World(hosts.database.engine.url.render_as_string(), Time())
    kind = HostPlugin.resource_type
    world.conf.register_opts(HostPlugin.options, group=kind)
    world.plugins[kind] = HostPlugin(world.conf, hosts.cloud)
    world.operations.host_evacuation.cloud = hosts.cloud
    return world


def share(hosts: EnrolledHosts, *numbers: int) -> None:
    for number in numbers:
        hosts.enrol(f'shared{number}', shared=True)


def ask(world: World, **wanted: int) -> dict[str, Any]:
    body = {'name': 'lease', 'duration': '2h', 'kind': 'best_effort'}
    body['reservations'] = [{'resource_type': HostPlugin.resource_type, **wanted}]
    return world.operations.check_lease(user(), body)


def test_calls_do_not_grow_with_the_cloud(hosts: EnrolledHosts, pool: World) -> None:
    """One for all hypervisors, services and targets each, and one for each of ten empty hosts."""
    calls = []
    for numbers in (range(12), range(12, 24)):
        share(hosts, *numbers)
        hosts.state.requests.clear()
        assert ask(pool)['waits']
        calls.append([path for _, path, _ in hosts.state.requests if 'identity' not in path])
    assert [len(each) for each in calls] == [13, 13]


def test_more_hosts_are_looked_at_if_too_few_of_the_first_can_be_emptied(
    hosts: EnrolledHosts, pool: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(hosts, *range(12))
    empty = draining.read_candidate
    names = []

    def full(conn: Any, host: Any) -> Any:
        names.append(host.name)
        found = empty(conn, host)
        if len(names) > 11:
            return found
        bound = draining._describe_server('a', {'VCPU': 1}, server(status='SHUTOFF'))
        return evacuation.CandidateHost(id=found.id, name=found.name, servers=[bound])

    monkeypatch.setattr(draining, 'read_candidate', full)
    assert ask(pool)['waits']
    assert len(set(names)) == 12
    names.clear()
    monkeypatch.setattr(evacuation, '_MAX_CANDIDATES', 10)
    refused = ask(pool)
    assert not refused['waits']
    assert 'not checked' in refused['refusals'][0]['error_message']


def test_nova_that_does_not_answer_is_told(
    hosts: EnrolledHosts, pool: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(hosts, 1)
    monkeypatch.setattr(
        draining,
        'read_candidate',
        lambda *_: (_ for _ in ()).throw(exceptions.Transient('away')),
    )
    with pytest.raises(exceptions.ServiceUnavailable, match='away'):
        ask(pool)
