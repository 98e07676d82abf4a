# SPDX-License-Identifier: Apache-2.0
"""Floating IPs that the calendar promises, made in the neutron of these tests."""

import uuid

from climate_networks import db
from climate_networks.cloud import tag
from climate_networks.plugins import floatingips

NETWORK = str(uuid.uuid4())


class Addresses(floatingips.FloatingIpPlugin):
    """The real plugin, without the requests to neutron.

    :ivar records: the floating IPs of neutron, by their ids
    :ivar answers: what the next calls to wake some up raise
    """

    def __init__(self, conf):
        conf.register_opts(self.options, group=self.resource_type)
        super().__init__(conf, None)
        self.records, self.answers = {}, []

    def start(self, lease, reservation):
        if self.answers:
            raise self.answers.pop(0)
        tags = [tag(reservation.id)]
        there = {e['floating_ip_address'] for e in self.records.values() if e.get('tags') == tags}
        for each in reservation.allocations:
            if each.unit['address'] not in there:
                key = str(uuid.uuid4())
                self.records[key] = {
                    'id': key,
                    'project_id': lease.project_id,
                    'floating_network_id': each.unit['network_id'],
                    'floating_ip_address': each.unit['address'],
                    'port_id': None,
                    'fixed_ip_address': None,
                    'tags': tags,
                }

    reallocate = start

    def end(self, lease, reservation):
        for key, each in list(self.records.items()):
            if each.get('tags') == [tag(reservation.id)]:
                del self.records[key]


def register(database, *addresses):
    """Set addresses apart for leases."""
    database.write(db.insert_floatingips, NETWORK, dict.fromkeys(addresses, 'subnet'))


def wanted(*which):
    """Return the reservation of certain ones."""
    named = {'required_floatingips': list(which)}
    return {'resource_type': 'virtual:floatingip', 'network_id': NETWORK, **named}
