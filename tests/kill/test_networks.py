# SPDX-License-Identifier: Apache-2.0
"""A manager dies after each thing that it changes about networks in Neutron."""

import uuid

import pytest

from climate_core.cloud import neutron
from climate_core.cloud.neutron import NEUTRON
from climate_core.context import RequestContext
from climate_networks import cloud as climate_networks_cloud
from climate_networks.operations import NetworkOperations
from climate_networks.units import Segment
from tests.kill.deaths import (
    WRITE,
    around_writes,
    check_no_error,
    check_told_once,
    die,
)
from tests.support.fakes import leases

SEGMENT = Segment('vlan', 'physnet1', 200)


def request_network(stage):
    """Have a lease made of a network on a segment; return the way to the cloud, and the lease."""
    _, cloud = stage.own()
    NetworkOperations(stage.database, cloud).create_networks(
        RequestContext(user_id='operator'), SEGMENT.facts
    )
    wanted = {'resource_type': 'network', 'network_name': 'n', 'network_description': 'mine'}
    values = {'id': str(uuid.uuid4()), 'name': 'lease1', 'reservations': [wanted]}
    stage.request({**values, 'start_date': 'now', 'end_date': '2099-01-01 00:00'}).ends()
    return cloud, leases.read(stage.database, values['id'])


def test_network_is_made_once_and_torn_down_wherever_managers_die(stage):
    cloud, lease = request_network(stage)

    def find():
        return climate_networks_cloud.find_network(cloud.service(), SEGMENT)

    # It is created, gets its tag, and its description.
    die(stage, *[f'{WRITE}1'] * 3, 'finish.before:start_lease:1', 'finish.after:start_lease:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.start_lease')
    network = find()
    assert (network['description'], stage.made('network create')) == ('mine', 1)
    assert network['tags'] == [f'reservation:{lease.reservations[0].id}']

    stage.kill_all()
    inside = {'network_id': network['id']}
    (port,) = stage.cloud.order('network_ports', [{**inside, 'host': 'compute1'}])
    stage.cloud.order('trunks', [{'parent': port}])
    stage.cloud.order('interfaces', [{**inside, 'cidr': '10.9.0.0/24', 'nexthop': '10.9.0.7'}])
    stage.cloud.order('network_ports', [{**inside, 'device_owner': 'network:mine'}])
    stage.ask('end_lease', lease.id).ends()
    # Twice it is refused, and the port unbound; then the trunk goes after the port was refused.
    port_ends = (f'{WRITE}3', f'{WRITE}2', f'{WRITE}1')
    # The interface is refused, and the route goes; then the interface. The network is refused, and
    # the port that only says what it is becomes an ordinary one; then that goes, then the network.
    ends = (f'{WRITE}2', f'{WRITE}1', f'{WRITE}2', f'{WRITE}1', f'{WRITE}1')
    die(stage, *port_ends, *ends, 'finish.before:end_lease:1', 'finish.after:end_lease:1')
    stage.until(lambda: stage.is_over(lease))
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.end_lease')
    changes = ('trunk delete', 'routes remove', 'interface remove', 'network delete')
    assert [stage.made(each) for each in changes] == [1] * 4
    assert [stage.made(each) for each in ('port update', 'port delete')] == [2] * 2
    assert find() is None


class Scene:
    """The network of a lease that is active, and what of others has to stay."""

    def __init__(self, stage):
        self.stage = stage
        self.cloud, self.lease = request_network(stage)
        stage.manager()
        stage.until(lambda: stage.lease(self.lease).status == 'ACTIVE')
        stage.kill_all()
        (network,) = self.list('networks')
        self.network_id = network['id']
        self.others, self.kept = [], []

    def list(self, plural):
        return [*NEUTRON.pages(self.cloud.service(), f'/{plural}', plural, {})]

    def list_ports(self, network_id):
        return neutron.list_ports(self.cloud.service(), network_id)

    def order(self, plural, **values):
        (made,) = self.stage.cloud.order(plural, [values])
        return made

    def port(self, **values):
        """Have a port in the network."""
        return self.order('network_ports', network_id=self.network_id, **values)

    def interface(self, **values):
        """Have an interface of a router in the network."""
        return self.order('interfaces', network_id=self.network_id, cidr='10.9.0.0/24', **values)

    def other(self, **values):
        """Have a port of another project in another network."""
        values = {'network_id': 'elsewhere', 'project_id': 'other-id', **values}
        self.others.append(self.order('network_ports', **values))
        return self.others[-1]

    def trunk(self, parent, *subports):
        """Have a trunk that goes with its parent port."""
        self.order('trunks', parent=parent, subports=subports)

    def keep(self):
        """Have a trunk of others that has nothing to do with the network."""
        self.kept.append(self.order('trunks', parent=self.other(), subports=[self.other()]))

    def join(self, port):
        """Have a port in a trunk of others, which stays with its other subports."""
        around = [self.other(), self.other()]
        subports = [around[0], port, around[1]]
        made = self.order('trunks', parent=self.other(host='compute2'), subports=subports)
        self.kept.append({**made, 'sub_ports': [{'port_id': each['id']} for each in around]})


def with_subport(scene):
    scene.join(scene.port())


def with_unbound_parent(scene):
    scene.trunk(scene.port(), scene.other())


def with_bound_parent(scene):
    scene.trunk(scene.port(host='compute1'), scene.other())


def with_parent_before_its_subport(scene):
    scene.trunk(scene.port(), scene.port(), scene.other())


def with_subport_before_its_parent(scene):
    subport = scene.port()
    scene.trunk(scene.port(), scene.other(), subport)


def with_subport_that_says_it_is_of_the_network(scene):
    scene.join(scene.port(device_owner='network:mine'))


def with_router_interface_as_bound_parent(scene):
    scene.trunk(scene.interface(nexthop='10.9.0.7', host='compute1'), scene.other())


def with_router_interface_as_subport(scene):
    scene.join(scene.interface())


#: What is made -> each change at the end, and the requests that it takes from the one before:
#: what a manager does is refused again and again until the cause is gone.
CHANGES = {
    with_subport: [(2, 'trunk update'), (1, 'port delete')],
    with_unbound_parent: [(2, 'trunk delete'), (1, 'port delete')],
    with_bound_parent: [(3, 'port update'), (2, 'trunk delete'), (1, 'port delete')],
    with_parent_before_its_subport: [(2, 'trunk delete'), *[(1, 'port delete')] * 2],
    with_subport_before_its_parent: [
        *[(2, 'trunk update'), (1, 'port delete')],
        *[(2, 'trunk delete'), (1, 'port delete')],
    ],
    with_subport_that_says_it_is_of_the_network: [
        *[(2, 'port update'), (2, 'trunk update'), (1, 'port delete')],
    ],
    with_router_interface_as_bound_parent: [
        *[(2, 'routes remove'), (4, 'port update'), (3, 'trunk delete'), (1, 'interface remove')],
    ],
    with_router_interface_as_subport: [(3, 'trunk update'), (1, 'interface remove')],
}


@pytest.mark.parametrize('make', CHANGES, ids=lambda make: make.__name__)
def test_end_of_a_network_in_trunks_wherever_managers_die(stage, make):
    scene = Scene(stage)
    make(scene)
    scene.keep()
    before = len(stage.cloud.journal())
    stage.ask('end_lease', scene.lease.id).ends()
    changes = [*CHANGES[make], (1, 'network delete')]
    die(stage, *around_writes(*(count for count, _ in changes)))
    stage.until(lambda: stage.is_over(scene.lease))
    check_no_error(stage.lease(scene.lease))
    check_told_once(stage, 'lease.event.end_lease')
    made = [entry['what'] for entry in stage.cloud.journal()[before:]]
    assert [each for each in made if each != 'trust delete'] == [each for _, each in changes]
    assert (scene.list('networks'), scene.list_ports(scene.network_id)) == ([], [])
    assert scene.list('trunks') == scene.kept
    assert scene.list_ports('elsewhere') == scene.others
