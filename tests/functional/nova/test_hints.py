# SPDX-License-Identifier: Apache-2.0
"""Hints at POST /servers: reserved, or 400 with the field named and nothing left behind."""

import json

from nova import objects

from tests.functional.hints import LEASE, Accepted, Refused, params
from tests.functional.nova.base import NovaTest


class TestAccepted(Accepted, NovaTest):
    TYPE, ON_END = 'virtual:instance', 'shelve'

    def reserved(self, hints, **kwargs):
        server = self.boot(hints, **kwargs)
        self.assert_status(server, 'RESERVED')
        return server

    def test_other_hints_and_the_older_key_of_the_body_stay(self):
        group = self.api.post_server_groups({'name': 'g', 'policy': 'affinity'})
        hints = {'group': group['id'], 'lease_params': params()}
        server = self.reserved(hints, place='OS-SCH-HNT:scheduler_hints')
        spec = objects.RequestSpec.get_by_instance_uuid(self.ctxt, server['id'])
        assert spec.scheduler_hints['group'] == [group['id']]
        # Members see the lease in their hints.
        self.api.microversion = '2.100'
        hints = self.api.get_server(server['id'])['scheduler_hints']
        assert json.loads(hints['lease_params'][0])['name'] == 'l'
        self.api.microversion = self.microversion
        self.lease_service.requests.clear()
        self.assert_status(self.boot({'reserved': 'False'}), 'ACTIVE')
        assert self.lease_service.requests == []


class TestRefused(Refused, NovaTest):
    ON_END, OTHER_END = 'shelve', 'backup'

    def refused(self, hints, *words, status=400, **server):
        """Check that the answer has these words, and that there is nothing."""
        (fault,) = self.post(hints, status=status, **server).body.values()
        for word in words:
            assert word in fault['message'], fault
        assert self.api.get_servers() == []
        assert len(objects.BuildRequestList.get_all(self.ctxt)) == 0
        self.assertRequestMatchesUsage(
            {'VCPU': 0, 'MEMORY_MB': 0, 'DISK_GB': 0}, self._get_provider_uuid_by_host('host1')
        )

    def test_reservation_of_hosts_must_be_a_uuid(self):
        for value in ('lease1', None, {'id': LEASE}, [LEASE, LEASE]):
            self.refused({'reservation': value}, 'Invalid scheduler hint reservation: must')

    def test_nova_validates_the_rest(self):
        self.refused({'reserved': 'True', 'group': 'not a uuid'})
        self.refused('reserved')
        self.refused({'reserved': 'True'}, flavorRef='no-such-flavor')
        assert self.lease_service.requests == []
