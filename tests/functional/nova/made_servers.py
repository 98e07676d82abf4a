# SPDX-License-Identifier: Apache-2.0
"""The base of the tests of servers that the lease service makes for a lease."""

import base64
import datetime

import fixtures
import webob
from cryptography.fernet import Fernet
from keystoneauth1 import plugin
from keystoneauth1 import session as ks_session
from neutronclient.common import exceptions as neutron_exceptions
from nova import exception

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.context import RequestContext
from climate_core.db import usage as db
from climate_core.delivery import usage
from climate_core.plugins.server import ServerPlugin
from tests.functional.lease_service import refusal
from tests.functional.made import MadeLeases
from tests.functional.nova.hosts import Cloud, Crash, HostsTest
from tests.support.world import NOON, Time, World, user

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
SCRIPT = base64.b64encode(b'#!/bin/sh\n').decode()
HOUR = datetime.timedelta(hours=1)
HOST = 'OS-EXT-SRV-ATTR:host'
START, END = '2082-12-01 13:00', '2082-12-01 14:00'


class _Owner(plugin.BaseAuthPlugin):
    """The headers of a token of the lease's trust, with the token of the lease service."""

    def __init__(self, project_id):
        super().__init__()
        self._project_id = project_id

    def get_project_id(self, _session):
        return self._project_id

    def get_headers(self, _session):
        return {
            'X-Auth-Token': 'owner',
            'X-Auth-User': 'fake',
            'X-Auth-Project-Id': self._project_id,
            'X-Roles': 'reader,member',
            'X-Service-Roles': 'service',
        }


class OwnersCloud(Cloud):
    """A cloud in which requests of the owner of a lease count."""

    def __init__(self, nova_url, placement_url, project_id):
        super().__init__(nova_url, placement_url)
        self.everywhere = True
        session = ks_session.Session(auth=_Owner(project_id))
        send = session.request

        def request(url, method, **kwargs):
            before, self._send = self._send, send
            try:
                return self._request(url, method, **kwargs)
            finally:
                self._send = before

        session.request = request
        self._owner = Connection(session, overrides={'compute': nova_url})

    def owner(self, _trust_id):
        return self._owner

    def user(self, _context):
        return self._owner


class _Neutron:
    """Reads what nova's fixture of neutron has."""

    def __init__(self, neutron):
        self._neutron = neutron

    def read(self, _conn, path, name, query=None):
        wanted = path.strip('/').partition('/')[2]
        if not wanted:
            given = {key: value for key, value in (query or {}).items() if key != 'limit'}
            return getattr(self._neutron, f'list_{name}')(**given)[name]
        try:
            return getattr(self._neutron, f'show_{name}')(wanted)[name]
        except (neutron_exceptions.NotFound, exception.PortNotFound) as exc:
            raise errors.Gone from exc


class MadeServersTest(MadeLeases, HostsTest):
    COMPUTES = ('host1',)

    def setUp(self):
        super().setUp()
        self.time = Time()
        self.world = World(self.database.engine.url.render_as_string(), self.time)
        self.world.requester = self.world.owner
        self.addCleanup(self.world.database.dispose)
        self.cloud = OwnersCloud(
            self.admin_api.base_url, self.placement_fixture.endpoint, self.api.project_id
        )
        conf = self.world.conf
        conf.register_opts(ServerPlugin.options, group=ServerPlugin.resource_type)
        key = Fernet.generate_key().decode()
        conf.set_override('secret_keys', [key], group=ServerPlugin.resource_type)
        self.plugin = ServerPlugin(conf, self.cloud)
        self.plugin.now = self.time
        self.world.plugins[ServerPlugin.resource_type] = self.plugin
        self.world.operations.services.cloud = self.cloud
        self.lease_service._join = self._join
        # Of glance and neutron nova's fixtures have no HTTP.
        for name, value in {
            'servers.get_image': lambda *_: {'id': IMAGE},
            'neutron.NEUTRON': _Neutron(self.neutron),
        }.items():
            self.useFixture(fixtures.MonkeyPatch(f'climate_core.cloud.{name}', value))

    def _join(self, lease_id, body):
        """Answer a join of nova-compute as the lease service does."""
        context = RequestContext(
            project_id=self.api.project_id,
            user_id='fake',
            service_roles=['service'],
            trust_id=self.world.lease(lease_id).trust_id,
        )
        try:
            self.world.operations.creator.add_reservation(context, lease_id, body)
        except exceptions.ClimateError as exc:
            return refusal(exc.status, exc.message)
        return webob.Response(status=201, json_body={'reservation': {'id': lease_id, **body}})

    def lease(self, start='now', more=None, groups=1, ending=None, **server):
        """Create a lease of servers that are to be made; return its id."""
        wanted = {
            'name': 'web',
            'flavorRef': self.flavor['id'],
            'imageRef': IMAGE,
            'networks': self.network(),
            **server,
        }
        wanted = {name: value for name, value in wanted.items() if value is not None}
        body = {'name': 'lease', 'start_date': start, 'end_date': END, **(more or {})}
        body = {name: value for name, value in body.items() if value is not None}
        reservation = {'resource_type': 'virtual:instance', 'server': wanted, **(ending or {})}
        body['reservations'] = [reservation] * groups
        return self.create_lease(self.api.project_id, 'fake', body)

    def servers(self):
        """Name and status of the servers of the project."""
        found = self.api.get_servers(detail=True)
        return sorted((each['name'], each['status']) for each in found)

    def assert_nothing_left(self):
        assert self.servers() == []
        ports = self.neutron.list_ports(is_admin=True)['ports']
        assert not any(each.get('device_id') for each in ports)
        assert self.used() == 0

    def die_at_each_request(self, begin, looks, make_room=lambda: None, step=1):
        """Begin a lease and die after 0, 1, 2 ... requests; each time it has its one server.

        :param begin: returns the id of the lease
        :param looks: how often a manager looks before and after it dies
        :param make_room: called when both have looked
        :param step: die after each so many requests only
        """
        for answered in range(0, 60, step):
            lease_id = begin()
            self.cloud.left = answered
            try:
                self.look_around(looks)
            except Crash:
                pass
            finally:
                died, self.cloud.left = self.cloud.left == 0, None
            self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)
            self.look_around(looks)
            make_room()
            assert self.state(lease_id) == ('ACTIVE', ['active'])
            assert self.servers() == [('web', 'ACTIVE')]
            self.world.operations.delete_lease(user(self.api.project_id, 'fake'), lease_id)
            self.look_around()
            self.assert_nothing_left()
            if not died:
                break
        else:
            raise AssertionError('it never settled')
        assert answered > 5


class SmallHostTest(MadeServersTest):
    """The host has two VCPUs, and a server takes one."""

    def setUp(self):
        super().setUp()
        self.set_ratio('VCPU', 1.0)

    def others(self, count):
        """Have another user boot servers; return them."""
        made = [self.boot(name='other') for _ in range(count)]
        for each in made:
            self.assert_status(each, 'ACTIVE')
        return made

    def held_at(self):
        """Since when reservations are billed."""
        period = usage.Span(NOON, NOON + datetime.timedelta(hours=2))
        found = self.world.database.read(lambda session: list(db.read_uses(session, period)))
        return {each.held_at for each in found}
