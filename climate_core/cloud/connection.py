# SPDX-License-Identifier: Apache-2.0
"""Send requests to the services of the cloud with the rights of somebody.

It is keystoneauth alone: openstacksdk, whose proxies of all services take 11 MiB, would only pass
the requests on.
"""

from collections.abc import Hashable, Mapping, Sequence

from keystoneauth1 import adapter
from keystoneauth1 import session as ks_session


class Connection:
    """The rights of somebody, and the endpoints that are used with them.

    :param session: sends requests with these rights
    :param interfaces: kinds of endpoint, the preferred one first; none: ``public``
    :param region_name: of the endpoints; None: the first one in the catalogue
    :param overrides: types of services, as in the catalogue -> URLs, instead of the catalogue's
    :param rights: equal for connections with equal rights; None: nothing is known to be equal
    """

    def __init__(
        self,
        session: ks_session.Session,
        interfaces: Sequence[str] = (),
        region_name: str | None = None,
        overrides: Mapping[str, str | None] | None = None,
        rights: Hashable = None,
    ) -> None:
        self.session = session
        self._interfaces = list(interfaces) or None
        self._region_name = region_name
        self._overrides = overrides or {}
        self.rights = rights

    @property
    def current_project_id(self) -> str | None:
        """Return the id of the project that the rights are of."""
        return self.session.get_project_id()

    def client(self, service_type: str, version: str | None = None) -> adapter.Adapter:
        """Return what sends requests to a service; it looks for the endpoint with each of them.

        So a service that comes to the cloud later is found.

        :param service_type: as in the catalogue, ``block-storage``
        :param version: the major version of its API; None: whatever the catalogue has
        """
        return adapter.Adapter(
            session=self.session,
            service_type=service_type,
            version=version,
            interface=self._interfaces,
            region_name=self._region_name,
            endpoint_override=self._overrides.get(service_type),
        )
