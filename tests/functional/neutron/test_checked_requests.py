# SPDX-License-Identifier: Apache-2.0
"""The networks and ports that servers of a lease may have, in the real Neutron."""

import pytest

from climate_core import exceptions
from climate_core.cloud import errors, neutron
from climate_core.context import RequestContext
from tests.conformance.network_world import Networks
from tests.functional.neutron.base import NeutronTest

OTHER = '5d3c1f7a2b6e4c0d9a8f7e6d5c4b3a29'


class TestCheckedRequests(NeutronTest):
    world: Networks

    def make_world(self, url):
        return Networks(self.fake, url, self.connect)

    def setUp(self):
        super().setUp()
        self.conn = self.connection('member', 'reader')

    def connection(self, *roles):
        """Return what has the rights of a user of the project."""
        alice = self.fake.state.users['alice-id']
        token = self.fake.state.token(alice, alice['project_id'], [*roles], None)
        context = RequestContext(auth_token=token, project_id=alice['project_id'])
        return self.world.cloud.user(context)

    def network(self, **values):
        return self.make('network', name='n', **values)['id']

    def port(self, network_id, **values):
        return self.make('port', network_id=network_id, **values)['id']

    def test_member_has_its_own_and_shared_networks(self):
        foreign = self.network(project_id=OTHER)
        for network_id in (self.network(), self.network(project_id=OTHER, shared=True)):
            neutron.check_network(self.conn, network_id)
        with pytest.raises(errors.Gone):
            neutron.check_network(self.conn, foreign)
        with pytest.raises(errors.Gone):
            neutron.check_network(self.connection('admin', 'member', 'reader'), foreign)

    def test_external_network_is_for_the_project_with_which_it_is_shared(self):
        public = self.public['id']
        port = self.port(public)
        with pytest.raises(exceptions.Permanent, match='is external'):
            neutron.check_network(self.conn, public)
        with pytest.raises(exceptions.Permanent, match='is external'):
            neutron.check_port(self.conn, port)
        neutron.check_network(self.conn, public, allows_external=True)
        neutron.check_port(self.conn, port, allows_external=True)
        self.request('PUT', f'/networks/{public}', {'network': {'shared': True}})
        neutron.check_network(self.conn, public)
        neutron.check_port(self.conn, port)

    def test_port_of_another_project_or_of_a_router_is_rejected(self):
        inner = self.network()
        _, router = self.behind_router(inner, '10.9.0.0/24')
        own = self.port(inner)
        neutron.check_port(self.conn, own)
        with pytest.raises(errors.Gone):
            neutron.check_port(self.conn, self.port(inner, project_id=OTHER))
        query = f'/ports?device_id={router["id"]}&device_owner=network:router_interface'
        (interface,) = self.request('GET', query)['ports']
        with pytest.raises(exceptions.Permanent, match='network:router_interface'):
            neutron.check_port(self.conn, interface['id'])

    def test_port_of_the_project_on_a_network_of_another_one_is_accepted(self):
        hidden = self.port(self.network(project_id=OTHER))
        neutron.check_port(self.conn, hidden)

    def test_port_in_use_is_not_free(self):
        port = self.port(self.network())
        neutron.check_port_unused(self.conn, port)
        body = {'port': {'device_id': 'server1', 'device_owner': 'compute:nova'}}
        self.request('PUT', f'/ports/{port}', body)
        neutron.check_port(self.conn, port)
        with pytest.raises(exceptions.Permanent, match='in use by server1'):
            neutron.check_port_unused(self.conn, port)

    def test_two_networks_are_ambiguous(self):
        """The external one is of the project."""
        self.network(project_id=OTHER)
        neutron.check_default_network(self.conn)
        shared = self.network(project_id=OTHER, shared=True)
        with pytest.raises(exceptions.Permanent, match='more than one network'):
            neutron.check_default_network(self.conn)
        self.request('DELETE', f'/networks/{shared}', status=204)
        self.network()
        with pytest.raises(exceptions.Permanent, match='more than one network'):
            neutron.check_default_network(self.conn)
