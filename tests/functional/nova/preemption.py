# SPDX-License-Identifier: Apache-2.0
"""A host of a real nova whose servers give way to others."""

from tests.functional.nova.made_servers import SmallHostTest
from tests.support.world import user


class ServerPreemptionTest(SmallHostTest):
    """The host has room for two servers."""

    def owner(self):
        return user(self.api.project_id, 'fake')

    def run_preemptible(self, count=1, name='filler', **more):
        """Start a preemptible lease of servers until 14:00; return its id."""
        lease_id = self.lease(more={'preemptible': True, **more}, name=name, count=count)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * count)
        self.time.forward(seconds=1)
        return lease_id

    def until(self, lease_id, status):
        """Do what is due until a lease has a status; return it."""
        for _ in range(60):
            self.world.operations.queue.grant_waiting()
            self.world.run_until_idle(seconds=30)
            lease = self.world.lease(lease_id)
            if lease.status == status:
                return lease
        raise AssertionError(lease)

    def end(self, lease_id):
        self.world.operations.end_lease(self.owner(), lease_id)
        return self.until(lease_id, 'TERMINATED')

    def server(self, lease_id):
        """Return the server of the first reservation of a lease that holds one."""
        return self.show({'id': self.world.lease(lease_id).live[0].resource_id})

    def preempt(self, filler, count=2, **more):
        """Have others need the room; return their lease, which runs."""
        other = self.lease(name='other', count=count, more=more)
        self.until(filler, 'WAITING')
        self.until(other, 'ACTIVE')
        return other
