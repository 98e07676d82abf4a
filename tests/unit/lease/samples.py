# SPDX-License-Identifier: Apache-2.0
"""A lease of two things, as it was just granted; a node, and the host that it is."""

import dataclasses

from climate_core.lease import model
from climate_core.lease.request import RequestRules
from climate_hosts import hosts, nodes
from tests.support import leases
from tests.support.leases import HOUR, NOON

RULES = RequestRules(before_start=[1800])


def lease(manual: bool = False) -> model.Lease:
    """Return a lease from an hour after noon to three hours after it."""
    return leases.lease(
        *(leases.reservation(str(n)) for n in range(2)),
        start=NOON + HOUR,
        end=NOON + 3 * HOUR,
        given=[('note', NOON + 2 * HOUR)],
        before_end_date=NOON + 2 * HOUR,
        always=RULES.before_start,
        start_policy='manual' if manual else 'auto',
    )


HYPERVISOR = {
    'hypervisor_hostname': 'cn1',
    'hypervisor_type': 'QEMU',
    'hypervisor_version': 8002000,
    'vcpus': 16,
    'memory_mb': 4096,
    'local_gb': 100,
    'cpu_info': {'arch': 'x86_64', 'vendor': '', 'topology': {'cores': 8}},
    'state': 'up',
    'status': 'enabled',
    'service': {'host': 'compute1'},
}
NODE = nodes.describe_node(
    HYPERVISOR,
    {'zone': 'az1'},
    ['b', 'a'],
    {'VCPU': 32, 'MEMORY_MB': 3584, 'VGPU': 2},
    ['CUSTOM_B', 'CUSTOM_A'],
    units={'VCPU': [1, 16, 2]},
)


def host(**values) -> hosts.Host:
    known = {each.name: getattr(NODE, each.name) for each in dataclasses.fields(nodes.Node)}
    usual = {'id': 1, 'pool': 'default', 'available': True, 'provider_id': 'root'}
    lanes = {'lane_ids': ('lane',), 'extra': {}, 'created_at': NOON}
    return hosts.Host(**{**known, **usual, **lanes, **values})
