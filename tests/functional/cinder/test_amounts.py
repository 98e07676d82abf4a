# SPDX-License-Identifier: Apache-2.0
"""What cinder-api says a volume holds is what the lease service counts when it looks itself."""

import fixtures
from keystoneauth1 import token_endpoint

from climate_core.plugins import volume as plugins_volume
from tests.functional.cinder.base import IMAGE, CinderTest


class TestAmounts(CinderTest):
    def setUp(self):
        super().setUp()
        own = token_endpoint.Token('http://nowhere', 'token-of-cinder')
        path = 'cinder.service_auth.get_service_auth_plugin'
        self.useFixture(fixtures.MonkeyPatch(path, lambda: own))

    def assert_told(self, volume, gigabytes):
        """Check what was sent when the volume joined against what there is to be seen."""
        self.assert_status(volume, 'lease-reserved')
        request = self.lease_service.requests[-1]
        assert request.headers['X-Service-Token'] == 'token-of-cinder'
        (told,) = request.json.get('reservations', [request.json])
        assert told['resource_id'] == volume['id']
        assert told['amounts'] == plugins_volume.VolumePlugin._amounts(self.show(volume))
        assert told['amounts'] == {'volumes': 1, 'gigabytes': gigabytes}

    def test_volume_holds_its_size_or_that_of_its_source(self):
        self.assert_told(self.reserve(size=3), 3)
        self.assert_told(self.reserve(size=2, imageRef=IMAGE), 2)
        first = self.volume_create(size=4)
        snapshot = self.snapshot(first)
        for source in ({'snapshot_id': snapshot['id']}, {'source_volid': first['id']}):
            with self.subTest(**source):
                self.assert_told(self.reserve(size=None, **source), 4)

    def test_volume_that_joins_holds_its_size(self):
        self.reserve()
        hints = {'lease_id': self.lease_service.lease['id']}
        self.assert_told(self.volume_create(hints, size=2), 2)
