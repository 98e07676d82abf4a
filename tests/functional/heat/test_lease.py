# SPDX-License-Identifier: Apache-2.0
"""OS::Climate::Lease: creation, attributes, check."""

from heat.common import exception
from oslo_serialization import jsonutils

from tests.functional.heat import leases
from tests.functional.heat.base import HeatTest

LEASE = """
heat_template_version: 2018-08-31
parameters:
  start: {type: string, default: now}
  end: {type: string}
resources:
  lease:
    type: OS::Climate::Lease
    properties:
      name: lease1
      start_date: {get_param: start}
      end_date: {get_param: end}
outputs:
  id: {value: {get_resource: lease}}
  status: {value: {get_attr: [lease, status]}}
  end: {value: {get_attr: [lease, end_date]}}
  held: {value: {get_attr: [lease, reservations]}}
"""


class TestLease(HeatTest):
    def make(self, **properties):
        """Create a stack of one lease."""
        dates = {'start': self.leases.later(hours=1), 'end': self.leases.later(hours=2)}
        template = leases.template(**properties) if properties else LEASE
        return self.create(template, **({} if properties else dates))

    def test_lease_holds_its_stack(self):
        stack = self.make()
        self.assert_stack(stack, 'CREATE_COMPLETE')
        lease = self.leases.lease
        assert lease.id == self.resource(stack, 'lease').uuid
        assert (lease.name, lease.project_id, lease.user_id) == ('lease1', '0' * 31 + 'a', 'alice')
        assert self.leases.members(lease.id) == {('virtual:stack', stack)}
        assert lease.live[0].params == {'on_end': 'delete'}
