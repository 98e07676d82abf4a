# SPDX-License-Identifier: Apache-2.0
"""Give Climate the hosts of its pool."""

from openstack.connection import Connection

from climate_cloud import identity
from climate_cloud.settings import Settings
from climateclient.client import Client


def enrol(settings: Settings, admin: Connection) -> None:
    """Enrol those that are not in a pool yet.

    :raises keystoneauth1.exceptions.ClientException: the lease service does not do it, or not yet
    """
    hosts = Client(admin.session, region_name=identity.REGION).hosts
    enrolled = {host.hypervisor_hostname for host in hosts.list()}
    for name in settings.pool_names:
        if name not in enrolled:
            hosts.create(name)
