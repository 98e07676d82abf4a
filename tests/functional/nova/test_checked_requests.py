# SPDX-License-Identifier: Apache-2.0
"""What a lease of new servers is rejected for, the real API and compute of nova reject too."""

import copy

import pytest

from climate_core import exceptions
from tests.functional.nova.made_servers import IMAGE, START, MadeServersTest
from tests.support.world import user

ROOT = {'source_type': 'image', 'destination_type': 'local', 'uuid': IMAGE, 'boot_index': 0}
DATA = {'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1}


class TestCheckedRequests(MadeServersTest):
    def rejected(self, field, status, **server):
        """Have Climate reject servers, also in a dry run, and Nova reject one of them.

        :param status: of the answer of Nova; 202: its server is in ERROR then
        """
        wanted = {'imageRef': IMAGE, 'networks': 'none', **server}
        for kind in ('immediate', 'scheduled'):
            self.assert_rejected_for(field, kind, wanted)
        answer = self.post(status=status, **wanted)
        if status == 202:
            server = answer.body['server']
            self._wait_for_state_change(server, 'ERROR')
            self.delete(server)

    def assert_rejected_for(self, field, kind, wanted):
        with pytest.raises(exceptions.ClimateError) as caught:
            self.lease(START, more={'kind': kind}, **wanted)
        assert caught.value.field == f'reservations[0].server.{field}'
        found = self.dry_run(kind, wanted)
        assert (caught.value.body in found['refusals'], found['granted']) == (True, False)

    def dry_run(self, kind, wanted):
        server = {'name': 'web', 'flavorRef': self.flavor['id'], **wanted}
        server = {name: value for name, value in server.items() if value is not None}
        values = {
            'name': 'lease',
            'start_date': START,
            'end_date': '2082-12-01 14:00',
            'kind': kind,
            'reservations': [{'resource_type': 'virtual:instance', 'server': server}],
        }
        return self.world.operations.check_lease(user(self.api.project_id, 'fake'), values)

    def assert_accepted(self, kind='scheduled', **server):
        found = self.dry_run(kind, {'imageRef': IMAGE, 'networks': 'none', **server})
        assert found['refusals'] == []

    def change_network(self, **values):
        self.neutron._networks[self.neutron.network_1['id']].update(values)

    def test_availability_zone_that_does_not_exist(self):
        self.rejected('availability_zone', 400, availability_zone='none')
        self.assert_accepted(availability_zone='nova')

    def test_availability_zone_without_an_enabled_host_may_have_one_at_the_start(self):
        service = self.admin_api.get_services(binary='nova-compute')[0]['id']
        self.admin_api.put_service(service, {'status': 'disabled'})
        wanted = {'imageRef': IMAGE, 'networks': 'none', 'availability_zone': 'nova'}
        self.assert_rejected_for('availability_zone', 'immediate', wanted)
        self.post(status=400, **wanted)
        fields = [each.get('field') for each in self.dry_run('scheduled', wanted)['refusals']]
        assert 'reservations[0].server.availability_zone' not in fields

    def test_automatic_network_of_a_project_with_several(self):
        self.assert_accepted(networks='auto')
        second = copy.deepcopy(self.neutron.network_2)
        self.neutron._networks[second['id']] = second
        self.rejected('networks', 409, networks='auto')

    def test_external_network(self):
        network = self.network()
        self.change_network(**{'router:external': True})
        self.rejected('networks[0].uuid', 202, networks=network)
        self.rejected('networks[0].port', 202, networks=[{'port': self.neutron.port_1['id']}])
        self.change_network(shared=True)
        self.assert_accepted(networks=network)

    def test_network_and_port_that_do_not_exist(self):
        self.rejected('networks[0].uuid', 400, networks=[{'uuid': IMAGE}])
        self.rejected('networks[0].port', 400, networks=[{'port': IMAGE}])

    def test_port_that_is_given_twice_or_with_an_address(self):
        port = {'port': self.neutron.port_1['id']}
        self.rejected('networks[1].port', 400, networks=[port, port])
        self.rejected('networks[0].fixed_ip', 400, networks=[{**port, 'fixed_ip': '192.0.2.1'}])
        self.assert_accepted('immediate', networks=[port])

    def test_port_in_use_may_be_free_at_the_start(self):
        networks = [{'port': self.neutron.port_1['id']}]
        server = self.boot(networks=networks)
        self.assert_status(server, 'ACTIVE')
        wanted = {'imageRef': IMAGE, 'networks': networks}
        self.assert_rejected_for('networks[0].port', 'immediate', wanted)
        self.post(status=409, **wanted)
        self.assert_accepted(networks=networks)

    def test_boot_order(self):
        key = 'block_device_mapping_v2'
        self.rejected(key, 400, **{key: [DATA]})
        self.rejected(key, 400, **{key: [ROOT, {**DATA, 'boot_index': 0}]})
        self.rejected(key, 400, **{key: [ROOT, {**DATA, 'boot_index': 2}]})
        self.rejected('imageRef', 400, imageRef=None, **{key: []})
        self.assert_accepted(**{key: [ROOT, DATA]})
