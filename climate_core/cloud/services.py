# SPDX-License-Identifier: Apache-2.0
"""Send requests to the services of the cloud, and check their answers."""

import contextlib
import contextvars
import dataclasses
import http
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keystoneauth1 import exceptions as ksa

from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection

if TYPE_CHECKING:
    import requests


#: Items per page; the limit of the services themselves is 1000 by default.
PAGE = 1000


def check_project(conn: Connection, project_id: str | None, what: str) -> None:
    """Raise Gone if a resource belongs to another project; administrators see those, too.

    :param project_id: the project of the resource; None: its service hides it from these rights
    :param what: the noun and the id of the resource, for the error
    """
    if project_id not in (None, conn.current_project_id):
        raise errors.Gone(f'There is no {what} in this project.')


class TooManyLookups(Exception):
    """A request of a user needs more requests to other services than the limit allows."""


class Lookups:
    """Cache equal GETs of one user request, and limit its requests to other services.

    Use it only where nothing waits for a change.

    :param max_requests: maximum number of requests that are sent
    """

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._sent = 0
        self._answers: dict[Hashable, requests.Response] = {}

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Apply the cache and the limit to all requests that this thread sends in the block."""
        token = _lookups.set(self)
        try:
            yield
        finally:
            _lookups.reset(token)

    def find(self, key: Hashable) -> 'requests.Response | None':
        """Return the answer to an equal request; None: this one is to be sent, and counts.

        :param key: equal for equal requests; None: the request is never equal to another
        :raises TooManyLookups: the maximum number was sent
        """
        if key is not None and key in self._answers:
            return self._answers[key]
        if self._sent >= self._max_requests:
            raise TooManyLookups
        self._sent += 1
        return None

    def add(self, key: Hashable, response: 'requests.Response') -> None:
        """Add the answer to a request."""
        if key is None:
            # This request may have changed something.
            self._answers.clear()
        elif response.status_code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
            self._answers[key] = response


_lookups: contextvars.ContextVar[Lookups | None] = contextvars.ContextVar('lookups', default=None)


@dataclasses.dataclass(frozen=True)
class Service:
    """A service of the cloud; its methods take the connection whose rights they use.

    They raise the exceptions of :mod:`climate_core.cloud.errors`.

    :param name: for messages
    :param type: as in the catalog, ``block-storage``
    :param version: the major version of its API; None: the version in the catalog
    :param microversion: default microversion of requests
    """

    name: str
    type: str
    version: str | None = None
    microversion: str | None = None

    def send(
        self,
        conn: Connection,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[str] | None = None,
        query: Mapping[str, Any] | None = None,
        microversion: str | None = None,
    ) -> 'requests.Response':
        """Return the answer to a request, whatever its status.

        :raises climate_core.exceptions.Transient: there is no answer
        :raises climate_core.cloud.errors.Gone: the path has a part that is ``.`` or ``..``
        :raises TooManyLookups: see :class:`Lookups`
        """
        if not {'.', '..'}.isdisjoint(path.split('/')):
            # It comes from a user; urllib3 would remove it and request another path.
            raise errors.Gone
        version = microversion or self.microversion
        lookups, key = _lookups.get(), None
        if lookups is not None:
            if method == 'GET' and conn.rights is not None:
                key = conn.rights, self.type, path, repr(query), version
            known = lookups.find(key)
            if known is not None:
                return known
        with errors.translated(self.name):
            response = conn.client(self.type, self.version).request(
                path,
                method,
                json=body,
                params=query,
                microversion=version,
                raise_exc=False,
            )
        if lookups is not None:
            lookups.add(key, response)
        return response

    def request(
        self,
        conn: Connection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a request, and raise unless the service accepts it."""
        errors.check_response(self.send(conn, method, path, body), self.name)

    def read(
        self,
        conn: Connection,
        path: str,
        name: str | None = None,
        query: Mapping[str, Any] | None = None,
        microversion: str | None = None,
    ) -> Any:
        """Return the value of a name in the answer to a GET; without a name, all of it."""
        response = self.send(conn, 'GET', path, query=query, microversion=microversion)
        return errors.read_response(response, self.name, name)

    def pages(
        self,
        conn: Connection,
        path: str,
        name: str,
        query: Mapping[str, Any],
        microversion: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield all items of a collection, one call for each page.

        :param name: name of the collection in the answer
        """
        marker: Mapping[str, str] = {}
        while True:
            params = {'limit': PAGE, **query, **marker}
            response = self.send(conn, 'GET', path, query=params, microversion=microversion)
            page = errors.read_response(response, self.name, name)
            yield from page
            # Heat sends no links; Neutron also sends one to the previous page.
            links = response.json().get(f'{name}_links') or ()
            if len(page) < PAGE and not any(link['rel'] == 'next' for link in links):
                return
            marker = {'marker': page[-1]['id']}

    def check_zone(self, conn: Connection, zone: str, *, is_available: bool = False) -> None:
        """Check that Nova or Cinder has an availability zone.

        The check passes where a policy hides the zones.

        :param is_available: the zone must also have enabled hosts
        :raises climate_core.exceptions.Permanent: the zone does not exist
        """
        try:
            listed = self.read(conn, '/os-availability-zone', 'availabilityZoneInfo')
        except (errors.Forbidden, errors.Gone):
            return
        zones = {zone_row['zoneName']: zone_row['zoneState']['available'] for zone_row in listed}
        if zone in zones and (zones[zone] or not is_available):
            return
        usable = sorted(name for name, available in zones.items() if available or not is_available)
        raise exceptions.Permanent(
            f'availability_zone: must be a zone of {self.name} ({", ".join(usable) or "none"}), '
            f'not {zone}.'
        )

    def is_offered(self, conn: Connection) -> bool:
        """Return whether the cloud has an endpoint of the service."""
        with errors.translated(self.name):
            try:
                return conn.client(self.type, self.version).get_endpoint() is not None
            except ksa.EndpointNotFound:
                return False


class Copy(NamedTuple):
    """An image, a backup or a snapshot that is created at the end of a reservation.

    :param reason: why its creation failed, if the service shows that
    """

    id: str
    status: str
    reason: str = ''

    @classmethod
    def best(cls, copies: Iterable['Copy'], complete: Iterable[str]) -> 'Copy | None':
        """Return a complete copy if one exists, else any copy; None if there are no copies."""
        return min(copies, key=lambda copy: copy.status not in complete, default=None)
