# SPDX-License-Identifier: Apache-2.0
"""Leases of what the lease service makes for them, in a real nova or a real cinder."""

from tests.support.created import get_id
from tests.support.world import user


class MadeLeases:
    """Mixed into a test case that has a ``world`` and a ``lease_service``: knows what it does."""

    def create_lease(self, project_id, user_id, body):
        """Create a lease, of which the extension is told as well; return its id."""
        lease_id = get_id(
            self.world.operations.creator.create_lease(user(project_id, user_id), body)
        )
        shown = {'id': lease_id, 'name': 'lease', 'status': 'PENDING'}
        dates = {'start_date': '2082-12-01T13:00:00', 'end_date': '2082-12-01T14:00:00'}
        self.lease_service.leases[lease_id] = {**shown, **dates}
        return lease_id

    def look_around(self, looks=5):
        """Do what is due, and look again as often as the plugin wants."""
        for _ in range(looks):
            self.world.run_until_idle(seconds=5)

    def state(self, lease_id):
        """Return the status of a lease, and those of its reservations."""
        lease = self.world.lease(lease_id)
        return lease.status, [each.status for each in lease.reservations]
