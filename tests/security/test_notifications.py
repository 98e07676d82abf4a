# SPDX-License-Identifier: Apache-2.0
"""Whoever reaches the bus of the services can forge their notifications."""

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging as messaging
import pytest

from climate_core.db.engine import Database
from climate_core.service import ManagerService
from tests.conformance.fake_servers import FakeServers
from tests.conformance.fake_stacks import FakeStacks
from tests.conformance.fake_volumes import FakeVolumes
from tests.security import cost
from tests.support.fakes import leases
from tests.support.world import Trusts, configure

PATIENCE = 60
#: Type of a resource -> exchange, event type and name of the id of the notification of its end.
ENDS = {
    'virtual:instance': ('nova', 'compute.instance.delete.end', 'instance_id'),
    'virtual:volume': ('openstack', 'volume.delete.end', 'volume_id'),
    'virtual:stack': ('heat', 'orchestration.stack.delete.end', 'stack_identity'),
}
NAMES = {
    'virtual:instance': 'resource_ids',
    'virtual:volume': 'volume_ids',
    'virtual:stack': 'stack_ids',
}
MALFORMED: list[Any] = [
    None,
    [],
    'x',
    7,
    {},
    {'nova_object.data': None},
    {'nova_object.data': ['x']},
    {'nova_object.data': {'uuid': {'uuid': 'x'}, 'binary': ['nova-compute']}},
    *(
        {name: value}
        for _, _, name in ENDS.values()
        for value in (7, True, ['x'], {'x': 'x'}, 'x\0', '\ud800', 'x' * 100_000, "' OR 1=1 --")
    ),
]


class Bus:
    """A manager that listens, and someone who forges what it hears."""

    def __init__(self, database: Database, *worlds: FakeServers) -> None:
        self.database = database
        self.worlds = {each.plugin().resource_type: each for each in worlds}
        conf = configure(database.engine.url.render_as_string(False))
        conf.set_override('interval', 10_000.0, group='reconcile')
        self.names = {kind: uuid.uuid4().hex for kind in ENDS}
        for kind, group in (
            ('virtual:instance', 'nova_notifications'),
            ('virtual:volume', 'cinder_notifications'),
            ('virtual:stack', 'heat_notifications'),
        ):
            conf.set_override('exchange', self.names[kind], group=group)
        plugins = {kind: each.plugin() for kind, each in self.worlds.items()}
        self.manager = ManagerService(
            conf,
            database=database,
            cloud=worlds[0].cloud,
            plugins=plugins,
            trusts=Trusts(),
        )
        self.manager.start()

    def notify(self, kind: str, event_type: str, payload: Any, priority: str = 'info') -> None:
        conf = configure('sqlite://')
        conf.set_override('control_exchange', self.names[kind])
        transport = messaging.get_notification_transport(conf)
        notifier = messaging.Notifier(transport, 'x', driver='messaging', topics=['notifications'])
        getattr(notifier, priority)({}, event_type, payload)

    def tell_deleted(self, kind: str, resource_id: str) -> None:
        _, event_type, name = ENDS[kind]
        self.notify(kind, event_type, {name: resource_id})

    def hold(self, kind: str, **fields: Any) -> tuple[str, str]:
        """Return a lease and the one resource that it holds, which exists."""
        resource_id = self.worlds[kind].add(**fields)['id']
        lease = leases.make(self.database, **{'resource_ids': [], NAMES[kind]: [resource_id]})
        return leases.write(self.database, leases.started(lease)).id, resource_id

    def wait_lost(self, lease_id: str) -> str:
        """Wait until a lease has lost all that it held; return the reason."""
        deadline, pause = time.monotonic() + PATIENCE, threading.Event()
        while (lease := leases.read(self.database, lease_id)).status != 'TERMINATED':
            assert time.monotonic() < deadline, lease
            pause.wait(0.02)
        return str(lease.status_reason)


@pytest.fixture
def bus(
    database: Database, world: FakeServers, volumes: FakeVolumes, stacks: FakeStacks
) -> Iterator[Bus]:
    made = Bus(database, world, volumes, stacks)
    yield made
    made.manager.stop()


@pytest.mark.parametrize('kind', ENDS)
def test_forged_deletion_ends_no_lease(bus: Bus, kind: str) -> None:
    """A deletion of another resource that did happen is recorded meanwhile."""
    kept, target = bus.hold(kind)
    lost, gone = bus.hold(kind)
    before = leases.read(bus.database, kept)
    bus.worlds[kind].destroy(gone)
    bus.tell_deleted(kind, target)
    bus.tell_deleted(kind, gone)
    assert 'outside of the lease' in bus.wait_lost(lost)
    assert leases.read(bus.database, kept) == before


def test_forged_failure_of_the_scheduler_ends_no_lease(bus: Bus) -> None:
    kind, event_type = 'virtual:volume', 'scheduler.create_volume'
    kept, target = bus.hold(kind, host='lvm@one')
    lost, failed = bus.hold(kind, host=None, status='error')
    before = leases.read(bus.database, kept)
    for resource_id in (target, failed):
        bus.notify(kind, event_type, {'volume_id': resource_id, 'state': 'error'}, 'error')
    assert 'Cinder found no backend for the volume.' in bus.wait_lost(lost)
    assert leases.read(bus.database, kept) == before


def test_forged_evacuation_is_not_recorded(bus: Bus) -> None:
    kind = 'virtual:instance'
    kept, target = bus.hold(kind)
    moved, evacuated = bus.hold(kind, actions=['evacuate', 'create'])
    before = leases.read(bus.database, kept)
    for resource_id in (target, evacuated):
        bus.notify(kind, 'compute.instance.evacuate', {'instance_id': resource_id})
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not leases.read(bus.database, moved).reservations[0].resources_changed:
        assert time.monotonic() < deadline
        pause.wait(0.02)
    assert leases.read(bus.database, kept) == before


@pytest.mark.parametrize('kind', ENDS)
def test_malformed_notifications_cost_nothing(bus: Bus, kind: str, caplog: Any) -> None:
    lost, gone = bus.hold(kind)
    bus.worlds[kind].destroy(gone)
    with cost.bounded(10, 100):
        for payload in MALFORMED:
            bus.notify(kind, ENDS[kind][1], payload)
        bus.notify(kind, 'service.update', {'nova_object.data': [1]})
        bus.tell_deleted(kind, gone)
        bus.wait_lost(lost)
    assert 'Exception during message handling' not in caplog.text
    assert 'Traceback' not in caplog.text


def test_flood_of_forged_deletions_is_few_requests(bus: Bus, fake: Any) -> None:
    kind = 'virtual:instance'
    _, target = bus.hold(kind)
    lost, gone = bus.hold(kind)
    bus.worlds[kind].destroy(gone)
    fake.state.requests.clear()
    for _ in range(300):
        bus.tell_deleted(kind, target)
    bus.tell_deleted(kind, gone)
    bus.wait_lost(lost)
    asked = [path for _, path, _ in fake.state.requests if path.endswith(target)]
    assert 1 <= len(asked) < 30
