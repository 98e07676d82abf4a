# SPDX-License-Identifier: Apache-2.0
"""Hosts are put to sleep and woken; Nova and Placement are records."""

import datetime
from unittest import mock

import pytest
import sqlalchemy as sa

from climate_core import conf as config
from climate_core import exceptions
from climate_core.cloud import host_holds, hypervisors, placement, volumes
from climate_core.cloud.power.base import PowerTrouble
from climate_core.db import host_power, tables
from climate_core.db import hosts as db
from climate_core.db.engine import Database
from climate_core.lease import hosts
from climate_core.lease.nodes import Node
from climate_core.lease.power import PowerState
from climate_core.sync.hosts.power import HostPower
from tests.support import machines
from tests.support.hosts import promise
from tests.support.leases import NOON
from tests.support.machines import FakeMachines

MINUTE = datetime.timedelta(minutes=1)
FALLING, ASLEEP = PowerState.FALLING_ASLEEP, PowerState.ASLEEP
WAKING = PowerState.WAKING
LIST_SERVICE_HOSTS = volumes.list_service_hosts


def _node(name, service):
    return Node(
        hypervisor_hostname=name, service_name=service, capacity={'memory_mb': 2}, details={}
    )


class Records:
    """Nova, Placement and Cinder, as far as the worker asks them.

    :ivar hypervisors: by their ids, as :class:`FakeMachines` changes them
    :ivar held: the providers that are held
    :ivar servers: the providers with servers
    :ivar with_volumes: the hosts with volumes
    """

    def __init__(self, monkeypatch):
        self.hypervisors, self.held = {}, set()
        self.servers, self.with_volumes = set(), set()
        for module, name, function in (
            (host_holds, 'take', self._take),
            (host_holds, 'release', lambda _conn, each: self.held.discard(each)),
            (hypervisors, 'list_services', lambda _conn: self.services()),
            (hypervisors, 'set_status', self._set_status),
            (placement, 'find_rooms', lambda _conn: self._rooms()),
            (placement, 'has_provider', lambda _conn, _each: True),
            (volumes, 'list_service_hosts', lambda _conn: self.with_volumes),
        ):
            monkeypatch.setattr(module, name, function)

    def put(self, _table, record, _entry):
        self.hypervisors[record['id']] = record

    def add(self, name):
        self.hypervisors[name] = {
            'id': name,
            'hypervisor_hostname': name,
            'state': 'up',
            'status': 'enabled',
            'service': {'id': name, 'host': name, 'disabled_reason': None},
        }

    def services(self):
        return {
            name: {**each['service'], 'state': each['state'], 'status': each['status']}
            for name, each in self.hypervisors.items()
        }

    def _take(self, _conn, provider):
        if provider in self.servers:
            self.held.discard(provider)
            return False
        self.held.add(provider)
        return True

    def _set_status(self, _conn, service_id, reason):
        found = self.hypervisors[service_id]
        found['status'] = 'disabled' if reason else 'enabled'
        found['service']['disabled_reason'] = reason

    def _rooms(self):
        return {
            name: placement.HostRoom(
                name,
                {'MEMORY_MB': 2},
                {'MEMORY_MB': int(name in self.servers | self.held)},
                {},
                *[frozenset()] * 3,
            )
            for name in self.hypervisors
        }


class Sleepers:
    """The hosts cn1 and cn2, the worker of one manager, and a clock.

    :ivar failures: how often it was told that a host did not wake
    """

    def __init__(self, path, monkeypatch):
        self.conf = config.load([], [])
        self.conf.set_override('connection', f'sqlite:///{path}', group='database')
        self.conf.set_override('min_awake', 0, group='power')
        self.now = NOON
        self.database = Database(self.conf, lambda: self.now)
        tables.METADATA.create_all(self.database.engine)
        self.records = Records(monkeypatch)
        self.ids = [self._add(name) for name in ('cn1', 'cn2')]
        self.machines = FakeMachines(self.conf, self.records)
        self.failures = 0
        self.worker = self.manager()

    def _add(self, name):
        self.records.add(name)
        known = _node(name, name)
        return self.database.write(db.insert, 'default', name, ('lane',), known, {})

    def manager(self):
        """Return the worker of another manager."""
        return HostPower(self.conf, self.database, self.machines, lambda: None, self._fail)

    def _fail(self):
        self.failures += 1

    def look(self, times=1):
        for _ in range(times):
            self.worker.look()

    def sleep(self):
        """Have all hosts asleep that may."""
        self.look(2)

    def later(self, minutes):
        self.now += minutes * MINUTE

    def read(self, number=0):
        return self.database.read(db.get, self.ids[number])

    def change(self, unit=None, number=0, **host):
        self.database.write(db.update, self.ids[number], unit or {}, host)

    def state(self, number=0):
        return self.read(number).power

    def service(self):
        found = self.records.hypervisors['cn1']
        return found['status'], found['service']['disabled_reason']

    def disable(self, reason):
        """Have an operator disable a nova-compute."""
        hypervisor = self.records.hypervisors['cn1']
        hypervisor['status'] = 'disabled'
        hypervisor['service']['disabled_reason'] = reason

    def is_held(self):
        return 'cn1' in self.records.held

    def told(self):
        """Return what was told of hosts since the last promise, in order."""
        found = machines.read_told(self.database)
        return [(kind.removeprefix('host.power.'), name) for kind, name in found]

    def sleeps(self):
        return machines.read_sleeps(self.database)


@pytest.fixture
def sleepers(tmp_path, monkeypatch):
    made = Sleepers(tmp_path / 'climate.sqlite', monkeypatch)
    yield made
    made.database.dispose()


@pytest.fixture
def one(sleepers):
    """Of the two hosts one is always awake."""
    sleepers.change(number=1, kept_on=True)
    return sleepers


def generation(one):
    with one.database.reader() as session:
        query = sa.select(tables.UNITS.c.generation).where(tables.UNITS.c.id == one.ids[0])
        return session.scalar(query)


def test_look_at_a_host_that_sleeps_changes_nothing(one):
    one.sleep()
    before = generation(one), one.told(), [*one.machines.switched]
    one.look(3)
    assert (generation(one), one.told(), one.machines.switched) == before


def test_host_wakes_before_its_lease(one):
    one.sleep()
    promise(one.database, one.ids[0], NOON + 60 * MINUTE)
    one.look()
    one.later(52)
    one.look()
    assert one.state() is ASLEEP
    one.later(1)
    one.look()
    assert one.state() is WAKING
    one.later(1)
    one.look()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)
    assert one.machines.switched == [('cn1', 'off'), ('cn1', 'on')]
    assert one.told() == [('waking', 'cn1'), ('awake', 'cn1')]
    assert one.sleeps() == [('cn1', NOON, NOON + 53 * MINUTE)]
    assert one.read().wake_seconds == 60
    one.look()
    assert one.state() is None


def test_host_is_put_to_sleep_once_in_a_cycle(one):
    one.conf.set_override('min_cycle', 4 * 60 * 60, group='power')
    one.worker = one.manager()
    one.sleep()
    one.database.write(host_power.wake, one.ids[0])
    one.look(2)
    assert (one.state(), one.sleeps()) == (None, [('cn1', NOON, NOON)])
    # The usual cycle is over, and its own is not.
    one.later(239)
    one.sleep()
    assert one.state() is None
    one.later(1)
    one.sleep()
    assert one.state() is ASLEEP


def test_host_that_woke_quickly_before_is_woken_later(one):
    one.sleep()
    one.change(wake_seconds=60)
    promise(one.database, one.ids[0], NOON + 60 * MINUTE)
    one.later(56)
    one.look()
    assert one.state() is ASLEEP
    one.later(1)
    one.look()
    assert one.state() is WAKING


def test_host_with_volumes_is_not_switched_off(one):
    one.records.with_volumes.add('cn1')
    one.look(2)
    assert one.told() == []


@pytest.mark.parametrize('name', ['cn1.example.org@lvm', 'cn1@lvm', 'cn1'])
def test_host_with_volumes_by_another_name_is_not_switched_off(one, monkeypatch, name):
    monkeypatch.setattr(volumes, 'list_service_hosts', LIST_SERVICE_HOSTS)
    monkeypatch.setattr(volumes, 'CINDER', mock.Mock(read=lambda *_args: [{'host': name}]))
    one.change(service_name='cn1.example.com')
    one.records.hypervisors['cn1.example.com'] = one.records.hypervisors['cn1']
    one.look(2)
    assert one.told() == []


def test_host_that_is_promised_meanwhile_stays_awake(one):
    promise(one.database, one.ids[0], NOON + 30 * MINUTE)
    idle = datetime.timedelta(hours=1)
    assert not one.database.write(host_power.fall_asleep, one.ids[0], idle)
    assert one.database.write(host_power.fall_asleep, one.ids[0], 29 * MINUTE)


def test_promise_by_what_was_known_before_is_refused(one):
    """A promise counts up the generation that it was made by."""
    before = generation(one)
    one.look()
    assert generation(one) > before


def test_host_without_a_driver_stays_awake(one):
    one.machines.unknown.add('cn1')
    one.look(2)
    assert one.told() == []


@pytest.mark.parametrize('reason', ['a new disk', None])
def test_host_that_an_operator_disabled_in_nova_is_left_alone(one, reason):
    one.disable(reason)
    one.look(2)
    assert one.told() == []
    # The same when it happens meanwhile.
    assert one.database.write(host_power.fall_asleep, one.ids[0], MINUTE)
    one.look(2)
    assert (one.state(), one.machines.switched) == (None, [])
    assert (one.service(), one.is_held()) == (('disabled', reason), False)
    # It did not sleep, and that says nothing of how long it takes to wake.
    assert one.read().wake_seconds is None


def test_host_that_an_operator_disabled_while_it_was_switched_off_is_switched_on(one):
    one.look()
    one.machines.switch_off('cn1', True)
    one.disable('a new disk')
    one.look(3)
    assert one.machines.switched[-1] == ('cn1', 'on')
    assert (one.state(), one.service(), one.is_held()) == (None, ('disabled', 'a new disk'), False)


def test_host_that_lost_its_driver_while_it_falls_asleep_is_used_again(one):
    assert one.database.write(host_power.fall_asleep, one.ids[0], MINUTE)
    one.machines.unknown.add('cn1')
    one.look(2)
    assert (one.state(), one.machines.switched) == (None, [])


def test_host_that_lost_its_driver_while_it_slept_is_used_when_it_comes(one):
    one.sleep()
    one.machines.switch_on('cn1')
    one.machines.unknown.add('cn1')
    one.look(2)
    assert (one.state(), one.read().kept_on) == (None, True)
    assert (one.service(), one.is_held()) == (('enabled', None), False)


def test_nova_compute_that_an_operator_disabled_meanwhile_stays_so(one):
    one.sleep()
    one.disable('a new disk')
    one.database.write(host_power.wake, one.ids[0])
    one.look(2)
    assert (one.state(), one.service()) == (None, ('disabled', 'a new disk'))


def test_host_that_is_disabled_is_left_alone(one):
    one.change({'available': False}, disabled_reason='a new disk')
    one.look(2)
    assert one.told() == []


def test_host_that_a_person_switches_on_is_kept_on(one):
    one.sleep()
    one.machines.switch_on('cn1')
    one.look(2)
    assert (one.state(), one.read().kept_on) == (None, True)
    assert one.service() == ('enabled', None)
    one.later(1000)
    one.look(2)
    assert one.state() is None
    one.change(kept_on=False)
    one.sleep()
    assert one.state() is ASLEEP


def test_operator_has_a_host_woken(one):
    one.sleep()
    one.change(kept_on=True)
    one.look(2)
    assert one.state() is None


def test_host_is_put_to_sleep_once_in_a_while(one):
    one.sleep()
    one.database.write(host_power.wake, one.ids[0])
    one.look(1)
    one.later(119)
    one.look()
    assert one.state() is None
    one.later(1)
    one.look()
    assert one.state() is FALLING


def test_spare_hosts_stay_awake(sleepers):
    sleepers.conf.set_override('min_awake', 1, group='power')
    sleepers.worker = sleepers.manager()
    sleepers.look(3)
    assert (sleepers.state(), sleepers.state(1)) == (ASLEEP, None)


def test_host_that_does_not_wake_fails(one):
    one.sleep()
    one.machines.dead.add('cn1')
    one.database.write(host_power.wake, one.ids[0])
    one.later(6)
    one.look()
    assert (one.read().failed, one.failures) == (False, 0)
    one.later(1)
    one.look(2)
    host = one.read()
    told = 'Failed: It was switched on at 2026-12-01 12:00 UTC, and its nova-compute is not up.'
    assert (host.failed, host.reason, host.available) == (True, told, False)
    assert (one.failures, [kind for kind, _ in one.told()].count('failed')) == (1, 1)
    # It is waited for all the same.
    one.machines.dead.clear()
    one.machines.switch_on('cn1')
    one.look()
    assert (one.state(), one.service()) == (None, ('enabled', None))


def test_machine_that_does_not_answer_holds_up_no_other(sleepers):
    sleepers.machines.silent.add('cn1')
    sleepers.look(2)
    assert (sleepers.state(), sleepers.state(1)) == (FALLING, ASLEEP)
    sleepers.machines.silent.clear()
    sleepers.look(2)
    assert sleepers.state() is ASLEEP


def test_machine_that_does_not_shut_down_is_cut_off(one):
    one.machines.stubborn.add('cn1')
    one.look(2)
    one.later(6)
    one.look(2)
    assert one.machines.switched == [('cn1', 'off'), ('cn1', 'cut')]
    assert one.state() is ASLEEP


def test_host_that_is_never_off_is_woken(one):
    one.look()
    one.machines.off.clear()
    one.machines.silent.add('cn1')
    one.later(16)
    one.look()
    one.machines.silent.clear()
    one.machines.switch_on('cn1')
    one.look()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)


def test_two_managers_put_the_same_host_to_sleep(sleepers):
    sleepers.conf.set_override('min_awake', 1, group='power')
    sleepers.worker, other = sleepers.manager(), sleepers.manager()
    for _ in range(3):
        sleepers.look()
        other.look()
    assert (sleepers.state(), sleepers.state(1)) == (ASLEEP, None)
    assert sleepers.told() == [('falling_asleep', 'cn1'), ('asleep', 'cn1')]


def test_host_with_a_server_is_left_alone(one):
    one.records.servers.add('cn1')
    one.look(3)
    assert (one.state(), one.told()) == (None, [])
    # One may come when that it is put to sleep is written already.
    assert one.database.write(host_power.fall_asleep, one.ids[0], MINUTE)
    one.look()
    assert (one.state(), one.machines.switched, one.service()) == (None, [], ('enabled', None))


def test_several_nodes_of_a_nova_compute_are_left_alone(one):
    known = _node('cn3', 'cn1')
    one.database.write(db.insert, 'default', 'cn3', ('lane',), known, {})
    one.look(2)
    assert one.told() == []


@pytest.mark.parametrize('what', ['silent', 'unknown'])
def test_host_that_wakes_and_cannot_be_asked_fails(one, what):
    one.sleep()
    one.database.write(host_power.wake, one.ids[0])
    getattr(one.machines, what).add('cn1')
    one.look()
    assert not one.read().failed
    one.later(7)
    one.look()
    assert (one.read().failed, one.failures) == (True, 1)


def test_host_that_is_awake_at_the_last_moment_has_not_failed(one):
    one.sleep()
    one.database.write(host_power.wake, one.ids[0])
    one.machines.switch_on('cn1')
    one.later(7)
    one.look()
    assert (one.state(), one.read().failed, one.failures) == (None, False, 0)


def test_host_wakes_while_it_is_not_known_which_may_sleep(one, monkeypatch):
    def away(_conn):
        raise exceptions.Transient('Placement does not answer')

    one.sleep()
    monkeypatch.setattr(placement, 'find_rooms', away)
    one.change(number=1, kept_on=False)
    one.change(kept_on=True)
    one.look(2)
    assert (one.state(), one.state(1)) == (None, None)


@pytest.mark.parametrize('left', [{'host': 'cn1', 'status': 'UNKNOWN'}, None])
def test_host_whose_nova_compute_is_not_known_is_woken_after_a_while(one, monkeypatch, left):
    """Its cell is down, or it was deleted."""
    assert one.database.write(host_power.fall_asleep, one.ids[0], MINUTE)
    services = one.records.services

    def partial():
        found = services()
        del found['cn1']
        return found if left is None else {**found, 'cn1': left}

    monkeypatch.setattr(one.records, 'services', partial)
    one.look(2)
    assert (one.state(), one.machines.switched) == (FALLING, [])
    one.later(16)
    one.look()
    assert one.state() is WAKING


def no_nova(monkeypatch):
    """Have nova-api not answer until the returned function is called."""

    def fail(_conn):
        raise exceptions.Transient('no nova-api')

    answers = hypervisors.list_services
    monkeypatch.setattr(hypervisors, 'list_services', fail)
    return lambda: monkeypatch.setattr(hypervisors, 'list_services', answers)


def test_host_that_is_needed_is_switched_on_while_nova_does_not_answer(one, monkeypatch):
    one.sleep()
    promise(one.database, one.ids[0], NOON + 60 * MINUTE)
    answer = no_nova(monkeypatch)
    one.later(53)
    one.look()
    assert (one.state(), one.machines.switched[-1]) == (WAKING, ('cn1', 'on'))
    # Nobody can tell whether it is up, so it is neither awake nor failed.
    one.later(30)
    one.look()
    assert (one.state(), one.failures) == (WAKING, 0)
    answer()
    one.look()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)
    assert one.read().state == hosts.State.ENROLLED


def test_no_host_is_put_to_sleep_while_nova_does_not_answer(one, monkeypatch):
    answer = no_nova(monkeypatch)
    one.look(2)
    assert (one.state(), one.machines.switched) == (None, [])
    answer()
    one.look()
    assert one.state() is FALLING


def test_host_that_falls_asleep_is_not_switched_off_while_nova_does_not_answer(one, monkeypatch):
    assert one.database.write(host_power.fall_asleep, one.ids[0], MINUTE)
    answer = no_nova(monkeypatch)
    one.look(3)
    assert (one.state(), one.machines.switched) == (FALLING, [])
    one.later(16)
    one.look(2)
    assert one.state() is WAKING
    answer()
    one.look()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)
    assert ('cn1', 'off') not in one.machines.switched


def test_driver_that_raises_anything_holds_up_no_other(sleepers, caplog, monkeypatch):
    is_on = sleepers.machines.is_on

    def fail(name):
        if name == 'cn1':
            raise ValueError('a secret')
        return is_on(name)

    monkeypatch.setattr(sleepers.machines, 'is_on', fail)
    sleepers.look(2)
    assert (sleepers.state(), sleepers.state(1)) == (FALLING, ASLEEP)
    assert 'cn1 is falling_asleep, and goes on later: ValueError' in caplog.text
    assert 'a secret' not in caplog.text


def test_host_that_no_driver_can_tell_of_stays_awake(one, caplog, monkeypatch):
    def fail(_name):
        raise ValueError('a secret')

    monkeypatch.setattr(one.machines, 'knows', fail)
    one.look(2)
    assert one.told() == []
    assert 'cn1 is not put to sleep: ValueError' in caplog.text
    assert 'a secret' not in caplog.text


def test_tool_is_told_to_switch_a_host_on_again_that_was_never_off(one, monkeypatch):
    """The tool may have switched nothing yet, and does what it was told last."""
    told, down = [], []
    monkeypatch.setattr(one.machines, 'is_on', lambda _name: None)
    monkeypatch.setattr(one.machines, 'switch_off', lambda _name, _force: told.append('off'))

    def switch_on(_name):
        if down:
            raise PowerTrouble('it does not answer')
        told.append('on')

    monkeypatch.setattr(one.machines, 'switch_on', switch_on)
    one.look()
    one.later(16)
    one.look()
    assert one.state() is WAKING
    down.append(True)
    one.look(2)
    assert (one.state(), told) == (WAKING, ['off'])
    down.clear()
    one.look()
    assert (one.state(), told) == (None, ['off', 'on'])
