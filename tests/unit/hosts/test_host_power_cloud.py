# SPDX-License-Identifier: Apache-2.0
"""Hosts are put to sleep and woken, in a fake cloud with a real Placement."""

import datetime

import pytest
import sqlalchemy as sa

from climate_core import exceptions
from climate_hosts import lane_providers, nova, placement
from climate_hosts.conf import power as conf_group
from climate_hosts.db import hosts as host_tables
from climate_hosts.power import db as db_power
from climate_hosts.power import states
from climate_hosts.power.states import PowerState
from climate_hosts.power.worker import HostPower
from climate_hosts.watch.refresh import HostRefresher
from tests.support import machines
from tests.support.fakes import placement as fake_placement
from tests.support.hosts import EnrolledHosts, promise
from tests.support.leases import NOON
from tests.support.machines import FakeMachines

MINUTE = datetime.timedelta(minutes=1)
FALLING, ASLEEP = PowerState.FALLING_ASLEEP, PowerState.ASLEEP
WAKING = PowerState.WAKING


class PoweredHosts:
    """The hosts cn1 and cn2, the worker of one manager, and a clock."""

    def __init__(self, hosts):
        hosts.conf.register_opts(conf_group.OPTS, group=conf_group.GROUP)
        hosts.conf.set_override('min_awake', 0, group='power')
        self.hosts, self.database = hosts, hosts.database
        self.now = NOON
        self.database.clock = lambda: self.now
        self.machines = FakeMachines(hosts.conf, hosts.state)
        self.worker = HostPower(hosts.conf, self.database, self.machines, hosts.cloud)

    def poll(self, times=1):
        for _ in range(times):
            self.worker.poll()

    def sleep(self):
        """Have all hosts asleep that may."""
        self.poll(2)

    def state(self, number=0):
        return self.hosts.read(number).power

    def service(self, number=0):
        found = self.hosts.hypervisor(number)
        return found['status'], found['service']['disabled_reason']

    def consumers(self, number=0):
        return placement.list_consumers(self.hosts.conn, self.hosts.read(number).provider_id)

    def told(self):
        """Return what was told of hosts, in order."""
        return [
            (kind.removeprefix('host.power.'), name)
            for kind, name in machines.read_told(self.database)
            if kind.startswith('host.power.')
        ]

    def sleeps(self):
        return machines.read_sleeps(self.database)


@pytest.fixture
def powered_hosts(fake, database):
    return PoweredHosts(EnrolledHosts(fake, database, 1))


@pytest.fixture
def one(powered_hosts):
    """Of the two hosts one is always awake."""
    powered_hosts.hosts.operations.update_host(
        powered_hosts.hosts.context, powered_hosts.hosts.ids[1], {'kept_on': True}
    )
    return powered_hosts


def test_host_without_servers_and_promises_is_closed_and_switched_off(one):
    one.poll()
    assert (one.state(), one.state(1)) == (FALLING, None)
    assert one.service() == ('disabled', states.DISABLED_REASON)
    assert len(one.consumers()) == 1
    one.poll()
    assert one.state() is ASLEEP
    assert one.machines.switched == [('cn1', 'off')]
    assert one.told() == [('falling_asleep', 'cn1'), ('asleep', 'cn1')]
    assert one.sleeps() == [('cn1', NOON, None)]
    # It takes promises as before.
    assert one.hosts.read().available


def test_nothing_comes_to_a_host_that_sleeps(one):
    one.sleep()
    body = {'allocations': {one.hosts.read().provider_id: {'resources': {'MEMORY_MB': 1}}}}
    owner = {'project_id': 'p', 'user_id': 'u', 'consumer_generation': None}
    asked = {**body, **owner, 'consumer_type': 'INSTANCE'}
    server = '/allocations/00000000-0000-4000-8000-000000000001'
    assert fake_placement.of(one.hosts.state).ask('PUT', server, asked).status_code == 409


def test_host_with_a_server_is_not_switched_off(one):
    claim = one.hosts.read().provider_id, '00000000-0000-4000-8000-000000000001'
    fake_placement.add_server(one.hosts.state, *claim)
    one.poll(3)
    assert (one.state(), one.told(), one.machines.switched) == (None, [], [])
    # What proves that it is empty is Placement, and not what was read before.
    assert one.database.write(db_power.start_sleep, one.hosts.ids[0], MINUTE)
    one.poll()
    assert (one.state(), one.machines.switched) == (None, [])
    assert one.consumers() == [claim[1]]
    assert one.service() == ('enabled', None)


def test_what_a_manager_did_too_late_is_undone(one):
    one.machines.unknown.add('cn1')
    assert lane_providers.claim_host(one.hosts.conn, one.hosts.read().provider_id)
    service_id = one.hosts.hypervisor()['service']['id']
    nova.set_service_status(one.hosts.conn, service_id, states.DISABLED_REASON)
    one.machines.unknown.clear()
    promise(one.database, one.hosts.ids[0], NOON + MINUTE)
    one.poll(2)
    assert (one.state(), one.service(), one.consumers()) == (None, ('enabled', None), [])


def test_host_that_sleeps_is_not_taken_out(one):
    one.sleep()
    with pytest.raises(exceptions.HostChanging, match='cn1 is asleep'):
        one.hosts.operations.delete_host(one.hosts.context, one.hosts.ids[0])
    one.hosts.operations.update_host(one.hosts.context, one.hosts.ids[0], {'kept_on': True})
    one.poll(2)
    one.hosts.operations.delete_host(one.hosts.context, one.hosts.ids[0])
    assert one.hosts.in_pool() == {'cn2'}


def test_host_that_never_wakes_is_taken_out(one):
    one.sleep()
    one.machines.dead.add('cn1')
    one.hosts.operations.update_host(one.hosts.context, one.hosts.ids[0], {'kept_on': True})
    one.poll()
    provider = one.hosts.read().provider_id
    with pytest.raises(exceptions.HostChanging, match='cn1 is waking'):
        one.hosts.operations.delete_host(one.hosts.context, one.hosts.ids[0])
    one.now += 60 * MINUTE
    one.poll()
    assert one.hosts.read().failed
    one.hosts.operations.delete_host(one.hosts.context, one.hosts.ids[0])
    assert one.hosts.in_pool() == {'cn2'}
    assert placement.list_consumers(one.hosts.conn, provider) == []
    found = [each['status'] for each in one.hosts.state.hypervisors.values()]
    assert sorted(found) == ['disabled', 'enabled']


def test_host_that_placement_does_not_have_is_not_ready(one):
    """Its nova-compute is up, and no server could get there."""

    def provider(uuid):
        with one.database.writer() as session:
            host = host_tables.HOSTS.table.c
            query = sa.update(host_tables.HOSTS.table).where(host.unit_id == one.hosts.ids[0])
            session.execute(query.values(provider_id=uuid))

    one.sleep()
    known = one.hosts.read().provider_id
    assert one.database.write(db_power.mark_waking, one.hosts.ids[0])
    provider('00000000-0000-4000-8000-00000000000a')
    one.poll(2)
    hypervisor = one.hosts.state.hypervisors[known]
    assert (one.state(), hypervisor['state'], hypervisor['status']) == (WAKING, 'up', 'disabled')
    one.now += 60 * MINUTE
    one.poll()
    assert (one.state(), one.hosts.read().failed) == (WAKING, True)
    assert one.told()[-1] == ('failed', 'cn1')
    provider(known)
    assert len(one.consumers()) == 1
    one.poll()
    assert (one.state(), one.service(), one.consumers()) == (None, ('enabled', None), [])
    assert one.told()[-1] == ('awake', 'cn1')


def test_refresh_takes_the_hold_for_no_server(one, caplog):
    one.sleep()
    HostRefresher(one.hosts.conf, one.database, one.hosts.cloud).refresh()
    assert 'without a lease' not in caplog.text


def test_no_request_where_no_pool_has_a_host(one):
    for each in one.hosts.ids:
        one.hosts.operations.delete_host(one.hosts.context, each)
    one.hosts.state.requests.clear()
    assert one.worker.poll() is None
    assert one.hosts.state.requests == []
