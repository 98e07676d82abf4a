# SPDX-License-Identifier: Apache-2.0
"""Hosts, machines and services fail while hosts are put to sleep and woken."""

import pytest

from climate_core import exceptions
from climate_core.cloud import servers
from climate_hosts import hosts, placement
from climate_hosts.power import db as db_power
from climate_hosts.power.drivers import PowerError
from tests.support.hosts import promise
from tests.support.leases import NOON
from tests.unit.hosts.powered_hosts import ASLEEP, FALLING, MINUTE, WAKING


def test_host_that_does_not_wake_fails(one):
    one.sleep()
    one.machines.dead.add('cn1')
    one.database.write(db_power.mark_waking, one.ids[0])
    one.later(6)
    one.poll()
    assert (one.read().failed, one.failures) == (False, 0)
    one.later(1)
    one.poll(2)
    host = one.read()
    told = 'Failed: It was switched on at 2082-12-01 12:00 UTC, and its nova-compute is not up.'
    assert (host.failed, host.reason, host.available) == (True, told, False)
    assert (one.failures, [kind for kind, _ in one.told()].count('failed')) == (1, 1)
    # It is waited for all the same.
    one.machines.dead.clear()
    one.machines.switch_on('cn1')
    one.poll()
    assert (one.state(), one.service()) == (None, ('enabled', None))


def test_machine_that_does_not_answer_holds_up_no_other(powered_hosts):
    powered_hosts.machines.silent.add('cn1')
    powered_hosts.poll(2)
    assert (powered_hosts.state(), powered_hosts.state(1)) == (FALLING, ASLEEP)
    powered_hosts.machines.silent.clear()
    powered_hosts.poll(2)
    assert powered_hosts.state() is ASLEEP


def test_machine_that_does_not_shut_down_is_cut_off(one):
    one.machines.stubborn.add('cn1')
    one.poll(2)
    one.later(6)
    one.poll(2)
    assert one.machines.switched == [('cn1', 'off'), ('cn1', 'cut')]
    assert one.state() is ASLEEP


def test_host_that_is_never_off_is_woken(one):
    one.poll()
    one.machines.off.clear()
    one.machines.silent.add('cn1')
    one.later(16)
    one.poll()
    one.machines.silent.clear()
    one.machines.switch_on('cn1')
    one.poll()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)


@pytest.mark.parametrize('what', ['silent', 'unknown'])
def test_host_that_wakes_and_cannot_be_asked_fails(one, what):
    one.sleep()
    one.database.write(db_power.mark_waking, one.ids[0])
    getattr(one.machines, what).add('cn1')
    one.poll()
    assert not one.read().failed
    one.later(7)
    one.poll()
    assert (one.read().failed, one.failures) == (True, 1)


def test_host_that_is_awake_at_the_last_moment_has_not_failed(one):
    one.sleep()
    one.database.write(db_power.mark_waking, one.ids[0])
    one.machines.switch_on('cn1')
    one.later(7)
    one.poll()
    assert (one.state(), one.read().failed, one.failures) == (None, False, 0)


def test_host_wakes_while_it_is_not_known_which_may_sleep(one, monkeypatch):
    def away(_conn):
        raise exceptions.Transient('Placement does not answer')

    one.sleep()
    monkeypatch.setattr(placement, 'read_host_capacities', away)
    one.change(number=1, kept_on=False)
    one.change(kept_on=True)
    one.poll(2)
    assert (one.state(), one.state(1)) == (None, None)


@pytest.mark.parametrize('left', [{'host': 'cn1', 'status': 'UNKNOWN'}, None])
def test_host_whose_nova_compute_is_not_known_is_woken_after_a_while(one, monkeypatch, left):
    """Its cell is down, or it was deleted."""
    assert one.database.write(db_power.start_sleep, one.ids[0], MINUTE)
    services = one.records.services

    def partial():
        found = services()
        del found['cn1']
        return found if left is None else {**found, 'cn1': left}

    monkeypatch.setattr(one.records, 'services', partial)
    one.poll(2)
    assert (one.state(), one.machines.switched) == (FALLING, [])
    one.later(16)
    one.poll()
    assert one.state() is WAKING


def no_nova(monkeypatch):
    """Have nova-api not answer until the returned function is called."""

    def fail(_conn):
        raise exceptions.Transient('no nova-api')

    answers = servers.list_compute_services
    monkeypatch.setattr(servers, 'list_compute_services', fail)
    return lambda: monkeypatch.setattr(servers, 'list_compute_services', answers)


def test_host_that_is_needed_is_switched_on_while_nova_does_not_answer(one, monkeypatch):
    one.sleep()
    promise(one.database, one.ids[0], NOON + 60 * MINUTE)
    answer = no_nova(monkeypatch)
    one.later(53)
    one.poll()
    assert (one.state(), one.machines.switched[-1]) == (WAKING, ('cn1', 'on'))
    # Nobody can tell whether it is up, so it is neither awake nor failed.
    one.later(30)
    one.poll()
    assert (one.state(), one.failures) == (WAKING, 0)
    answer()
    one.poll()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)
    assert one.read().state == hosts.State.ENROLLED


def test_no_host_is_put_to_sleep_while_nova_does_not_answer(one, monkeypatch):
    answer = no_nova(monkeypatch)
    one.poll(2)
    assert (one.state(), one.machines.switched) == (None, [])
    answer()
    one.poll()
    assert one.state() is FALLING


def test_host_that_falls_asleep_is_not_switched_off_while_nova_does_not_answer(one, monkeypatch):
    assert one.database.write(db_power.start_sleep, one.ids[0], MINUTE)
    answer = no_nova(monkeypatch)
    one.poll(3)
    assert (one.state(), one.machines.switched) == (FALLING, [])
    one.later(16)
    one.poll(2)
    assert one.state() is WAKING
    answer()
    one.poll()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)
    assert ('cn1', 'off') not in one.machines.switched


def test_driver_that_raises_anything_holds_up_no_other(powered_hosts, caplog, monkeypatch):
    is_on = powered_hosts.machines.is_on

    def fail(name):
        if name == 'cn1':
            raise ValueError('a secret')
        return is_on(name)

    monkeypatch.setattr(powered_hosts.machines, 'is_on', fail)
    powered_hosts.poll(2)
    assert (powered_hosts.state(), powered_hosts.state(1)) == (FALLING, ASLEEP)
    assert 'cn1 is falling_asleep; the next poll retries: ValueError' in caplog.text
    assert 'a secret' not in caplog.text


def test_host_that_no_driver_can_tell_of_stays_awake(one, caplog, monkeypatch):
    def fail(_name):
        raise ValueError('a secret')

    monkeypatch.setattr(one.machines, 'knows', fail)
    one.poll(2)
    assert one.told() == []
    assert 'cn1 is not powered off: ValueError' in caplog.text
    assert 'a secret' not in caplog.text


def test_tool_is_told_to_switch_a_host_on_again_that_was_never_off(one, monkeypatch):
    """The tool may have switched nothing yet, and does what it was told last."""
    told, down = [], []
    monkeypatch.setattr(one.machines, 'is_on', lambda _name: None)
    monkeypatch.setattr(one.machines, 'switch_off', lambda _name, _force: told.append('off'))

    def switch_on(_name):
        if down:
            raise PowerError('it does not answer')
        told.append('on')

    monkeypatch.setattr(one.machines, 'switch_on', switch_on)
    one.poll()
    one.later(16)
    one.poll()
    assert one.state() is WAKING
    down.append(True)
    one.poll(2)
    assert (one.state(), told) == (WAKING, ['off'])
    down.clear()
    one.poll()
    assert (one.state(), told) == (None, ['off', 'on'])
