# SPDX-License-Identifier: Apache-2.0
"""Send requests to a service that a cloud may get later, or never.

``conn.block_storage`` and ``conn.orchestration`` of openstacksdk keep what they found in the
catalogue first, so they would never notice a service that comes.
"""

from typing import TYPE_CHECKING

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ksa

from climate_core.cloud import errors

if TYPE_CHECKING:
    from openstack import connection


def make(
    conn: 'connection.Connection', service_type: str, version: str | None = None
) -> adapter.Adapter:
    """Return what sends requests to a service with the rights of a connection.

    :param service_type: as in the catalogue, ``block-storage``
    :param version: the major version of its API; None: whatever the catalogue has
    """
    config = conn.config
    return adapter.Adapter(
        session=conn.session,
        service_type=service_type,
        version=version,
        interface=config.get_interface(service_type),
        region_name=config.get_region_name(service_type),
        endpoint_override=config.get_endpoint(service_type),
    )


def is_offered(client: adapter.Adapter, service: str) -> bool:
    """Tell whether the cloud has a service at all.

    :param service: its name, for errors
    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    with errors.translated(service):
        try:
            return client.get_endpoint() is not None
        except ksa.EndpointNotFound:
            return False
