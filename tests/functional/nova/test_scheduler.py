# SPDX-License-Identifier: Apache-2.0
"""Which hosts a reservation may land on."""

from nova import service
from nova.compute.manager import ComputeManager as NovaManager

from nova_ext.compute.manager import ComputeManager
from tests.functional.nova.base import NovaTest


class TestMixedCloud(NovaTest):
    """host2 runs a nova-compute without the extension, which would spawn a reservation."""

    def _setup_compute_service(self):
        first = self._start_compute('host1')
        service.SERVICE_MANAGERS['nova-compute'] = 'nova.compute.manager.ComputeManager'
        self._start_compute('host2')
        return first

    def test_reservations_go_to_hosts_with_the_extension(self):
        assert type(self.computes['host1'].manager) is ComputeManager
        assert type(self.computes['host2'].manager) is NovaManager
        # What the extension reports survives the audit.
        self._run_periodics()
        self._run_periodics()
        flavor = {'name': 'half', 'ram': 3500, 'vcpus': 1, 'disk': 1, 'id': 'half'}
        self.admin_api.post_flavor({'flavor': flavor})
        first = self.reserve(flavorRef='half')
        assert self.assert_status(first, 'RESERVED')['OS-EXT-SRV-ATTR:host'] == 'host1'
        second = self.reserve(flavorRef='half')
        assert self.assert_status(second, 'RESERVED')['OS-EXT-SRV-ATTR:host'] == 'host1'
        third = self.reserve(flavorRef='half')
        assert 'No valid host' in self.assert_status(third, 'ERROR')['fault']['message']
        ordinary = self.boot(flavorRef='half')
        assert self.assert_status(ordinary, 'ACTIVE')['OS-EXT-SRV-ATTR:host'] == 'host2'
