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
SERVER = str(uuid.uuid4())
VOLUME = str(uuid.uuid4())


class LeaseTest(HeatTest):
    """A stack of one lease, and what may be in it."""

    def template(self, **properties):
        """A template of a lease that starts in an hour and lasts an hour."""
        dates = {'start_date': self.leases.later(hours=1), 'end_date': self.leases.later(hours=2)}
        if 'duration' in properties:
            del dates['end_date']
        return {**leases.template(**dates | properties), 'outputs': OUTPUTS}

    def make(self, **properties):
        """Create a stack of it."""
        stack = self.create(self.template(**properties))
        self.assert_stack(stack, 'CREATE_COMPLETE')
        return stack

    def reason(self, stack):
        """Why the stack is as it is."""
        return self.load(stack).status_reason


class UpdateTest(LeaseTest):
    """Updates of a stack of one lease."""

    def setUp(self):
        super().setUp()
        self.dates = {
            'start_date': self.leases.later(hours=1),
            'end_date': self.leases.later(hours=2),
        }

    def template(self, **properties):
        """The dates stay what they were, however late it is."""
        template = super().template(**properties)
        given = template['resources']['lease']['properties']
        given.update({k: v for k, v in self.dates.items() if k in given and k not in properties})
        return template

    def change(self, stack, **properties):
        """Update the stack; gives the lease, which is the same."""
        before = self.leases.lease.id
        self.update(stack, self.template(**properties))
        self.assert_stack(stack, 'UPDATE_COMPLETE')
        assert self.leases.lease.id == before == self.outputs(stack)['id']
        return self.leases.lease

    def refused(self, stack, **properties):
        """Update the stack in vain; gives the reason."""
        before = self.leases.lease
        self.update(stack, self.template(**properties))
        self.assert_stack(stack, 'UPDATE_FAILED')
        assert self.leases.lease.id == before.id == self.resource(stack, 'lease').resource_id
        return self.reason(stack)

    def held(self):
        """What the lease holds beside the stack: id -> params."""
        return {
            r.resource_id: dict(r.params)
            for r in self.leases.lease.live
            if r.resource_type != 'virtual:stack'
        }
