# SPDX-License-Identifier: Apache-2.0
"""What the tests of pages share: a user, and a lease service that is made up."""

import datetime
from typing import Any
from unittest import mock

from django import urls
from django.conf import settings
from django.utils import translation
from horizon.test import helpers as horizon_helpers
from openstack_dashboard import context_processors
from openstack_dashboard.test import helpers
from openstack_dashboard.test.test_data import keystone_data

from climateclient import exceptions
from climateclient.client import Client
from climateclient.models import Lease, Limit

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
HOUR = datetime.timedelta(hours=1)
CREATE = 'horizon:project:climate_leases:create'
#: What is entered in the form of a new lease.
VALUES = {'name': 'lease1', 'duration': '4h', 'what': 'hosts', 'count': '2'}
SERVER_ID = 'c4a6b3e2-0f0e-4c0e-9f45-3ba5d5c9a001'


def lease(**given: Any) -> Lease:
    """Make a lease of one server, as the service answers."""
    values: dict[str, Any] = {
        'id': '5f1c2a34-9d3e-4d0a-8c1b-000000000001',
        'name': 'lease1',
        'start_date': (NOW - HOUR).isoformat(),
        'end_date': (NOW + 3 * HOUR).isoformat(),
        'status': 'ACTIVE',
        'kind': 'immediate',
        'generation': 7,
        'project_id': '1',
        'reservations': [
            {
                'id': 'r1',
                'resource_type': 'virtual:instance',
                'resource_id': SERVER_ID,
                'status': 'active',
                'on_end': 'delete',
            }
        ],
        'events': [
            {
                'id': 'e1',
                'event_type': 'end_lease',
                'time': (NOW + 3 * HOUR).isoformat(),
                'status': 'UNDONE',
            }
        ],
    }
    return Lease.from_dict({**values, **given})


def refused(
    message: str,
    field: str | None = None,
    kind: type[exceptions.ApiError] = exceptions.BadRequest,
) -> exceptions.ApiError:
    """Make the error by which the client says that the service has refused a request."""
    error = kind(message=message, request_id='req-1', http_status=kind.http_status)
    error.message, error.field = message, field
    return error


class LoggedIn(helpers.TestCase):
    """Pages for a user of a project, in whose catalogue the lease service is.

    :cvar service_url: the address of the service
    """

    service_url = 'http://climate.example.com:1234/v1'

    def _setup_test_data(self) -> None:
        """Make users and projects; all that Horizon makes takes half a second for each test."""
        horizon_helpers.TestCase._setup_test_data(self)
        keystone_data.data(self)
        self.context = {
            'authorized_tenants': self.tenants.list(),
            'JS_CATALOG': context_processors.get_js_catalog(settings),
        }

    def _log_in(self, *roles: str, **more: Any) -> None:
        catalog = [*self.service_catalog, self._service()]
        ids = [{'id': str(number), 'name': name} for number, name in enumerate(roles)]
        self._setup_user(roles=ids, service_catalog=catalog, **more)

    def _service(self) -> dict[str, Any]:
        endpoints = [
            {'id': interface, 'region': region, 'interface': interface, 'url': self.service_url}
            for region in ('RegionOne', 'RegionTwo')
            for interface in ('public', 'internal', 'admin')
        ]
        return {'type': 'reservation', 'name': 'climate', 'endpoints': endpoints}

    def page(self, name: str, *arguments: str, **query: str) -> Any:
        """Get a page by the name of its address."""
        return self.client.get(urls.reverse(name, args=arguments), query)

    def text(self, name: str, *arguments: str, **query: str) -> str:
        """Get a page, which must be there, as text."""
        response = self.page(name, *arguments, **query)
        assert response.status_code == 200, response
        return str(response.content.decode())


class PageTest(LoggedIn):
    """Pages for a member of a project, with a client whose calls are made up."""

    logged_in_as = ('member', 'reader')

    def setUp(self) -> None:
        super().setUp()
        # A page leaves the language of its user to whatever runs next in this thread.
        self.addCleanup(translation.deactivate)
        self.client_of_leases = mock.create_autospec(Client, instance=True)
        for noun in ('leases', 'hosts', 'calendar', 'floatingips', 'networks'):
            owner = getattr(Client(mock.Mock()), noun)
            setattr(self.client_of_leases, noun, mock.create_autospec(owner, instance=True))
        self.leases = self.client_of_leases.leases
        mock.patch('climate_dashboard.api.client', return_value=self.client_of_leases).start()
        self.found = mock.Mock()
        self.found.name = 'vm1'
        finders = {'virtual:instance': mock.Mock(return_value=self.found)}
        mock.patch.dict('climate_dashboard.leases.tabs._FINDERS', finders).start()
        # Errors there only hide a button.
        self.hidden = mock.patch('horizon.tables.base.LOG.exception').start()
        self._log_in(*self.logged_in_as)

    def tearDown(self) -> None:
        hidden = self.hidden.call_args_list
        super().tearDown()
        assert not hidden


def chosen(*pairs: tuple[str, str]) -> mock.Mock:
    return mock.Mock(return_value=[('', 'none'), *pairs])


class FormTest(PageTest):
    """The form of a new lease."""

    def setUp(self) -> None:
        super().setUp()
        found = {
            'flavors': chosen(('f1', 'm1.small')),
            'images': chosen(('i1', 'cirros')),
            'networks': chosen(('n1', 'shared')),
            'external_networks': chosen(('x1', 'public')),
            'key_pairs': chosen(),
        }
        mock.patch.multiple('climate_dashboard.leases.choices', **found).start()
        self.client_of_leases.limits.return_value = [Limit('leases', 10, 3)]

    def send(self, button: str = 'create', **given: str) -> Any:
        return self.client.post(f'{urls.reverse(CREATE)}?do={button}', {**VALUES, **given})

    def made(self) -> dict[str, Any]:
        assert self.leases.create.call_count == 1
        return dict(self.leases.create.call_args.kwargs)
