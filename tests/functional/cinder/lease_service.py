# SPDX-License-Identifier: Apache-2.0
"""The lease service's own calls, sent to the cinder of a test."""

from unittest import mock

import requests

from tests.functional.cinder.base import CinderTest
from tests.functional.cinder.users import User
from tests.support.users_as_connections import stand_for_connections


class LeaseServiceTest(CinderTest):
    """A cinder whose API answers the calls of :mod:`climate_core.cloud.volumes` and ``copies``.

    A user of :mod:`tests.functional.cinder.users` stands for a connection.
    """

    def setUp(self):
        super().setUp()
        stand_for_connections(self, User, 'block-storage', self._client)

    def _client(self, user):
        """Return a client that asks as keystoneauth's adapter does, without a network."""

        def request(path, method, json=None, params=None, microversion=None, raise_exc=True):
            assert raise_exc is False
            query = requests.models.PreparedRequest()
            query.prepare_url(f'http://cinder{path}', params)
            found = self.request(method, query.path_url, json, user=user, version=microversion)
            answer = requests.Response()
            answer.status_code, answer._content = found.status_int, found.body
            return answer

        return mock.Mock(request=request)

    def available(self, **body):
        volume = self.volume_create(**body)
        assert volume['status'] == 'available'
        return volume
