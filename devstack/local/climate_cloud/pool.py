# SPDX-License-Identifier: Apache-2.0
"""Give Climate the hosts of its pool."""

from typing import Final

from openstack.connection import Connection

from climate_cloud import identity
from climate_cloud.settings import Settings
from climateclient.client import Client

#: The host aggregate by which a nova-scheduler without PoolFilter keeps ordinary servers off them.
AGGREGATE: Final = 'climate-pool'
ISOLATION: Final = {'trait:CUSTOM_CLIMATE_POOL': 'required'}


def enrol(settings: Settings, admin: Connection) -> None:
    """Isolate and enrol those that are not in a pool yet, in the order that the guide has.

    :raises openstack.exceptions.HttpException: Nova does not isolate them, or not yet
    :raises keystoneauth1.exceptions.ClientException: the lease service does not do it, or not yet
    """
    _isolate(settings, admin)
    hosts = Client(admin.session, region_name=identity.REGION).hosts
    enrolled = {host.hypervisor_hostname for host in hosts.list()}
    for name in settings.pool_names:
        if name not in enrolled:
            hosts.create(name)


def _isolate(settings: Settings, admin: Connection) -> None:
    compute = admin.compute
    aggregate = compute.find_aggregate(AGGREGATE) or compute.create_aggregate(name=AGGREGATE)
    if not ISOLATION.items() <= (aggregate.metadata or {}).items():
        compute.set_aggregate_metadata(aggregate, ISOLATION)
    for name in settings.pool_names:
        if name not in (aggregate.hosts or []):
            compute.add_host_to_aggregate(aggregate, name)
