# SPDX-License-Identifier: Apache-2.0
"""Make the flavors, an image, the networks and one availability zone for each host."""

import openstack
from openstack.connection import Connection

from climate_cloud.settings import Settings

#: name -> (CPUs, MB of memory, GB of disk). m1.xlarge takes more than half of a host.
FLAVORS = {
    'm1.tiny': (1, 512, 1),
    'm1.small': (1, 2048, 1),
    'm1.medium': (2, 4096, 1),
    'm1.xlarge': (8, 40960, 1),
}
IMAGE = 'cirros'
NETWORK = 'shared'
CIDR = '10.20.0.0/16'
#: The network of floating IPs. Its pool is small; the other addresses are for leases.
EXTERNAL = 'public'
EXTERNAL_CIDR = '203.0.113.0/24'
EXTERNAL_POOL = ('203.0.113.200', '203.0.113.219')


def zone(host: str) -> str:
    """Name the availability zone of a compute host: az1 for compute1."""
    return host.replace('compute', 'az')


def make(admin: Connection) -> None:
    """Make what is not there yet."""
    flavors = {flavor.name for flavor in admin.compute.flavors()}
    for name, (cpus, memory, disk) in FLAVORS.items():
        if name not in flavors:
            admin.compute.create_flavor(name=name, vcpus=cpus, ram=memory, disk=disk)
    if not admin.image.find_image(IMAGE):
        # The fake hypervisor boots anything: 1 MiB of zeros.
        admin.image.create_image(
            IMAGE, data=b'\0' * 2**20, container_format='bare', disk_format='raw',
            visibility='public',
        )  # fmt: skip
    network = admin.network.find_network(NETWORK) or admin.network.create_network(
        name=NETWORK, shared=True
    )
    if not network.subnet_ids:
        admin.network.create_subnet(
            name=NETWORK, network_id=network.id, ip_version=4, cidr=CIDR, enable_dhcp=False
        )
    _make_external(admin)


def _make_external(admin: Connection) -> None:
    # Not of the administrator's own project, whose servers would have to choose a network then.
    service = admin.identity.find_project('service', ignore_missing=False)
    network = admin.network.find_network(EXTERNAL) or admin.network.create_network(
        name=EXTERNAL, is_router_external=True, project_id=service.id
    )
    if not network.subnet_ids:
        first, last = EXTERNAL_POOL
        admin.network.create_subnet(
            name=EXTERNAL,
            network_id=network.id,
            project_id=service.id,
            ip_version=4,
            cidr=EXTERNAL_CIDR,
            allocation_pools=[{'start': first, 'end': last}],
            enable_dhcp=False,
        )


def make_volume_types(admin: Connection) -> None:
    """Make the volume type of Ceph, and keep the volumes of no type where they are without it."""
    cinder = admin.block_storage
    untyped = cinder.find_type('__DEFAULT__', ignore_missing=False)
    ceph = cinder.find_type('ceph') or cinder.create_type(name='ceph')
    for one, backend in ((untyped, 'fake'), (ceph, 'ceph')):
        # Cinder refuses even the same once more when there are volumes of the type.
        if (one.extra_specs or {}).get('volume_backend_name') != backend:
            cinder.update_type_extra_specs(one, volume_backend_name=backend)


def make_zones(settings: Settings, admin: Connection) -> None:
    """Put each compute host into a zone of its own, so that a member can choose a host."""
    aggregates = {aggregate.name: aggregate for aggregate in admin.compute.aggregates()}
    for host in settings.compute_names:
        name = zone(host)
        aggregate = aggregates.get(name) or admin.compute.create_aggregate(
            name=name, availability_zone=name
        )
        if host not in (aggregate.hosts or []):
            admin.compute.add_host_to_aggregate(aggregate, host)


def services_down(settings: Settings, admin: Connection) -> list[str]:
    """Name the services that the schedulers of nova and cinder do not count on yet."""
    try:
        nova = {(one.binary, one.host): one.state for one in admin.compute.services()}
        cinder = {(one.binary, one.host): one.state for one in admin.block_storage.services()}
    except openstack.exceptions.SDKException as error:
        return [f'no answer ({error})']
    expected = [('nova-conductor', 'ctl'), ('nova-scheduler', 'ctl')]
    expected += [('nova-compute', host) for host in settings.compute_names]
    expected += [('cinder-scheduler', 'ctl'), ('cinder-volume', 'ctl@fake')]
    if settings.ceph:
        expected += [('cinder-volume', 'ctl@ceph'), ('cinder-backup', 'ctl')]
    states = nova | cinder
    return [f'{name} on {host}' for name, host in expected if states.get((name, host)) != 'up']
