# SPDX-License-Identifier: Apache-2.0
"""Hosts of a pool that are put to sleep and woken; Nova and Placement are records."""

import datetime
from unittest import mock

from climate_core import conf as config
from climate_core.cloud import servers, volumes
from climate_core.cloud.placement import HostCapacity
from climate_core.db import tables
from climate_core.db.engine import Database
from climate_hosts import lane_providers, nova, placement
from climate_hosts.db import hosts as db
from climate_hosts.nodes import Node
from climate_hosts.power import states
from climate_hosts.power.states import PowerState
from climate_hosts.power.worker import HostPower
from tests.support import machines
from tests.support.leases import NOON
from tests.support.machines import FakeMachines

MINUTE = datetime.timedelta(minutes=1)
FALLING, ASLEEP = PowerState.FALLING_ASLEEP, PowerState.ASLEEP
WAKING = PowerState.WAKING


def node(name, service):
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
            (lane_providers, 'claim_host', self._take),
            (lane_providers, 'release_host', lambda _conn, each: self.held.discard(each)),
            (servers, 'list_compute_services', lambda _conn: self.services()),
            (nova, 'set_service_status', self._set_status),
            (placement, 'read_host_capacities', lambda _conn: self._rooms()),
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
            name: HostCapacity(
                name,
                {'MEMORY_MB': 2},
                {'MEMORY_MB': int(name in self.servers | self.held)},
                {},
                *[frozenset()] * 3,
            )
            for name in self.hypervisors
        }


class PoweredHosts:
    """The hosts cn1 and cn2, the worker of one manager, and a clock.

    :ivar failures: how often it was told that a host did not wake
    """

    def __init__(self, path, monkeypatch):
        self.conf = config.load([], [])
        self.conf.set_override('connection', f'sqlite:///{path}', group='database')
        self.conf.set_override('min_awake', 0, group='power')
        self.now = NOON
        self.database = Database(self.conf, lambda: self.now)
        tables.load_metadata().create_all(self.database.engine)
        self.records = Records(monkeypatch)
        self.ids = [self._add(name) for name in ('cn1', 'cn2')]
        self.machines = FakeMachines(self.conf, self.records)
        self.failures = 0
        self.database.listen(states.WAKE_FAILED, self._fail)
        self.worker = self.manager()

    def _add(self, name):
        self.records.add(name)
        known = node(name, name)
        return self.database.write(db.insert, 'default', name, ('lane',), known, {})

    def manager(self):
        """Return the worker of another manager."""
        return HostPower(self.conf, self.database, self.machines, mock.Mock())

    def _fail(self):
        self.failures += 1

    def poll(self, times=1):
        for _ in range(times):
            self.worker.poll()

    def sleep(self):
        """Have all hosts asleep that may."""
        self.poll(2)

    def later(self, minutes):
        self.now += minutes * MINUTE

    def read(self, number=0):
        return self.database.read(db.HOSTS.get, self.ids[number])

    def change(self, unit=None, number=0, **host):
        self.database.write(db.HOSTS.update, self.ids[number], unit or {}, host)

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
