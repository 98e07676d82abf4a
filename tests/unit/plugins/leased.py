# SPDX-License-Identifier: Apache-2.0
"""Leases of stacks and their members, with a real engine in front of the fake cloud."""

import dataclasses

from climate_core.operations.leases import LeaseOperations
from climate_core.plugins.server import ServerPlugin
from climate_core.plugins.stack import StackPlugin
from climate_core.plugins.volume import VolumePlugin
from tests.support.created import get_id
from tests.support.fakes import cinder, heat, nova
from tests.support.world import Time, World

END = '2082-12-01 14:00'


class Leased(World):
    """An engine whose time is turned, and the plugins of a fake cloud.

    :param stacks: see :class:`tests.conformance.fake_stacks.FakeStacks`
    """

    def __init__(self, stacks):
        super().__init__('sqlite://', Time())
        self.stacks = stacks
        self.trusts = stacks.trusts
        for plugin in (ServerPlugin, VolumePlugin, StackPlugin):
            made = plugin(stacks.conf, stacks.cloud)
            made.now = self.time
            self.plugins[plugin.resource_type] = made
        services = dataclasses.replace(
            self.operations.services, trusts=self.trusts, cloud=stacks.cloud
        )
        self.operations = LeaseOperations(services)
        self.executor = self.new_executor()

    def lease_of(self, *stacks, alone=(), on_end='delete', member_end=None):
        """Make a lease of stacks with their members, and of servers that are in none.

        :param member_end: the end action of the members, which is of the configuration if None
        """
        items = [
            {'resource_type': 'virtual:stack', 'resource_id': each['id'], 'on_end': on_end}
            for each in stacks
        ]
        own = {'on_end': member_end} if member_end else {}
        for stack in stacks:
            items += [{**self._item(m), 'stack_id': stack['id'], **own} for m in stack['members']]
        items += [self._item(each) for each in alone]
        body = {'name': 'lease1', 'start_date': 'now', 'end_date': END, 'reservations': items}
        return get_id(self.operations.creator.create_lease(self.stacks.user(), body))

    def _item(self, resource_id):
        kind = 'volume' if resource_id in self.stacks.state.volumes else 'instance'
        return {'resource_type': f'virtual:{kind}', 'resource_id': resource_id}

    def stack(self, servers=2, volumes=0, **fields):
        """Make a stack of servers and volumes that sleep; the last server is a spare."""
        state = self.stacks.state
        made = [nova.add(state)['id'] for _ in range(servers)]
        disks = [cinder.add(state)['id'] for _ in range(volumes)]
        return heat.add(state, **{'members': disks + made, 'spares': made[-1:], **fields})

    def server(self, server_id):
        """Return the status of a server, None if it is gone."""
        return self.stacks.state.servers.get(server_id, {}).get('status')

    def volume(self, volume_id):
        return self.stacks.state.volumes.get(volume_id, {}).get('status')

    def run_for(self, lease_id, *statuses, looks=300):
        """Turn the time, ten seconds after ten, until the lease has one of these statuses."""
        for _ in range(looks):
            self.run_until_idle()
            if self.lease(lease_id).status in statuses:
                return
            self.time.forward(seconds=10)
        raise AssertionError(f'still {self.lease(lease_id)}')

    def look_around(self, looks):
        for _ in range(looks):
            self.run_until_idle()
            self.time.forward(seconds=10)

    def finish(self, lease_id):
        """Let the lease come to its end, and see that it is over."""
        self.time.now = self.lease(lease_id).end_date
        self.run_for(lease_id, 'TERMINATED')
