# SPDX-License-Identifier: Apache-2.0
"""Hosts are put to sleep and woken when they are to be."""

import datetime
from unittest import mock

import pytest
import sqlalchemy as sa

from climate_core.cloud import volumes
from climate_core.db import tables
from climate_hosts.db import hosts as db
from climate_hosts.power import db as db_power
from tests.support.hosts import promise
from tests.support.leases import NOON
from tests.unit.hosts.powered_hosts import ASLEEP, FALLING, MINUTE, WAKING, node

LIST_SERVICE_HOSTS = volumes.list_service_hosts


def generation(one):
    with one.database.reader() as session:
        query = sa.select(tables.UNITS.c.generation).where(tables.UNITS.c.id == one.ids[0])
        return session.scalar(query)


def test_look_at_a_host_that_sleeps_changes_nothing(one):
    one.sleep()
    before = generation(one), one.told(), [*one.machines.switched]
    one.poll(3)
    assert (generation(one), one.told(), one.machines.switched) == before


def test_host_wakes_before_its_lease(one):
    one.sleep()
    promise(one.database, one.ids[0], NOON + 60 * MINUTE)
    one.poll()
    one.later(52)
    one.poll()
    assert one.state() is ASLEEP
    one.later(1)
    one.poll()
    assert one.state() is WAKING
    one.later(1)
    one.poll()
    assert (one.state(), one.service(), one.is_held()) == (None, ('enabled', None), False)
    assert one.machines.switched == [('cn1', 'off'), ('cn1', 'on')]
    assert one.told() == [('waking', 'cn1'), ('awake', 'cn1')]
    assert one.sleeps() == [('cn1', NOON, NOON + 53 * MINUTE)]
    assert one.read().wake_seconds == 60
    one.poll()
    assert one.state() is None


def test_host_is_put_to_sleep_once_in_a_cycle(one):
    one.conf.set_override('min_cycle', 4 * 60 * 60, group='power')
    one.worker = one.manager()
    one.sleep()
    one.database.write(db_power.mark_waking, one.ids[0])
    one.poll(2)
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
    one.poll()
    assert one.state() is ASLEEP
    one.later(1)
    one.poll()
    assert one.state() is WAKING


def test_host_with_volumes_is_not_switched_off(one):
    one.records.with_volumes.add('cn1')
    one.poll(2)
    assert one.told() == []


@pytest.mark.parametrize('name', ['cn1.example.org@lvm', 'cn1@lvm', 'cn1'])
def test_host_with_volumes_by_another_name_is_not_switched_off(one, monkeypatch, name):
    monkeypatch.setattr(volumes, 'list_service_hosts', LIST_SERVICE_HOSTS)
    monkeypatch.setattr(volumes, 'CINDER', mock.Mock(read=lambda *_args: [{'host': name}]))
    one.change(service_name='cn1.example.com')
    one.records.hypervisors['cn1.example.com'] = one.records.hypervisors['cn1']
    one.poll(2)
    assert one.told() == []


def test_host_that_is_promised_meanwhile_stays_awake(one):
    promise(one.database, one.ids[0], NOON + 30 * MINUTE)
    idle = datetime.timedelta(hours=1)
    assert not one.database.write(db_power.start_sleep, one.ids[0], idle)
    assert one.database.write(db_power.start_sleep, one.ids[0], 29 * MINUTE)


def test_promise_by_what_was_known_before_is_refused(one):
    """A promise counts up the generation that it was made by."""
    before = generation(one)
    one.poll()
    assert generation(one) > before


def test_host_without_a_driver_stays_awake(one):
    one.machines.unknown.add('cn1')
    one.poll(2)
    assert one.told() == []


@pytest.mark.parametrize('reason', ['a new disk', None])
def test_host_that_an_operator_disabled_in_nova_is_left_alone(one, reason):
    one.disable(reason)
    one.poll(2)
    assert one.told() == []
    # The same when it happens meanwhile.
    assert one.database.write(db_power.start_sleep, one.ids[0], MINUTE)
    one.poll(2)
    assert (one.state(), one.machines.switched) == (None, [])
    assert (one.service(), one.is_held()) == (('disabled', reason), False)
    # It did not sleep, and that says nothing of how long it takes to wake.
    assert one.read().wake_seconds is None


def test_host_that_an_operator_disabled_while_it_was_switched_off_is_switched_on(one):
    one.poll()
    one.machines.switch_off('cn1', True)
    one.disable('a new disk')
    one.poll(3)
    assert one.machines.switched[-1] == ('cn1', 'on')
    assert (one.state(), one.service(), one.is_held()) == (None, ('disabled', 'a new disk'), False)


def test_host_that_lost_its_driver_while_it_falls_asleep_is_used_again(one):
    assert one.database.write(db_power.start_sleep, one.ids[0], MINUTE)
    one.machines.unknown.add('cn1')
    one.poll(2)
    assert (one.state(), one.machines.switched) == (None, [])


def test_host_that_lost_its_driver_while_it_slept_is_used_when_it_comes(one):
    one.sleep()
    one.machines.switch_on('cn1')
    one.machines.unknown.add('cn1')
    one.poll(2)
    assert (one.state(), one.read().kept_on) == (None, True)
    assert (one.service(), one.is_held()) == (('enabled', None), False)


def test_nova_compute_that_an_operator_disabled_meanwhile_stays_so(one):
    one.sleep()
    one.disable('a new disk')
    one.database.write(db_power.mark_waking, one.ids[0])
    one.poll(2)
    assert (one.state(), one.service()) == (None, ('disabled', 'a new disk'))


def test_host_that_is_disabled_is_left_alone(one):
    one.change({'available': False}, disabled_reason='a new disk')
    one.poll(2)
    assert one.told() == []


def test_host_that_a_person_switches_on_is_kept_on(one):
    one.sleep()
    one.machines.switch_on('cn1')
    one.poll(2)
    assert (one.state(), one.read().kept_on) == (None, True)
    assert one.service() == ('enabled', None)
    one.later(1000)
    one.poll(2)
    assert one.state() is None
    one.change(kept_on=False)
    one.sleep()
    assert one.state() is ASLEEP


def test_operator_has_a_host_woken(one):
    one.sleep()
    one.change(kept_on=True)
    one.poll(2)
    assert one.state() is None


def test_host_is_put_to_sleep_once_in_a_while(one):
    one.sleep()
    one.database.write(db_power.mark_waking, one.ids[0])
    one.poll(1)
    one.later(119)
    one.poll()
    assert one.state() is None
    one.later(1)
    one.poll()
    assert one.state() is FALLING


def test_spare_hosts_stay_awake(powered_hosts):
    powered_hosts.conf.set_override('min_awake', 1, group='power')
    powered_hosts.worker = powered_hosts.manager()
    powered_hosts.poll(3)
    assert (powered_hosts.state(), powered_hosts.state(1)) == (ASLEEP, None)


def test_two_managers_put_the_same_host_to_sleep(powered_hosts):
    powered_hosts.conf.set_override('min_awake', 1, group='power')
    powered_hosts.worker, other = powered_hosts.manager(), powered_hosts.manager()
    for _ in range(3):
        powered_hosts.poll()
        other.poll()
    assert (powered_hosts.state(), powered_hosts.state(1)) == (ASLEEP, None)
    assert powered_hosts.told() == [('falling_asleep', 'cn1'), ('asleep', 'cn1')]


def test_host_with_a_server_is_left_alone(one):
    one.records.servers.add('cn1')
    one.poll(3)
    assert (one.state(), one.told()) == (None, [])
    # One may come when that it is put to sleep is written already.
    assert one.database.write(db_power.start_sleep, one.ids[0], MINUTE)
    one.poll()
    assert (one.state(), one.machines.switched, one.service()) == (None, [], ('enabled', None))


def test_several_nodes_of_a_nova_compute_are_left_alone(one):
    known = node('cn3', 'cn1')
    one.database.write(db.insert, 'default', 'cn3', ('lane',), known, {})
    one.poll(2)
    assert one.told() == []
