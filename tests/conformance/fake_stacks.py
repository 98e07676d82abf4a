# SPDX-License-Identifier: Apache-2.0
"""``virtual:stack`` on the fake cloud."""

from collections.abc import Mapping
from typing import Any

from climate_core.lease.model import Reservation
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_core.plugins.volume import VolumePlugin
from tests.conformance.fake_servers import FakeServers
from tests.support.fakes import cinder, heat, nova
from tests.support.fakes.cloud_server import Server
from tests.support.fakes.state import Record

#: End action -> (status of the stack that is left, snapshots)
_LEFT = {
    'delete': (None, 0),
    'suspend': ('SUSPEND_COMPLETE', 0),
    'snapshot': ('SUSPEND_COMPLETE', 1),
    'nothing': ('UPDATE_COMPLETE', 0),
}


class FakeStacks(FakeServers):
    """Stacks change when they are looked at, as servers do."""

    plugin_class = StackPlugin
    kind = 'stack'

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        for each in (ServerPlugin, VolumePlugin):
            self.conf.register_opts(each.options, group=each.resource_type)

    def add(self, **fields: Any) -> Record:
        """Make a stack with a volume and a server that are asleep."""
        volume, server = cinder.add(self.state), nova.add(self.state)
        return heat.add(self.state, **{'members': [volume['id'], server['id']], **fields})

    def running(self) -> Mapping[str, Any]:
        server = nova.add(self.state, status='ACTIVE', hints={})
        stack = heat.add(self.state, members=[server['id']])
        return {'resource_type': 'virtual:stack', 'resource_id': stack['id']}

    def members(self, resource_id: str) -> list[str]:
        """Return the statuses of what a stack is made of."""
        ids = self.state.stacks[resource_id]['members']
        tables: list[dict[str, Record]] = [self.state.volumes, self.state.servers]
        return [table[each]['status'] for table in tables for each in ids if each in table]

    def awake(self, resource_id: str) -> bool:
        return self.members(resource_id) == ['available', 'ACTIVE']

    def wakes(self, resource_id: str) -> int:
        """Return how often Heat woke each member: the same number for all of them."""
        journal = self.state.journal()
        (count,) = {
            sum(e['what'] == 'woken by heat' and e['id'] == member for e in journal)
            for member in self.state.stacks[resource_id]['members']
        }
        return count

    def ended(self, reservation: Reservation) -> bool:
        stack = self.state.stacks.get(reservation.resource_id)
        snapshots = [
            each
            for each in self.state.stack_snapshots.values()
            if each['stack_id'] == reservation.resource_id
        ]
        assert {each['status'] for each in snapshots} <= {'COMPLETE'}
        return (stack and stack['status'], len(snapshots)) == _LEFT[reservation.params['on_end']]
