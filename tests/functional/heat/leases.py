# SPDX-License-Identifier: Apache-2.0
"""The lease service as heat sees it: the real API and the real manager, with a clock to turn.

Only what is reserved is not real: plugins that keep a journal, and no cloud behind them.
"""

import dataclasses
import datetime
import json
import types
import uuid

import fixtures
import sqlalchemy as sa
import webob
import webob.dec
from oslo_messaging import ExpectedException
from wsgi_intercept import interceptor

from climate_core import exceptions, rpc
from climate_core.api import app
from climate_core.calendar.model import Demand
from climate_core.db import tables
from climate_core.lease import states
from climate_core.plugins import base
from climate_core.plugins.base import CalendarBacked, Preemptible, Prepared
from climate_hosts.db import hosts
from climate_hosts.nodes import Node
from climateclient.extension import hints as parsing
from tests.functional.heat.addresses import Addresses
from tests.functional.heat.bus import Killed  # noqa: F401
from tests.functional.heat.clouds import Refusal
from tests.functional.heat.users import ALICE
from tests.support import stacks, world
from tests.support.created import get_id

_PARAMS = {
    'resource_id': {'type': 'string', 'format': 'uuid'},
    'on_end': {'type': 'string'},
    'stack_id': {'type': 'string'},
}


class Reserved(world.Things):
    """A plugin whose resources do not exist; all wait for the start."""

    schema = _PARAMS
    required = ('resource_id',)
    changeable = ('on_end',)

    def reserve(self, context, values, lease_id=''):
        self.state.setdefault(values['resource_id'], 'asleep')
        params = {key: values[key] for key in ('on_end', 'stack_id') if key in values}
        return base.ReservedResource(values['resource_id'], params)


class Servers(Reserved):
    resource_type = 'virtual:instance'
    rank = 20


class Volumes(Reserved):
    resource_type = 'virtual:volume'
    rank = 10


class Stacks(Reserved, Prepared):
    """The steps of climate_core.plugins.stack_end, with this heat.

    :ivar status: stack -> its status, None when it is gone
    :ivar delete: asks heat to delete a stack
    :ivar room: whether there is room for what is made
    """

    resource_type = 'virtual:stack'
    schema = {
        **_PARAMS,
        'name': {'type': 'string'},
        'template': {'type': ['object', 'string']},
        'parameters': {'type': 'object'},
        'hold': {'type': 'string'},
    }
    required = ()
    rank = 5
    rank_at_end = 100

    def __init__(self):
        super().__init__()
        self.status = self.delete = lambda stack: None
        self.room = True

    def reserve(self, context, values, lease_id=''):
        if 'template' not in values:
            return super().reserve(context, values, lease_id)
        # No heat makes it: a lease and its template are all that is looked at.
        made = str(uuid.uuid5(uuid.NAMESPACE_URL, values['name']))
        params = {
            'hold': 'now',
            **{k: values[k] for k in ('name', 'hold', 'on_end') if k in values},
        }
        return base.ReservedResource(made, params)

    def make(self, context, lease_id, values, claimed):
        if 'template' not in values:
            return claimed
        self.state[claimed.resource_id] = 'made'
        return dataclasses.replace(claimed, prepare=claimed.params['hold'] == 'now')

    def prepare(self, lease, reservation):
        if not self.room:
            raise exceptions.Permanent('Heat could not create the stack: No valid host was found.')
        return self._act('prepare', reservation.resource_id, 'asleep')

    def end(self, lease, reservation):
        stack, on_end = reservation.resource_id, reservation.params.get('on_end')
        status = self.status(stack)
        if status in (None, 'DELETE_COMPLETE'):
            return self._act('end', stack, 'gone')
        members = any(r.params.get('stack_id') == stack for r in lease.live)
        taken_out = on_end == 'nothing' and status.endswith('_IN_PROGRESS') and not members
        if on_end == 'delete' or not (reservation.woken_at or taken_out):
            if status != 'DELETE_IN_PROGRESS':
                self.journal.append(('delete', stack))
                self.delete(stack)
            return base.PollAgain(5)
        if status == 'DELETE_IN_PROGRESS' or (on_end != 'nothing' and status[-3:] == 'ESS'):
            return base.PollAgain(5)
        return self._act('end', stack, 'kept')


class Hosts(Reserved, CalendarBacked, Preemptible):
    """What the calendar promises; there is none until it is built."""

    resource_type = 'physical:host'
    schema = {'min': {'type': 'integer'}}
    required = ()
    changeable = ('min',)
    rank = 30

    def reserve(self, context, values, lease_id=''):
        params = {'min': values.get('min', 1)}
        return base.ReservedResource(str(uuid.uuid4()), params, unit_kind='host')

    def request_keys(self, lease_id, values):
        return [values.get('min', 1)]

    def reservation_keys(self, reservation):
        return [reservation.params['min']]

    def read_demand(self, reservation):
        count = reservation.params['min']
        return Demand(
            kind='host',
            min_pieces=count,
            max_pieces=count,
            reservation_id=reservation.id,
            field='min',
            noun='hosts',
        )

    def preempt(self, lease, reservation):
        return self._act('preempt', reservation.resource_id, 'asleep')


class FloatingIps(Reserved):
    """Floating IPs that their owners have; they never sleep.

    :ivar records: the floating IPs of neutron, by their ids
    """

    resource_type = 'held:floatingip'
    rank = 3

    def __init__(self):
        super().__init__()
        self.records = {}

    def end(self, lease, reservation):
        if reservation.params.get('on_end') != 'nothing':
            self.records.pop(reservation.resource_id, None)
        return self._act('end', reservation.resource_id, 'gone')


class Manager:
    """In the place of RPC: the same calls, with what goes over a wire."""

    def __init__(self, operations):
        wakeups = types.SimpleNamespace(wake_all=lambda: None)
        self._endpoints = [
            rpc.Endpoint(each, wakeups) for each in (operations, operations.creator)
        ]

    def __getattr__(self, method):
        def call(context, *args, **kwargs):
            args, kwargs = json.loads(json.dumps([args, kwargs]))
            try:
                endpoint = next(e for e in self._endpoints if hasattr(e, method))
                return getattr(endpoint, method)(context, *args, **kwargs)
            except ExpectedException as expected:
                raise expected.exc_info[1] from None

        return call


class LeaseService(fixtures.Fixture):
    """The service at :attr:`url`.

    :param keystone: knows whose a token is
    :param directory: for its database
    :ivar requests: every webob.Request, in order
    :ivar answers: webob.Responses to give instead, one after the other, or what is raised in the
        midst of heat; None for none
    :ivar after: the same, for when the request has been done
    :ivar servers: the plugin of virtual:instance: ``calls``, ``answers``; so ``volumes``,
        ``stacks`` and ``floating_ips``
    :ivar addresses: :class:`tests.functional.heat.addresses.Addresses`
    """

    def __init__(self, keystone, directory):
        super().__init__()
        self._keystone, self._directory = keystone, directory

    def _setUp(self):
        self.url = f'http://leases-{uuid.uuid4().hex}:80/v1'
        self.requests, self.answers, self.after = [], [], []
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        self.world = world.World(f'sqlite:///{self._directory}/leases.sqlite', world.Time(now))
        self.world.requester = self.world.owner
        self.addCleanup(self.world.database.dispose)
        self.servers, self.volumes, self.stacks = Servers(), Volumes(), Stacks()
        self.addresses, self.floating_ips = Addresses(self.world.conf), FloatingIps()
        ours = (self.servers, self.volumes, self.stacks, Hosts())
        for each in (*ours, self.addresses, self.floating_ips):
            self.world.plugins[each.resource_type] = each
        self.world.conf.set_override('auth_strategy', 'noauth', group='api')
        self._api = app.load_application(
            self.world.conf,
            database=self.world.database,
            manager=Manager(self.world.operations),
            plugins={kind: type(each) for kind, each in self.world.plugins.items()},
        )
        intercept = interceptor.RequestsInterceptor(
            lambda: self._app, url=self.url.removesuffix('/v1')
        )
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)

    @webob.dec.wsgify
    def _app(self, request):
        self.requests.append(request)
        answer = _next(self.answers)
        if answer:
            return answer
        headers = self._keystone.headers(
            request.headers.get('X-Auth-Token'), request.headers.get('X-Service-Token')
        )
        if headers is None:
            return refusal(401, 'The token is not good.')
        request.headers.update(headers)
        response = request.get_response(self._api)
        return _next(self.after) or response

    # What the service does by itself, and what others do to it.

    @property
    def now(self):
        """Return the time of its clock."""
        return self.world.time.now

    def later(self, **delta):
        """Return a time after what the clock shows, as a user writes it."""
        return (self.now + datetime.timedelta(**delta)).isoformat()

    def run(self):
        """Do what is due now until nothing is."""
        self.world.run_until_idle()

    def forward(self, **delta):
        """Turn the clock, and do what is due then."""
        self.world.time.forward(**delta)
        self.run()

    def build_host(self):
        """Have one host more that leases can get."""
        name = str(uuid.uuid4())
        known = Node(hypervisor_hostname=name, service_name=name, capacity={}, details={})
        self.world.database.write(hosts.insert, 'default', name, ('lane',), known, {})

    def start(self, lease_id):
        """Let the start of a lease come."""
        self.world.time.now = max(self.now, self.get(lease_id).start_date)
        self.run()

    def end(self, lease_id):
        """Let the end of a lease come."""
        self.world.time.now = max(self.now, self.get(lease_id).end_date)
        self.run()

    def get(self, lease_id):
        """Return a lease as the service has it, a ``model.Lease``; also a deleted one."""
        return self.world.lease(lease_id)

    def make(self, user, *reservations, **values):
        """Make a lease of a user, beside heat; gives its id."""
        values = {
            'name': 'lease0',
            'start_date': self.later(hours=1),
            'end_date': self.later(hours=2),
            'reservations': list(reservations),
            **values,
        }
        context = world.user(project=user.project_id, name=user.name)
        return get_id(self.world.operations.creator.create_lease(context, values))

    def reserve(self, caller, kind, resource_id, hints):
        """Reserve a resource as the extensions of nova and cinder do at its creation.

        :returns: whether it is reserved
        :raises Refusal: as they refuse it
        """
        try:
            rules = parsing.HintRules(('delete', 'nothing', 'suspend', 'stop', 'shelve', 'detach'))
            wanted = parsing.parse(hints, self.now, rules)
        except parsing.BadHint as error:
            raise Refusal(400, str(error)) from None
        if wanted is None:
            return False
        item = {'resource_type': kind, 'resource_id': resource_id}
        item |= {'on_end': wanted.on_end} if wanted.on_end else {}
        if wanted.join and 'heat_root_stack_id' in hints:
            item['stack_id'] = hints['heat_root_stack_id']
        context = world.user(project=caller.project_id, name=caller.user_id)
        try:
            if wanted.join:
                self.world.operations.creator.add_reservation(context, wanted.lease_id, item)
            else:
                lease = {**wanted.lease, 'id': wanted.lease_id, 'reservations': [item]}
                self.world.operations.creator.create_lease(context, lease)
        except exceptions.ClimateError as error:
            raise Refusal(400, f'lease_id: {error}') from None
        return True

    def join(self, lease_id, item, user=ALICE):
        """Let a resource join a lease, beside heat."""
        context = world.user(project=user.project_id, name=user.name)
        self.world.operations.creator.add_reservation(context, lease_id, item)

    def leave(self, reservation):
        """Take a resource out of its lease, beside heat."""
        self.world.operations.remove_reservation(
            self.world.owner(reservation.lease_id), reservation.lease_id, reservation.id
        )
        self.run()

    def lose(self, lease_id):
        """Let a lease be gone, however that came."""
        status, self.stacks.status = self.stacks.status, lambda stack: None
        self.world.delete(lease_id)
        self.run()
        self.stacks.status = status

    def freed(self, resource_id):
        """End the reservations of a resource that is gone, as the listener does."""
        for lease in self.all():
            for each in lease.live:
                if each.resource_id == resource_id and lease.status not in states.ENDING:
                    self.world.operations.remove_reservation(
                        self.world.owner(lease.id), lease.id, each.id
                    )
        self.run()

    def fail(self, resource_id, reason):
        """Have a resource never wake up."""
        for each in (self.servers, self.volumes, self.stacks):
            each.answers['wake', resource_id] = [exceptions.Permanent(reason)]

    @property
    def lease(self):
        """Return the only lease that is not deleted."""
        (lease,) = self.all()
        return lease

    def all(self):
        """Return all leases that are not deleted."""
        found = [self.get(lease_id) for lease_id in self._ids()]
        return [each for each in found if each.deleted_at is None]

    def _ids(self):
        with self.world.database.reader() as session:
            return [row.id for row in session.execute(sa.select(tables.LEASES.c.id))]

    def members(self, lease_id):
        """Return what a lease holds: {(resource type, resource id)}."""
        return {(r.resource_type, r.resource_id) for r in self.get(lease_id).live}


def _next(answers):
    answer = answers.pop(0) if answers else None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def of_server(server, **more):
    """Return the reservation of a server."""
    return {'resource_type': 'virtual:instance', 'resource_id': server, **more}


def refusal(status, message, **more):
    """Return an error as the API writes it."""
    body = {
        'error_code': status,
        'error_message': message,
        'error_name': 'lease.error',
        **more,
    }
    return webob.Response(
        status=status, body=json.dumps(body).encode(), content_type='application/json'
    )


def template(**properties):
    """Return a template of one lease with these properties."""
    return stacks.stack({'lease': stacks.resource('OS::Climate::Lease', **properties)})
