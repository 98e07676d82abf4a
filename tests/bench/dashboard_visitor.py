# SPDX-License-Identifier: Apache-2.0
"""A user of Horizon whose views run in this process; Django's settings must be known."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import django
from django import urls
from django.conf import settings
from django.test import utils
from urllib3 import connection

django.setup()
settings.LOGGING_CONFIG = None

from tests.dashboard.pages import LoggedIn  # noqa: E402

INDEX = 'horizon:project:climate_leases:index'


class Visitor(LoggedIn):
    """Look at pages as one user after the other.

    :param api: the address of the lease service
    :param tokens: of the users, by their names
    :param project_id: the project of all of them
    """

    def __init__(self, api: str, tokens: Mapping[str, str], project_id: str) -> None:
        super().__init__('get')
        self.service_url = f'{api}/v1'
        self._tokens, self._project_id = tokens, project_id
        utils.setup_test_environment()
        utils.setup_databases(verbosity=0, interactive=False)
        self.setUpClass()
        self._pre_setup()
        self.setUp()
        # Horizon's tests must not ask anything of a server; this does.
        connection.HTTPConnection.connect = self._real_conn_request
        # What Keystone, Nova, Glance and Neutron would take is theirs.
        none = mock.Mock(return_value=[('', 'none')])
        names = ('flavors', 'images', 'networks', 'external_networks', 'key_pairs')
        mock.patch.multiple(
            'climate_dashboard.leases.choices', **dict.fromkeys(names, none)
        ).start()
        mock.patch('climate_dashboard.cloud_names.projects', return_value={}).start()

    def become(self, name: str, *roles: str) -> None:
        token = copy.copy(self.token)
        token.id = self._tokens[name]
        self._log_in(*roles, token=token, tenant_id=self._project_id)

    def choose_status(self, status: str) -> None:
        sent = {'leases__filter__q': status, 'leases__filter__q_field': 'status'}
        self.client.post(urls.reverse(INDEX), sent)

    def get(self, name: str, arguments: Sequence[str], query: Mapping[str, str]) -> Any:
        response = self.client.get(urls.reverse(name, args=arguments), query)
        text: bytes = response.content
        assert response.status_code == 200, (name, response)
        # A page says why it could not read something.
        found = text.find(b' cannot be ')
        assert found < 0, (name, text[found - 80 : found + 200])
        return text
