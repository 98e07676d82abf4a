# SPDX-License-Identifier: Apache-2.0
"""A stack in a lease, and what its tests ask about it."""

import datetime
from types import SimpleNamespace

import fixtures

from tests.functional.heat.base import HeatTest
from tests.functional.heat.users import ALICE
from tests.support.stacks import PAIR, hinted, stack_level

#: Nova and cinder answer so to the next request for a new server or volume.
NO_SERVER, NO_VOLUME = ('POST', '/servers$', 400), ('POST', '/volumes$', 400)
#: The attribute of a server that has run before.
HAS_RUN = {'OS-SRV-USG:launched_at': '2026-01-01T00:00:00.000000'}


def guide_row(row, cell):
    """Mark a test of a row of the table of updates in the user's guide.

    :param cell: ``before`` or ``after`` the start
    """
    return lambda test: test


class SlowEngines(fixtures.Fixture):
    """Workers that do not stop in the time that heat gives them."""

    def _setUp(self):
        nobody = SimpleNamespace(sleep=lambda seconds: None)
        self.useFixture(fixtures.MonkeyPatch('heat.engine.worker.time', nobody))


class ReservedTest(HeatTest):
    """Has a lease of alice, from one hour on for an hour.

    :ivar lease: its id
    """

    def setUp(self):
        super().setUp()
        self.lease = self.leases.make(ALICE)

    def reserve(self, template=PAIR, **kwargs):
        """Create a stack by hints."""
        return self.create(hinted(template, self.lease), **kwargs)

    def reserve_all(self, template=PAIR, name='stack1', **kwargs):
        """Create a stack whose environment names the lease."""
        return self.create(template, name, environment=stack_level(self.lease), **kwargs)

    def change(self, stack, template, **kwargs):
        """Update a stack whose environment names the lease; gives the stack."""
        kwargs.setdefault('environment', stack_level(self.lease))
        return self.update(stack, template, **kwargs)

    def start(self, stack, status='UPDATE_COMPLETE'):
        """Let the lease start, and do what the lease service does then; gives the stack."""
        self.leases.start(self.lease)
        return self.patch_stack(stack, status=status)

    def started(self, template=PAIR, **kwargs):
        """Create a stack whose environment names the lease, which then starts."""
        stack = self.reserve_all(template, **kwargs)
        self.start(stack)
        return stack

    def set_dates(self, **dates):
        """Change the lease, beside the stack."""
        end = self.leases.now + datetime.timedelta(days=9)
        client = ALICE.context().clients.client('climate')
        client.leases.update(self.lease, end=end, **dates)

    def ids(self, stack, *names):
        """Return the ids of the servers, volumes or others of the resources of a stack."""
        return [self.resource(stack, name).resource_id for name in names]

    def record(self, stack, name):
        """Return the server or volume of a resource, as nova or cinder have it."""
        (key,) = self.ids(stack, name)
        return {**self.cloud.nova.servers, **self.cloud.cinder.volumes}[key]

    def assert_order(self, *wanted):
        """Check that nova did some changes in this order."""
        found = [self.cloud.nova.changes.index(each) for each in wanted]
        assert found == sorted(found)

    def data(self, stack, name):
        """Return the data that heat keeps of a resource."""
        return self.resource(stack, name).data()

    def wakes(self):
        """Return what was woken up: volumes, then servers, each in their order."""
        cinder, nova = self.cloud.cinder.changed('os-wake_up'), self.cloud.nova.changed('wake_up')
        return cinder + nova

    def changes(self):
        """Return the requests that changed something in cinder and nova."""
        return self.cloud.cinder.changes + self.cloud.nova.changes

    def statuses(self):
        """Return the statuses of all servers, then of all volumes, each sorted."""
        return [*sorted(self.cloud.nova.statuses()), *sorted(self.cloud.cinder.statuses())]

    def held(self):
        """Return the ids of what the lease holds besides the stack."""
        found = self.leases.members(self.lease)
        return {which for kind, which in found if kind != 'virtual:stack'}

    def plugged(self, server):
        """Return the ids of the ports of a server."""
        ports = self.cloud.neutron.records['ports'].values()
        return {each['id'] for each in ports if each['device_id'] == server}

    def assert_nothing_left(self):
        """Check that no server, volume or reservation of one is left."""
        assert not self.cloud.nova.servers
        assert not self.cloud.cinder.volumes
        assert self.held() == set()

    def while_waiting(self, do, until):
        """Do something once, at a look of a thread of heat that waits.

        The test fails at its end if it was not done, or went wrong.

        :param until: tells when
        """
        todo = [do]

        def meanwhile():
            self.leases.run()
            if todo and until():
                todo.pop()()

        def check():
            assert todo == []

        self.bus.meanwhile = meanwhile
        self.addCleanup(check)
