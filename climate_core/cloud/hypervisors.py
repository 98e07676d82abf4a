# SPDX-License-Identifier: Apache-2.0
"""The calls to Nova about its hosts, with the rights of the service user.

They raise the exceptions of :mod:`climate_core.cloud.errors`. Facts: Compute API reference,
``/os-hypervisors``, ``/os-services`` and ``/os-aggregates``.
"""

from collections.abc import Iterator
from typing import Any

from climate_core.cloud.connections import Connection
from climate_core.cloud.services import Service

#: The last microversion that shows the size and the CPU of a hypervisor. Since 2.53 the id of a
#: hypervisor is that of its root provider in Placement.
NOVA = Service('Nova', 'compute', '2', '2.87')


def list_all(conn: Connection) -> Iterator[dict[str, Any]]:
    """Yield all hypervisors with their details, one call for each thousand."""
    yield from NOVA.pages(conn, '/os-hypervisors/detail', 'hypervisors', {})


def list_with_servers(conn: Connection) -> Iterator[dict[str, Any]]:
    """Yield all hypervisors as :func:`list_all` does, with ``servers`` if they have any.

    Each of those has a ``uuid``. Facts: Compute API reference, ``with_servers`` since 2.53.
    """
    query = {'with_servers': 'true'}
    yield from NOVA.pages(conn, '/os-hypervisors/detail', 'hypervisors', query)


def list_services(conn: Connection) -> dict[str, dict[str, Any]]:
    """Return every nova-compute by its host: ``zone``, ``state``, ``status`` and more."""
    query = {'binary': 'nova-compute'}
    services = NOVA.read(conn, '/os-services', 'services', query)
    return {service['host']: service for service in services}
