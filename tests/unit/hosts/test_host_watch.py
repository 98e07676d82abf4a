# SPDX-License-Identifier: Apache-2.0
import datetime

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.db import leases as db_leases
from climate_core.db import tables
from climate_core.db.engine import TransactionRejected
from climate_hosts.db import host_reservations
from climate_hosts.metrics import HostMetrics
from climate_hosts.plugins.host import HostPlugin
from climate_hosts.power import db as db_power
from climate_hosts.watch.failures import HostWatch
from tests.support.fakes import hypervisors, leases
from tests.support.hosts import promise


class Watch(HostWatch):
    """The watch of one manager.

    :ivar registry: of the metrics of the manager
    """

    def __init__(self, hosts):
        database = hosts.database
        self.registry = CollectorRegistry()
        metrics = HostMetrics(self.registry, database, None)
        plugin = HostPlugin(hosts.conf, hosts.cloud)
        super().__init__(
            hosts.conf,
            database,
            hosts.cloud,
            {plugin.resource_type: plugin},
            Calendar(database),
            metrics,
        )


@pytest.fixture
def watch(hosts):
    hosts.conf.register_opts(HostPlugin.options, group=HostPlugin.resource_type)
    return Watch(hosts)


def silence(hosts, since='2026-01-01T00:00:00.000000', number=0):
    """Let a host be down since a time."""
    hypervisors.silence(hosts.state, hosts.read(number).hypervisor_hostname, since)


def test_one_request_for_all_hosts(hosts, watch):
    hosts.state.requests.clear()
    watch.watch()
    asked = [path for _, path, _ in hosts.state.requests if 'identity' not in path]
    assert len(asked) == 1
    assert hosts.read().available


def test_no_request_where_no_pool_has_a_host(hosts, watch, tmp_path):
    empty = leases.sqlite(tmp_path / 'empty.sqlite')
    hosts.state.requests.clear()
    HostWatch(hosts.conf, empty, hosts.cloud, {}, Calendar(empty)).watch()
    assert not hosts.state.requests
    empty.dispose()


def test_host_that_is_silent_for_long_takes_no_promises(hosts, watch):
    before = hosts.generation()
    silence(hosts)
    hosts.conf.set_override('down_seconds', 1e12, group='hosts')
    watch.watch()
    assert hosts.read().available
    hosts.conf.set_override('down_seconds', 300, group='hosts')
    for _ in range(2):
        watch.watch()
    told = 'Failed: The nova-compute on cn1 is down since 2026-01-01 00:00 UTC.'
    assert (hosts.read().available, hosts.read().reason) == (False, told)
    assert (hosts.read(1).available, hosts.generation()) == (True, before + 1)


def test_host_stays_failed_while_that_is_not_certain(hosts, watch):
    silence(hosts)
    watch.watch()
    silence(hosts, None)
    watch.watch()
    assert hosts.read().failed
    hosts.hypervisor().update(state='up')
    watch.watch()
    assert hosts.read().available


def test_host_that_its_operator_disables_while_it_is_down_stays_disabled(hosts, watch):
    silence(hosts)
    watch.watch()
    hosts.operations.update_host(hosts.context, hosts.read().id, {'available': False})
    hosts.hypervisor().update(state='up')
    watch.watch()
    assert (hosts.read().available, hosts.read().disabled_reason) == (False, None)


def test_answer_without_any_service_says_nothing(hosts, watch, caplog):
    hosts.state.hypervisors.clear()
    watch.watch()
    assert hosts.read().available
    assert 'Nova reports no nova-compute' in caplog.text


def test_host_that_nova_has_no_more_has_failed(hosts, watch):
    del hosts.state.hypervisors[hosts.read().provider_id]
    watch.watch()
    assert hosts.read().reason == 'Failed: Nova has no nova-compute on cn1 any more.'


def test_trouble_with_one_lease_does_not_keep_the_others(hosts, watch, monkeypatch, caplog):
    first, second = (promise(hosts.database, each) for each in hosts.ids)
    hosts.conf.set_override('max_down_share', 1.0, group='hosts')
    for number in range(2):
        silence(hosts, number=number)
    real = watch._calendar.replace_unit

    def move(session, wanted, unit_id):
        if unit_id == hosts.ids[0]:
            raise exceptions.BadRequest('A filter without meaning.')
        return real(session, wanted, unit_id)

    monkeypatch.setattr(watch._calendar, 'replace_unit', move)
    watch.watch()
    found = [hosts.database.read(db_leases.get, each.id) for each in (first, second)]
    assert [each.degraded for each in found] == [False, True]
    assert f'Hosts of lease {first.id} were not replaced: A filter' in caplog.text


def test_outage_of_nova_replaces_nothing(hosts, watch, caplog):
    """One host is silent for long enough, the other one fell silent just now."""
    hosts.ids.append(hosts.enrol('cn3'))
    promise(hosts.database, hosts.ids[0])
    silence(hosts)
    silence(hosts, '2999-01-01T00:00:00.000000', number=1)
    watch.watch()
    assert all(hosts.read(number).available for number in range(3))
    assert '2 of 3 nova-computes of the pools are down at the same time' in caplog.text
    assert watch.registry.get_sample_value('climate_hosts_outage') == 1
    hosts.hypervisor(1).update(state='up')
    watch.watch()
    assert [hosts.read(number).failed for number in range(3)] == [True, False, False]
    assert watch.registry.get_sample_value('climate_hosts_outage') == 0


def test_hosts_that_failed_one_after_the_other_are_no_outage(hosts, watch):
    hosts.ids.append(hosts.enrol('cn3'))
    for number in range(2):
        silence(hosts, number=number)
        watch.watch()
        assert hosts.read(number).failed


@pytest.mark.parametrize('write', [1, 2], ids=['of the host', 'of the lease'])
def test_two_managers_replace_a_host_once(hosts, watch, monkeypatch, write):
    """The second one does all of it right before a transaction of the first."""
    lease = promise(hosts.database, hosts.ids[0])
    silence(hosts)
    real, calls = hosts.database.write, []

    def overtaken(function, *args):
        calls.append(function)
        if len(calls) == write:
            Watch(hosts).watch()
        return real(function, *args)

    monkeypatch.setattr(hosts.database, 'write', overtaken)
    watch.watch()
    after = hosts.database.read(db_leases.get, lease.id)
    ((allocation,),) = [each.allocations for each in after.reservations]
    assert (allocation.unit_id, after.degraded) == (hosts.ids[1], False)
    with hosts.database.reader() as session:
        told = [n.event_type for n in session.execute(sa.select(tables.NOTIFICATIONS))]
        assert told == ['lease.update']
        assert session.scalar(sa.select(sa.func.count()).select_from(tables.ALLOCATIONS)) == 1


def test_watch_waits_for_the_interval(hosts, watch):
    assert watch.poll() == pytest.approx(hosts.conf.hosts.watch_interval, rel=0.11)


def test_watch_looks_at_once_when_a_host_is_freed_that_a_lease_lacks(hosts, watch, monkeypatch):
    nudges = []
    monkeypatch.setattr(watch, 'nudge', lambda: nudges.append(1))
    hosts.conf.set_override('max_down_share', 1.0, group='hosts')
    lease, _ = (promise(hosts.database, each) for each in hosts.ids)
    silence(hosts)
    watch.watch()
    assert hosts.database.read(db_leases.get, lease.id).degraded
    nudges.clear()
    hosts.enrol('cn3')
    assert nudges
    watch.watch()
    assert not hosts.database.read(db_leases.get, lease.id).degraded
    nudges.clear()
    hosts.enrol('cn4')
    assert not nudges


class TestHostsThatSleep:
    """They are down, and have not failed."""

    @pytest.fixture(autouse=True)
    def _asleep(self, hosts):
        hosts.database.write(db_power.start_sleep, hosts.ids[0], datetime.timedelta(0))
        silence(hosts)

    def test_they_are_left_alone(self, hosts, watch):
        watch._leaves_sleeping = True
        for step in (db_power.mark_asleep, db_power.mark_waking):
            watch.watch()
            assert hosts.read().available
            hosts.database.write(step, hosts.ids[0])
        watch.watch()
        assert hosts.read().available

    def test_they_make_no_outage(self, hosts, watch, caplog):
        watch._leaves_sleeping = True
        silence(hosts, number=1)
        watch.watch()
        assert (hosts.read().failed, hosts.read(1).failed) == (False, True)

    def test_one_that_does_not_wake_is_replaced(self, hosts, watch):
        watch._leaves_sleeping = True
        lease = promise(hosts.database, hosts.ids[0])
        hosts.database.write(db_power.mark_asleep, hosts.ids[0])
        hosts.database.write(db_power.mark_waking, hosts.ids[0])
        hosts.database.write(db_power.mark_wake_failed, hosts.ids[0], 'It was switched on.')
        watch.watch()
        found = hosts.database.read(db_leases.get, lease.id)
        (mine,) = found.reservations[0].allocations
        assert mine.unit['hypervisor_hostname'] == 'cn2'
        # It stays out of use until it is awake.
        hosts.hypervisor().update(state='up')
        watch.watch()
        assert hosts.read().failed
        hosts.database.write(db_power.mark_awake, hosts.ids[0])
        watch.watch()
        assert hosts.read().available

    def test_they_have_failed_where_nothing_wakes_them(self, hosts, watch):
        watch.watch()
        assert hosts.read().failed


def enrol_after(hosts, monkeypatch, query):
    """Enrol a host when the watch has read something, once; return what was enrolled."""
    read, enrolled = hosts.database.read, []

    def read_and_enrol(asked, *args):
        found = read(asked, *args)
        if asked is query and not enrolled:
            enrolled.append(hosts.enrol('cn3'))
        return found

    monkeypatch.setattr(hosts.database, 'read', read_and_enrol)
    return enrolled


def test_first_host_that_is_enrolled_during_a_look_is_looked_at_at_once(hosts, watch, monkeypatch):
    nudges = []
    for number in hosts.ids:
        hosts.operations.delete_host(hosts.context, number)
    monkeypatch.setattr(watch, 'nudge', lambda: nudges.append(1))
    hosts.ids = enrol_after(hosts, monkeypatch, host_reservations.list_watched)
    assert watch.poll() >= 600
    assert hosts.ids
    assert nudges


def test_host_that_becomes_free_while_it_is_found_out_that_one_lacks_is_looked_at_at_once(
    hosts, watch, monkeypatch
):
    def refuse(*_args):
        # In another thread something ends, and that is told when it is written.
        watch._freed()
        raise TransactionRejected

    nudges = []
    promise(hosts.database, hosts.ids[0])
    silence(hosts)
    monkeypatch.setattr(watch, 'nudge', lambda: nudges.append(1))
    monkeypatch.setattr(watch._calendar, 'replace_unit', refuse)
    watch.poll()
    assert nudges


def test_without_hosts_the_watch_looks_seldom_and_at_once_when_there_is_one(
    hosts, watch, monkeypatch
):
    nudges = []
    monkeypatch.setattr(watch, 'nudge', lambda: nudges.append(1))
    for number in hosts.ids:
        hosts.operations.delete_host(hosts.context, number)
    assert watch.poll() >= 600
    nudges.clear()
    hosts.ids = [hosts.enrol('cn3')]
    assert nudges
    assert watch.poll() == pytest.approx(hosts.conf.hosts.watch_interval, rel=0.11)
