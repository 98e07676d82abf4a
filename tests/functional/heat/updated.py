# SPDX-License-Identifier: Apache-2.0
"""A stack that is updated."""

import datetime

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import PAIR, added, changed, stack_level, without
from tests.functional.heat.users import ALICE

_NET = [{'network': {'get_resource': 'net'}}]
#: A server with nothing of its own, which can be reserved anew beside itself.
PLAIN = added(
    without(PAIR, 'disk', 'server'), 'server', 'OS::Nova::Server',
    flavor='m1', image='cirros', networks=_NET,
)  # fmt: skip


def with_second(template):
    """One server more."""
    return added(
        template, 'second', 'OS::Nova::Server', flavor='m1', image='cirros', networks=_NET
    )


def ported(template):
    """A server that has a port of the template."""
    template = added(template, 'port', 'OS::Neutron::Port', network={'get_resource': 'net'})
    return changed(template, 'server', networks=[{'port': {'get_resource': 'port'}}])


class UpdateTest(ReservedTest):
    def change(self, stack, template, status='UPDATE_COMPLETE', **kwargs):
        kwargs.setdefault('environment', stack_level(self.lease))
        self.update(stack, template, **kwargs)
        return self.assert_stack(stack, status)

    def set_dates(self, **dates):
        """Change the lease, beside the stack."""
        end = self.leases.now + datetime.timedelta(days=9)
        client = ALICE.context().clients.client('climate')
        client.leases.update(self.lease, end=end, **dates)
