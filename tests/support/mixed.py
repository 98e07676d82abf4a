# SPDX-License-Identifier: Apache-2.0
"""Leases of hosts, addresses, networks, volumes and servers: of the calendar, and the rest.

Nothing is behind them; a journal has in which order they are woken and ended.
"""

import uuid
from collections.abc import Sequence
from typing import Any

from climate_core.lease import model
from climate_core.plugins.base import ResourcePlugin
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.volume import VolumePlugin
from climate_hosts.db import hosts
from climate_hosts.nodes import Node
from climate_hosts.plugins.host import HostPlugin
from climate_networks import db
from climate_networks.plugins.floatingips import FloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin
from climate_networks.units import Segment
from tests.support.created import get_id
from tests.support.world import Things, World, user

NETWORK = str(uuid.uuid4())


class Volumes(Things):
    resource_type = 'virtual:volume'
    rank = VolumePlugin.rank


class Servers(Things):
    resource_type = 'virtual:instance'
    rank = ServerPlugin.rank


class Mixed:
    """A manager of all of them.

    :ivar journal: (what was done, type of the resource), in order
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.journal: list[tuple[str, str]] = []
        for kind in (HostPlugin, FloatingIpPlugin, NetworkPlugin):
            world.conf.register_opts(kind.options, group=kind.resource_type)
            self._add(type('Awake', (kind,), {})(world.conf, None))
        world.conf.set_override('prepare_seconds', 0, group=HostPlugin.resource_type)
        self._add(Volumes())
        self._add(Servers())

    def _add(self, plugin: ResourcePlugin) -> None:
        def note(action: str) -> Any:
            return lambda *_: self.journal.append((action, plugin.resource_type))

        for method, action in (('start', 'wake'), ('reallocate', 'follow'), ('end', 'end')):
            setattr(plugin, method, note(action))
        self.world.plugins[plugin.resource_type] = plugin

    def add_hosts(self, count: int) -> None:
        for _ in range(count):
            name = str(uuid.uuid4())
            known = Node(hypervisor_hostname=name, service_name=name, capacity={}, details={})
            self.world.database.write(hosts.insert, 'default', name, ('a', 'b'), known, {})

    def add_addresses(self, *addresses: str) -> None:
        self.world.database.write(
            db.insert_floatingips, NETWORK, dict.fromkeys(addresses, 'subnet')
        )

    def add_segments(self, *numbers: int, physical_network: str = 'physnet1') -> list[int]:
        found = [Segment('vlan', physical_network, each) for each in numbers]
        unit = {'available': True, 'access': None}
        return self.world.database.write(db.insert_segments, found, unit, {})

    def lease(
        self, start: str, end: str, reservations: Sequence[dict[str, Any]], **values: Any
    ) -> model.Lease:
        body = {'name': start, 'start_date': start, 'end_date': end, **values}
        made = get_id(
            self.world.operations.creator.create_lease(
                user(), {**body, 'reservations': reservations}
            )
        )
        return self.world.lease(made)

    def change(self, lease: model.Lease, **values: Any) -> model.Lease:
        self.world.operations.update_lease(user(), lease.id, values)
        return self.world.lease(lease.id)

    def statuses(self, lease: model.Lease) -> dict[str, str]:
        """Return the statuses of the reservations of a lease, by their types."""
        return {e.resource_type: e.status for e in self.world.lease(lease.id).reservations}

    def done(self, action: str) -> list[str]:
        """Return the types of the resources to which something was done, in order."""
        return [kind for what, kind in self.journal if what == action]


def some_hosts(least: int = 1) -> dict[str, Any]:
    return {'resource_type': 'physical:host', 'min': least, 'max': least}


def some_addresses(amount: int = 1) -> dict[str, Any]:
    return {'resource_type': 'virtual:floatingip', 'network_id': NETWORK, 'amount': amount}


def a_network() -> dict[str, Any]:
    return {'resource_type': 'network', 'network_name': 'n'}


def thing(kind: str) -> dict[str, Any]:
    return {'resource_type': f'virtual:{kind}', 'resource_id': str(uuid.uuid4())}
