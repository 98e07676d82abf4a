# SPDX-License-Identifier: Apache-2.0
"""A manager dies after each thing that it changes about floating IPs in Neutron."""

import uuid

from climate_core.context import RequestContext
from climate_networks import cloud as climate_networks_cloud
from climate_networks.operations import FloatingIpOperations
from tests.kill.deaths import WRITE, check_no_error, check_told_once, die
from tests.support.fakes import leases, neutron
from tests.support.kinds import kind_cell

ADDRESSES = ['203.0.113.20', '203.0.113.21']


def test_floating_ips_are_made_and_deleted_once(stage):
    _, cloud = stage.own()
    network = {'floating_network_id': neutron.PUBLIC}
    FloatingIpOperations(stage.database, cloud).create_floatingips(
        RequestContext(user_id='operator'), {**network, 'floating_ip_range': '-'.join(ADDRESSES)}
    )
    wanted = {'resource_type': 'virtual:floatingip', 'network_id': neutron.PUBLIC, 'amount': 2}
    values = {'id': str(uuid.uuid4()), 'name': 'lease1', 'reservations': [wanted]}
    stage.request({**values, 'start_date': 'now', 'end_date': '2099-01-01 00:00'}).ends()
    lease = leases.read(stage.database, values['id'])

    def find():
        return climate_networks_cloud.find_floatingips(cloud.service(), neutron.PUBLIC, ADDRESSES)

    # Each is created, and gets its tag.
    die(stage, *[f'{WRITE}1'] * 4, 'finish.before:start_lease:1', 'finish.after:start_lease:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.start_lease')
    assert (sorted(find()), stage.made('floatingip create')) == (ADDRESSES, 2)
    assert all(each['tags'] for each in find().values())

    stage.kill_all()
    first = find()[ADDRESSES[0]]
    stage.cloud.order('floatingips', [{**first, 'port_forwardings': ['one']}])
    stage.ask('end_lease', lease.id).ends()
    # The first one is refused, and its port forwarding goes; then it goes, and the other one.
    ends = (f'{WRITE}2', *[f'{WRITE}1'] * 2)
    die(stage, *ends, 'finish.before:end_lease:1', 'finish.after:end_lease:1')
    stage.until(lambda: stage.is_over(lease))
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.end_lease')
    assert (find(), stage.made('delete')) == ({}, 2)


@kind_cell('Existing floating IPs', 'immediate')
def test_start_and_end_of_one_that_its_owner_has(stage):
    address, later = '203.0.113.205', '203.0.113.206'
    record = {'project_id': 'demo-id', 'floating_network_id': neutron.PUBLIC, 'port_id': None}
    record |= {'description': '', 'tags': [], 'port_forwardings': ['one']}
    made = [record | {'id': str(uuid.uuid4()), 'floating_ip_address': e} for e in (address, later)]
    stage.cloud.order('floatingips', made)
    wanted = [
        {'resource_type': 'held:floatingip', 'resource_id': each['id'], 'on_end': on_end}
        for each, on_end in zip(made, ('delete', 'nothing'), strict=True)
    ]
    values = {'id': str(uuid.uuid4()), 'name': 'lease1', 'reservations': wanted}
    stage.request({**values, 'start_date': 'now', 'end_date': '2099-01-01 00:00'}).ends()
    lease = leases.read(stage.database, values['id'])
    assert lease.kind == 'immediate'
    die(stage, 'remote.after:start_lease:1', 'finish.before:start_lease:1')
    stage.until(lambda: stage.lease(lease).status == 'ACTIVE')
    check_no_error(stage.lease(lease))
    stage.kill_all()
    stage.ask('end_lease', lease.id).ends()
    # The port forwarding goes, then the floating IP.
    die(stage, f'{WRITE}2', f'{WRITE}1', 'finish.before:end_lease:1', 'finish.after:end_lease:1')
    stage.until(lambda: stage.is_over(lease))
    check_no_error(stage.lease(lease))
    check_told_once(stage, 'lease.event.end_lease')
    left = climate_networks_cloud.find_floatingips(
        stage.own()[1].service(), neutron.PUBLIC, (address, later)
    )
    assert ([*left], stage.made('delete')) == ([later], 1)
