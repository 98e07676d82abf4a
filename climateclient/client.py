# SPDX-License-Identifier: Apache-2.0
"""The client of the lease service: a keystoneauth Adapter.

For example::

    from climateclient.client import Client

    client = Client(session)
    server = {'resource_type': 'virtual:instance', 'resource_id': server_id}
    lease = client.leases.create('lease1', end=end, reservations=[server])
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from keystoneauth1 import adapter, session
from keystoneauth1.exceptions import http

from climateclient import exceptions
from climateclient.calendar import Calendar
from climateclient.feeds import Feeds
from climateclient.floatingips import FloatingIps
from climateclient.hosts import Hosts
from climateclient.leases import Leases
from climateclient.models import Limit, Plugin, ProjectUsage, Window
from climateclient.networks import Networks
from climateclient.parameters import When
from climateclient.serialization import read, to_json, to_query

SERVICE_TYPE = 'reservation'


class Client(adapter.Adapter):
    """The lease service, API v1.

    :param session: any keystoneauth session; its auth plugin is used unless ``auth`` is given
        (nova gives the user's token with its own service token beside it). An Adapter that
        was made of a configuration file's options does as well.
    :param adapter_kwargs: what a keystoneauth Adapter takes: ``auth``, ``region_name``,
        ``interface``, ``endpoint_override`` (a URL that ends in /v1, used instead of the
        catalog), ``global_request_id``, ``connect_retries`` and ``status_code_retries``
        (numbers of further tries; a repeated create gives the same lease, a repeated delete
        may find the lease gone)
    """

    client_name = 'climateclient'

    def __init__(self, session: session.Session | adapter.Adapter, **adapter_kwargs: Any) -> None:
        adapter_kwargs.setdefault('service_type', SERVICE_TYPE)
        super().__init__(session, **adapter_kwargs)  # type: ignore[arg-type]
        self.leases = Leases(self)
        self.hosts = Hosts(self)
        self.floatingips = FloatingIps(self)
        self.networks = Networks(self)
        self.calendar = Calendar(self)
        self.feeds = Feeds(self)

    def request(self, url: str, method: str, **kwargs: Any) -> requests.Response:
        """Send a request, as any Adapter does.

        :raises climateclient.exceptions.ApiError: the service answered with an error
        """
        try:
            return super().request(url, method, **kwargs)
        except http.HttpError as error:
            raise exceptions.from_http(error) from error

    def plugins(self) -> list[Plugin]:
        """Return the types of resources that the service can reserve."""
        return read(
            self.get('/plugins'), 'plugins', lambda rows: [Plugin.from_dict(r) for r in rows or ()]
        )

    def availability(
        self,
        reservations: Sequence[Mapping[str, Any]],
        duration: datetime.timedelta | str,
        *,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
    ) -> list[Window]:
        """Return the earliest times in which reservations would be granted together.

        :param reservations: as a new lease has them; of types that are in the calendar
        :param since: when it starts at the earliest, not in the past; now if None
        :param until: when it ends at the latest; the service's choice if None
        :raises BadRequest: a value is wrong; ``field`` says which
        """
        values = {'duration': duration, 'from': since, 'to': until, 'limit': limit}
        values['reservations'] = json.dumps(to_json(reservations))
        return read(
            self.get('/availability', params=to_query(values)),
            'windows',
            lambda rows: [Window.from_dict(row) for row in rows],
        )

    def usage(
        self,
        start: When | None = None,
        end: When | None = None,
        *,
        project_id: str | None = None,
        planned: bool | None = None,
    ) -> list[ProjectUsage]:
        """Return what projects reserved and used in a period, one value for each project.

        :param planned: one value for each week and project, with what is still to come
        :param start: when the period begins; the service's choice if None
        :param project_id: only of this project; one other than the own needs the right to see all
        """
        values = to_query(
            {'start': start, 'end': end, 'project_id': project_id, 'planned': planned}
        )
        return read(
            self.get('/usage', params=values),
            'usage',
            lambda rows: [ProjectUsage.from_dict(row) for row in rows],
        )

    def limits(self, *, project_id: str | None = None) -> list[Limit]:
        """Return how much a project may reserve, and how much it does.

        :param project_id: a project other than the own one needs the right to see all
        """
        return read(
            self.get('/limits', params=to_query({'project_id': project_id})),
            'limits',
            lambda rows: [Limit.from_dict(name, row) for name, row in rows.items()],
        )
