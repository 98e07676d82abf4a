# SPDX-License-Identifier: Apache-2.0
"""A stack of one lease."""

import uuid

from tests.functional.heat import leases
from tests.functional.heat.base import HeatTest

OUTPUTS = {
    'id': {'value': {'get_resource': 'lease'}},
    'status': {'value': {'get_attr': ['lease', 'status']}},
    'end': {'value': {'get_attr': ['lease', 'end_date']}},
    'held': {'value': {'get_attr': ['lease', 'reservations']}},
}
#: Resources that others have made.
SERVER, VOLUME = str(uuid.uuid4()), str(uuid.uuid4())
OF_SERVER = leases.of_server(SERVER)
OF_VOLUME = {'resource_type': 'virtual:volume', 'resource_id': VOLUME}


class LeaseTest(HeatTest):
    """A stack of one lease, and what may be in it."""

    def setUp(self):
        super().setUp()
        self.set_dates()

    def set_dates(self):
        """Let the next leases start in an hour and last an hour."""
        self.dates = {
            'start_date': self.leases.later(hours=1),
            'end_date': self.leases.later(hours=2),
        }

    def template(self, **properties):
        """Return a template of a lease with dates, however late it is, and other properties."""
        dates = dict(self.dates)
        if 'duration' in properties:
            del dates['end_date']
        return {**leases.template(**dates | properties), 'outputs': OUTPUTS}

    def make(self, **properties):
        """Create a stack of it."""
        return self.create(self.template(**properties))

    def make_started(self, **properties):
        """Create a stack of a lease, which then starts; gives the ids of both."""
        stack = self.make(**properties)
        lease = self.leases.lease.id
        self.leases.start(lease)
        return stack, lease

    def make_failed(self, **properties):
        """Create a stack of a lease that cannot wake a server; gives the ids of both."""
        stack = self.make(reservations=[OF_SERVER], **properties)
        lease = self.leases.lease.id
        self.leases.fail(SERVER, 'There is no room.')
        self.leases.start(lease)
        return stack, lease

    def make_over(self):
        """Create a stack of a lease that is over and leaves it alone; gives the ids of both."""
        stack, lease = self.make_started(on_end='nothing')
        self.leases.end(lease)
        return stack, lease

    def fail_requests(self, count=1):
        """Let the next requests to the lease service fail."""
        refusal = 'The database is away.'
        self.leases.answers = [leases.refusal(500, refusal) for _ in range(count)]
        return refusal

    def change(self, stack, **properties):
        """Update the stack; gives the lease, which is the same."""
        before = self.leases.lease.id
        self.update(stack, self.template(**properties))
        assert self.leases.lease.id == before == self.outputs(stack)['id']
        return self.leases.lease

    def refused(self, stack, **properties):
        """Update the stack in vain; gives the reason."""
        before = self.leases.lease
        self.update(stack, self.template(**properties), status='UPDATE_FAILED')
        assert self.leases.lease.id == before.id == self.resource(stack, 'lease').resource_id
        return self.reason(stack)

    def held(self):
        """Return what the lease holds besides the stack: id -> params."""
        return {
            r.resource_id: dict(r.params)
            for r in self.leases.lease.live
            if r.resource_type != 'virtual:stack'
        }
