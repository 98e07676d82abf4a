# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pool and their lanes, made by the calls to Placement of the lease service."""

import uuid

from nova.tests.functional.api import client

from climate_common import lanes
from tests.functional.nova.base import NovaTest

VERSION = '1.39'
#: The statement by which Placement finds the aggregate of the pool for a request for candidates.
LOOKUP = 'SELECT aggs.uuid, aggs.id FROM placement_aggregates AS aggs WHERE aggs.uuid IN (?)'


class Lane:
    """A lane of a host, which one reservation uses at a time."""

    def __init__(self, pool, provider):
        self._pool = pool
        self.uuid = provider

    @property
    def url(self):
        return f'/resource_providers/{self.uuid}'

    def prepare(self, aggregates, total):
        """Say who may enter, and how many, while nobody may."""
        self._pool.change(f'{self.url}/aggregates', aggregates=list(aggregates))
        self.set(total, reserved=total)
        return self

    def open(self, aggregates, total=1000):
        """Prepare it, and let servers in."""
        return self.prepare(aggregates, total).set(total)

    def set(self, total, reserved=0):
        inventories = {
            lanes.SLOT: {'total': total, 'reserved': reserved, 'max_unit': 1},
            lanes.HOST: {'total': 1, 'max_unit': 1},
        }
        self._pool.change(f'{self.url}/inventories', inventories=inventories)
        return self

    def close(self):
        """Take it from its reservation: no generation is needed at microversion 1.18."""
        self._pool.call('put', f'{self.url}/aggregates', [], version='1.18')
        found = self._pool.call('get', f'{self.url}/inventories')['inventories']
        total = found[lanes.SLOT]['total']
        self.set(total, reserved=total)

    @property
    def consumers(self):
        """Ids of the servers, and of migrations, that hold its slots."""
        return set(self._pool.call('get', f'{self.url}/allocations')['allocations'])


class Pool:
    """What the lease service does in Placement.

    :param placement: the client of nova's fixture
    """

    def __init__(self, placement):
        self._placement = placement
        for url in (lanes.SLOT, lanes.HOST):
            self.call('put', f'/resource_classes/{url}')
        self.call('put', f'/traits/{lanes.TRAIT}')

    def enrol(self, host, number=0):
        """Put a host into the pool, and make a lane.

        :param host: the name of its root provider
        """
        (root,) = self.call('get', f'/resource_providers?name={host}')['resource_providers']
        aggregates = f'/resource_providers/{root["uuid"]}/aggregates'
        others = self.call('get', aggregates)['aggregates']
        self.change(aggregates, aggregates=sorted({*others, lanes.POOL}))
        body = {
            'name': lanes.lane_name(host, number),
            'uuid': str(uuid.uuid4()),
            'parent_provider_uuid': root['uuid'],
        }
        self.call('post', '/resource_providers', body)
        lane = Lane(self, body['uuid'])
        self.change(f'{lane.url}/traits', traits=[lanes.TRAIT])
        return lane

    def change(self, url, **values):
        """PUT what a provider has, with its generation."""
        found = self.call('get', url.rpartition('/')[0])
        self.call('put', url, {'resource_provider_generation': found['generation'], **values})

    def call(self, method, url, body=None, version=VERSION):
        arguments = {} if method == 'get' else {'body': body}
        answer = getattr(self._placement, method)(url, version=version, **arguments)
        assert answer.status < 300, answer.body
        return answer.body


class PoolTest(NovaTest):
    """host1 and host2 are in the pool, with a lane each; host3 is for everybody."""

    COMPUTES = ('host1', 'host2', 'host3')
    POOL = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.reservation = str(uuid.uuid4())
        self.pool = Pool(self.placement)
        self.lanes = {host: self.pool.enrol(host) for host in self.POOL}
        self.other = client.TestOpenStackClient(
            'other', self.api_fixture.base_url, project_id='other', roles=['reader', 'member']
        )
        self.other.microversion = self.microversion

    def whole_host(self, *projects, **kwargs):
        """Return the aggregates of lanes of whole hosts, by default of the user's project."""
        projects = projects or [self.api.project_id]
        return lanes.lane_aggregates(self.reservation, projects, **kwargs)

    def slots(self, *projects, **kwargs):
        """Return the aggregates of lanes for servers of the usual flavor."""
        shape = lanes.flavor_shape(self.admin_api.get_flavor(self.flavor['id']))
        return self.whole_host(*projects, shape=shape, **kwargs)

    def inside(self, **server):
        """Boot a server that names the reservation."""
        return self.boot({'reservation': self.reservation}, **server)

    def isolate(self):
        """Put the hosts of the pool into an aggregate of nova that is isolated by their trait."""
        aggregate = self.admin_api.post_aggregate({'aggregate': {'name': 'climate'}})
        for host in self.POOL:
            self.admin_api.add_host_to_aggregate(aggregate['id'], host)
        metadata = {f'trait:{lanes.TRAIT}': 'required'}
        action = {'set_metadata': {'metadata': metadata}}
        self.admin_api.post_aggregate_action(aggregate['id'], action)

    def host_of(self, server):
        return self.show(server)['OS-EXT-SRV-ATTR:host']

    def assert_host(self, server, host, status='ACTIVE'):
        """Check where a server is, and that it holds a slot there if that is in the pool."""
        assert self.assert_status(server, status)['OS-EXT-SRV-ATTR:host'] == host
        held = {name for name, lane in self.lanes.items() if server['id'] in lane.consumers}
        assert held == {host} & self.lanes.keys()

    def assert_no_host(self, *servers):
        """Check that no host was found, and nothing is held."""
        for server in servers:
            fault = self.assert_status(server, 'ERROR')['fault']
            assert 'No valid host' in fault['message'], fault
            assert self.allocations(server) == {}
