# SPDX-License-Identifier: Apache-2.0
"""A stack that is updated."""

import datetime

from tests.functional.heat.reserved import ReservedTest
from tests.functional.heat.templates import PAIR, SERVER, added, changed, stack_level, without
from tests.functional.heat.users import ALICE

#: A server with nothing of its own, which can be reserved anew beside itself.
PLAIN = added(without(PAIR, 'disk', 'server'), 'server', 'OS::Nova::Server', **SERVER)


def with_second(template):
    """One server more."""
    return added(template, 'second', 'OS::Nova::Server', **SERVER)


def ported(template, *names, server='server'):
    """A server that has ports of the template, ``port`` and more."""
    for name in ('port', *names):
        template = added(template, name, 'OS::Neutron::Port', network={'get_resource': 'net'})
    ports = [{'port': {'get_resource': name}} for name in ('port', *names)]
    return changed(template, server, networks=ports)


class UpdateTest(ReservedTest):
    def change(self, stack, template, status='UPDATE_COMPLETE', **kwargs):
        kwargs.setdefault('environment', stack_level(self.lease))
        self.update(stack, template, **kwargs)
        return self.assert_stack(stack, status)

    def plugged(self, server):
        """Ids of the ports of a server."""
        ports = self.cloud.neutron.records['ports'].values()
        return {each['id'] for each in ports if each['device_id'] == server}

    def set_dates(self, **dates):
        """Change the lease, beside the stack."""
        end = self.leases.now + datetime.timedelta(days=9)
        client = ALICE.context().clients.client('climate')
        client.leases.update(self.lease, end=end, **dates)
