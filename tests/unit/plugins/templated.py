# SPDX-License-Identifier: Apache-2.0
"""Leases with stacks of templates, with a real engine in front of the fake cloud."""

from climate_core.lease import model
from tests.support.created import get_id
from tests.support.fakes import nova
from tests.support.stacks import EMPTY
from tests.unit.plugins.leased import END, Leased

START = '2082-12-01 13:00'
SERVER = {'type': 'OS::Nova::Server'}
TEMPLATE = {
    **EMPTY,
    'parameters': {'flavor': {'type': 'string'}, 'key': {'type': 'string', 'hidden': True}},
    'resources': {'server': SERVER, 'disk': {'type': 'OS::Cinder::Volume'}},
}
PARAMETERS = {'flavor': 'small', 'key': 'secret'}
#: One that no host has room for.
TOO_BIG = {**TEMPLATE, 'resources': {'server': SERVER, 'none': SERVER}}


def wanted(**values):
    """Return a reservation of a request."""
    return {
        'resource_type': 'virtual:stack',
        'name': 'web',
        'template': TEMPLATE,
        'parameters': PARAMETERS,
        **values,
    }


class Templated(Leased):
    """Makes leases whose stacks are made with them."""

    def made(self, *items, start=START, end=END, **values):
        """Make a lease of such reservations."""
        body = {'name': 'lease1', 'start_date': start, 'end_date': end, 'reservations': items}
        return get_id(self.operations.creator.create_lease(self.stacks.user(), {**body, **values}))

    def held(self, **values):
        """Make a lease whose stack is filled."""
        lease_id = self.made(wanted(**values))
        self.look_around(5)
        return lease_id

    def begin(self, lease_id, looks=None):
        """Let the start of a lease come; run until it is active, or for so many looks."""
        self.time.now = self.lease(lease_id).start_date
        if looks is None:
            self.run_for(lease_id, 'ACTIVE')
        else:
            self.look_around(looks)

    def prepared(self, lease_id):
        """Return the event that fills the stack of a lease."""
        events = self.lease(lease_id).events
        (event,) = [each for each in events if each.event_type == model.PREPARE]
        return event

    def granted(self, *items, **values):
        """Tell what a dry run says of such a lease."""
        body = {'name': 'lease1', 'start_date': START, 'end_date': END, 'reservations': items}
        found = self.operations.check_lease(self.stacks.user(), {**body, **values})
        return found['granted']

    def joined(self, lease_id, **values):
        user = self.stacks.user()
        return self.operations.creator.add_reservation(user, lease_id, wanted(**values))

    def member(self, lease_id, status):
        """Let a server of the stack join, as Nova does; return its id."""
        stack = self.only()
        server = nova.add(self.state)
        stack['members'].append(server['id'])
        values = {**self._item(server['id']), 'stack_id': stack['id'], 'on_end': 'delete'}
        self.operations.creator.add_reservation(self.stacks.user(), lease_id, values)
        server['status'] = status
        return server['id']

    def taken_out(self, lease_id, number=0):
        reservation = self.lease(lease_id).reservations[number]
        user = self.stacks.user()
        self.operations.remove_reservation(user, lease_id, reservation.id)

    @property
    def state(self):
        return self.stacks.state

    def only(self):
        """Return the only stack of the cloud."""
        (stack,) = self.state.stacks.values()
        return stack

    def asked(self):
        """Return what was asked of stacks, in order."""
        told = [each['what'] for each in self.state.journal()]
        return [each for each in told if each in ('stack create', 'update', 'delete', 'suspend')]

    def members(self):
        return [
            each['status']
            for table in (self.state.volumes, self.state.servers)
            for each in table.values()
        ]

    def delete_as_alice(self, lease_id):
        self.operations.delete_lease(self.stacks.user(), lease_id)

    def start_as_alice(self, lease_id):
        self.operations.start_lease(self.stacks.user(), lease_id)

    def move_as_alice(self, lease_id, **values):
        self.operations.update_lease(self.stacks.user(), lease_id, values)

    def finish_as_alice(self, lease_id):
        self.operations.end_lease(self.stacks.user(), lease_id)
        self.run_for(lease_id, 'TERMINATED')
