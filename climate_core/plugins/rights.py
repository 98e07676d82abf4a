# SPDX-License-Identifier: Apache-2.0
"""With whose rights a plugin works on the resources of a lease."""

from typing import TYPE_CHECKING

from oslo_log import log

from climate_core import exceptions

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.cloud import Cloud
    from climate_core.lease.model import Lease

LOG = log.getLogger(__name__)


def owner(cloud: 'Cloud', lease: 'Lease') -> 'connection.Connection':
    """Return the connection with the rights that the owner left with the lease.

    :raises climate_core.exceptions.Permanent: there are none, or they are no more
    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    if not lease.trust_id:
        raise exceptions.Permanent('The lease has no trust of its owner.')
    return cloud.owner(lease.trust_id)


def at_end(cloud: 'Cloud', lease: 'Lease') -> 'connection.Connection':
    """Return the owner's connection; the service's own if the owner left us none.

    :raises climate_core.exceptions.Transient: Keystone does not answer
    """
    try:
        return owner(cloud, lease)
    except exceptions.Permanent as exc:
        LOG.warning('Ending lease %s with the rights of the service: %s', lease.id, exc)
        return cloud.service()
