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
