# SPDX-License-Identifier: Apache-2.0
"""A manager dies after each thing that it changes about networks in Neutron."""

import uuid

from climate_core.cloud import segments
from climate_core.context import RequestContext
from climate_core.lease.networks import Segment
from climate_core.operations.networks import NetworkOperations
from tests.kill.deaths import WRITE, check_no_error, check_told_once, die
from tests.support.fakes import leases

SEGMENT = Segment('vlan', 'physnet1', 200)


def test_network_is_made_once_and_torn_down_wherever_managers_die(stage):
    _, cloud = stage.own()
    NetworkOperations(stage.database, cloud).create_networks(
        RequestContext(user_id='operator'), SEGMENT.facts
    )
    wanted = {'resource_type': 'network', 'network_name': 'n', 'network_description': 'mine'}
    values = {'id': str(uuid.uuid4()), 'name': 'lease1', 'reservations': [wanted]}
    stage.request({**values, 'start_date': 'now', 'end_date': '2099-01-01 00:00'}).ends()
    lease = leases.read(stage.database, values['id'])

    def find():
        return segments.find(cloud.service(), SEGMENT)

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
