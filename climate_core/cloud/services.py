# SPDX-License-Identifier: Apache-2.0
"""Send requests to a service of the cloud, and judge its answers."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keystoneauth1 import exceptions as ksa

from climate_core.cloud import errors

if TYPE_CHECKING:
    import requests

    from climate_core.cloud import connection

#: Items per page; the limit of the services themselves is 1000 by default.
PAGE = 1000


def check_own(conn: 'connection.Connection', project_id: str | None, what: str) -> None:
    """Raise Gone for what belongs to another project; administrators see that, too.

    :param project_id: whose it is; None: its service does not show that to these rights
    :param what: its noun and its id, for the error
    """
    if project_id not in (None, conn.current_project_id):
        raise errors.Gone(f'There is no {what} in this project.')


@dataclasses.dataclass(frozen=True)
class Service:
    """A service of the cloud; its methods take the connection whose rights they use.

    They raise the exceptions of :mod:`climate_core.cloud.errors`.

    :param name: for people
    :param type: as in the catalogue, ``block-storage``
    :param version: the major version of its API; None: whatever the catalogue has
    :param microversion: of requests that name none
    """

    name: str
    type: str
    version: str | None = None
    microversion: str | None = None

    def send(
        self,
        conn: 'connection.Connection',
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[str] | None = None,
        query: Mapping[str, Any] | None = None,
        microversion: str | None = None,
    ) -> 'requests.Response':
        """Return the answer to a request, whatever it is.

        :raises climate_core.exceptions.Transient: there is none
        """
        with errors.translated(self.name):
            return conn.client(self.type, self.version).request(
                path,
                method,
                json=body,
                params=query,
                microversion=microversion or self.microversion,
                raise_exc=False,
            )

    def ask(
        self,
        conn: 'connection.Connection',
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a request that the service has to accept."""
        errors.check(self.send(conn, method, path, body), self.name)

    def read(
        self,
        conn: 'connection.Connection',
        path: str,
        name: str | None = None,
        query: Mapping[str, Any] | None = None,
        microversion: str | None = None,
    ) -> Any:
        """Return what the answer to a GET has under a name; without one, all of it."""
        response = self.send(conn, 'GET', path, query=query, microversion=microversion)
        return errors.read(response, self.name, name)

    def pages(
        self,
        conn: 'connection.Connection',
        path: str,
        name: str,
        query: Mapping[str, Any],
        microversion: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield all items of a collection, one call for each page.

        :param name: of the collection in the answer
        """
        marker: Mapping[str, str] = {}
        while True:
            params = {'limit': PAGE, **query, **marker}
            response = self.send(conn, 'GET', path, query=params, microversion=microversion)
            page = errors.read(response, self.name, name)
            yield from page
            # Heat gives no links; Neutron one to the page before, too.
            links = response.json().get(f'{name}_links') or ()
            if len(page) < PAGE and not any(each['rel'] == 'next' for each in links):
                return
            marker = {'marker': page[-1]['id']}

    def is_offered(self, conn: 'connection.Connection') -> bool:
        """Tell whether the cloud has the service at all."""
        with errors.translated(self.name):
            try:
                return conn.client(self.type, self.version).get_endpoint() is not None
            except ksa.EndpointNotFound:
                return False


class Copy(NamedTuple):
    """An image, a backup or a snapshot that is made at the end of a reservation.

    :param reason: why it could not be made, if its service says so
    """

    id: str
    status: str
    reason: str = ''

    @classmethod
    def best(cls, copies: Iterable['Copy'], complete: Iterable[str]) -> 'Copy | None':
        """Return a complete copy if there is one, else any; None if there is none."""
        return min(copies, key=lambda copy: copy.status not in complete, default=None)
