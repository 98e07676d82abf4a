# SPDX-License-Identifier: Apache-2.0
"""``virtual:stack`` on the fake cloud."""

from collections.abc import Mapping, Sequence
from typing import Any

from climate_core.lease.model import Reservation
from climate_core.plugins.stack import end_steps
from climate_core.plugins.stack.plugin import StackPlugin
from tests.conformance.fake_volumes import FakeVolumes
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


class FakeStacks(FakeVolumes):
    """Stacks change when they are looked at, as servers do."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.conf.register_opts(StackPlugin.options, group=StackPlugin.resource_type)

    def plugin(self) -> StackPlugin:  # type: ignore[override]
        return StackPlugin(self.conf, self.cloud)

    def stack(self, **fields: Any) -> Record:
        """Make a stack with a volume and a server that are asleep."""
        volume, server = cinder.add(self.state), nova.add(self.state)
        return heat.add(self.state, **{'members': [volume['id'], server['id']], **fields})

    def reservable(self, **wish: Any) -> Mapping[str, Any]:
        return {'resource_type': 'virtual:stack', 'resource_id': self.stack()['id']}

    def running(self) -> Mapping[str, Any]:
        server = nova.add(self.state, status='ACTIVE', hints={})
        stack = heat.add(self.state, members=[server['id']])
        return {'resource_type': 'virtual:stack', 'resource_id': stack['id']}

    def wishes(self) -> Sequence[Mapping[str, Any]]:
        return [{'on_end': name} for name, _ in end_steps.CHOICES]

    def members(self, resource_id: str) -> list[str]:
        """The statuses of what a stack is made of."""
        ids = self.state.stacks[resource_id]['members']
        tables: list[dict[str, Record]] = [self.state.volumes, self.state.servers]
        return [table[each]['status'] for table in tables for each in ids if each in table]

    def awake(self, resource_id: str) -> bool:
        return self.members(resource_id) == ['available', 'ACTIVE']

    def wakes(self, resource_id: str) -> int:
        """How often Heat woke each member: the same number for all of them."""
        journal = self.state.journal()
        (count,) = {
            sum(e['what'] == 'woken by heat' and e['id'] == member for e in journal)
            for member in self.state.stacks[resource_id]['members']
        }
        return count

    def effects(self, resource_id: str) -> list[str]:
        """What was asked of a stack and accepted, in order."""
        entries = [entry for entry in self.state.journal() if entry['id'] == resource_id]
        return [entry['what'] for entry in entries if not entry['what'].startswith('stack ')]

    def gone(self, resource_id: str) -> bool:
        return resource_id not in self.state.stacks

    def ended(self, reservation: Reservation) -> bool:
        stack = self.state.stacks.get(reservation.resource_id)
        snapshots = [
            each
            for each in self.state.stack_snapshots.values()
            if each['stack_id'] == reservation.resource_id
        ]
        assert {each['status'] for each in snapshots} <= {'COMPLETE'}
        return (stack and stack['status'], len(snapshots)) == _LEFT[reservation.params['on_end']]

    def destroy(self, resource_id: str) -> None:
        with self.state.lock:
            self.state.drop('stacks', resource_id, {'what': 'stack lost', 'id': resource_id})
