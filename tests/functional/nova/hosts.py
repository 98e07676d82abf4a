# SPDX-License-Identifier: Apache-2.0
"""The operations on hosts against a whole nova and its placement."""

import pathlib
import tempfile
import uuid

import fixtures
import sqlalchemy as sa
from keystoneauth1 import plugin
from keystoneauth1 import session as ks_session

from climate_core import conf as configuration
from climate_core.cloud.connections import Connection
from climate_core.context import RequestContext
from climate_core.db import tables
from climate_hosts import placement
from climate_hosts.operations.hosts import HostOperations
from tests.functional.nova.base import NovaTest
from tests.support.fakes import leases


class Crash(BaseException):
    """The process is gone: nothing catches it, and nothing it would do afterwards is done."""


class _Identity(plugin.BaseAuthPlugin):
    """The headers of an administrator, as the fixtures of nova and placement take them."""

    def get_headers(self, _session):
        return {
            'X-Auth-Token': 'admin',
            'X-Auth-User': 'admin',
            'X-Auth-Project-Id': 'service',
            'X-Roles': 'admin,service',
        }


class Cloud:
    """The way of the lease service to nova and placement.

    :ivar requests: method and path of each request to placement, in order
    :ivar everywhere: whether requests to nova count, too
    :ivar left: how many of them are answered before the process is gone; None: all of them
    :ivar before: called with the method and the path before each request
    """

    def __init__(self, nova_url, placement_url):
        self.requests = []
        self.everywhere = False
        self.left = None
        self.before = lambda method, path: None
        self._placement = placement_url
        session = ks_session.Session(auth=_Identity())
        self._send, session.request = session.request, self._request
        self._connection = Connection(
            session, overrides={'compute': nova_url, 'placement': placement_url}
        )

    def service(self):
        return self._connection

    def user(self, context):
        """Users of these tests may see all flavors."""
        return self._connection

    def _request(self, url, method, **kwargs):
        base = (kwargs.get('endpoint_override') or '').rstrip('/')
        if self.everywhere or base == self._placement.rstrip('/'):
            if self.left == 0:
                raise Crash
            if self.left is not None:
                self.left -= 1
            self.before(method, url)
            self.requests.append((method, url))
        return self._send(url, method, **kwargs)


def use_nodes(test, names):
    """Give each nova-compute of a test several nodes, as those of Ironic have."""

    def set_nodes(driver, _nodes):
        driver._nodes = list(names)

    test.useFixture(fixtures.MonkeyPatch('nova.virt.fake.FakeDriver._set_nodes', set_nodes))


class HostsTest(NovaTest):
    """A nova with two hosts, and the operations on them."""

    COMPUTES = ('host1', 'host2')
    #: As many as these tests let at once: each takes four requests.
    LANES_PER_HOST = 2

    def setUp(self):
        super().setUp()
        self.conf = configuration.load([], config_files=[])
        self.conf.set_override('lanes_per_host', self.LANES_PER_HOST, group='hosts')
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.database = leases.sqlite(pathlib.Path(directory, 'climate.sqlite'))
        self.addCleanup(self.database.dispose)
        self.cloud = Cloud(self.admin_api.base_url, self.placement_fixture.endpoint)
        self.context = RequestContext(user_id='operator', overwrite=False)
        self.paused = []
        self.operations = HostOperations(self.conf, self.database, self.cloud, self.paused.append)

    def enrol(self, name='host1', **values):
        return self.operations.create_host(self.context, {'name': name, **values})

    def provider(self, host='host1'):
        """Return the id of the root provider of a host."""
        return self._get_provider_uuid_by_host(host)

    def aggregates(self, host='host1'):
        return set(self._get_provider_aggregates(self.provider(host)))

    def set_aggregates(self, *aggregates, host='host1'):
        """Put a host into these aggregates alone, as another tool does."""
        found = self.placement.get(
            f'/resource_providers/{self.provider(host)}/aggregates', version='1.39'
        ).body
        body = {**found, 'aggregates': list(aggregates)}
        self._put(f'/resource_providers/{self.provider(host)}/aggregates', body)

    def set_ratio(self, resource_class, ratio, host='host1'):
        """Set how often a resource of a host may be given away."""
        path = f'/resource_providers/{self.provider(host)}/inventories/{resource_class}'
        found = self.placement.get(path, version='1.39').body
        self._put(path, {**found, 'allocation_ratio': ratio})

    def lanes_of(self, host):
        """Return the names of the lanes that a host has in placement."""
        found = placement.list_lanes(self.cloud.service())
        return sorted(each.name for each in found if each.root_id == self.provider(host))

    def candidates(self, query):
        """Return the root providers of the hosts that a request may land on."""
        path = f'/allocation_candidates?{query}'
        found = self.placement.get(path, version='1.39').body
        return {each['root_provider_uuid'] for each in found['provider_summaries'].values()}

    def claim(self, provider_id, resources, others=None):
        """Have a server that nova does not know take something; return its id.

        :param others: what it takes of other providers
        """
        server_id = str(uuid.uuid4())
        body = {
            'allocations': {
                each: {'resources': taken}
                for each, taken in {provider_id: resources, **(others or {})}.items()
            },
            'project_id': 'a-project',
            'user_id': 'a-user',
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        }
        self._put(f'/allocations/{server_id}', body)
        return server_id

    def unit(self, host_id):
        """Return the row of a host in the calendar."""
        with self.database.reader() as session:
            query = sa.select(tables.UNITS).where(tables.UNITS.c.id == host_id)
            return dict(session.execute(query).mappings().one())

    def _put(self, path, body):
        response = self.placement.put(path, body, version='1.39')
        assert response.status < 300, response.body
