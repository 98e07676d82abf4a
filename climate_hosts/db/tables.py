# SPDX-License-Identifier: Apache-2.0
"""The tables of hosts and their pools; see :mod:`climate_core.db.tables`."""

import sqlalchemy as sa

from climate_common.limits import NAME_LENGTH
from climate_core.db import tables

#: A host of a pool: its unit, as Nova and Placement know it. ``details`` is what they say,
#: ``extra`` what the operator adds.
HOSTS = tables.define_table(
    'hosts',
    tables.unit_id_column('hosts', primary_key=True),
    tables.required('hypervisor_hostname', sa.String(NAME_LENGTH)),
    tables.required('service_name', sa.String(NAME_LENGTH)),
    tables.required('provider_id', tables.Uuid),
    tables.required('lane_ids', tables.Json),
    tables.required('details', tables.Json),
    tables.required('extra', tables.Json),
    # See climate_hosts.hosts.State.
    tables.required('state', sa.String(16), server_default='enrolled'),
    sa.Column('disabled_reason', sa.Text),
    # The lease for which the servers of a shared host leave it.
    sa.Column('emptied_for', tables.Uuid),
    # Whether ordinary servers may run there until a lease needs it; NULL: never.
    sa.Column('open_to_unreserved', sa.Boolean),
    # See climate_hosts.power.states: the state, since when, when it was last put to sleep, whether
    # an operator keeps it on, and how many seconds it took to wake.
    sa.Column('power', sa.String(16)),
    sa.Column('power_since', tables.Time),
    sa.Column('slept_at', tables.Time),
    tables.required('kept_on', sa.Boolean, server_default='0'),
    sa.Column('wake_seconds', sa.Integer),
    tables.required('created_at', tables.Time),
    sa.Column('updated_at', tables.Time),
    sa.UniqueConstraint('hypervisor_hostname', name='hosts_hypervisor_hostname_key'),
    # Whether ordinary servers are to be kept off a host: each time that its aggregate is written.
    sa.Index('hosts_provider_idx', 'provider_id'),
)

#: The time for which a host slept; ``end`` is NULL while it does. It is kept when the host is
#: deleted: what was saved was saved.
HOST_SLEEPS = tables.define_table(
    'host_sleeps',
    tables.required('id', tables.Serial, primary_key=True),
    tables.required('unit_id', tables.Serial),
    tables.required('hypervisor_hostname', sa.String(NAME_LENGTH)),
    tables.required('start', tables.Time),
    sa.Column('end', tables.Time),
    # The sleep that ends.
    sa.Index('host_sleeps_unit_idx', 'unit_id', 'start'),
    # How long hosts slept in a period.
    sa.Index('host_sleeps_end_idx', 'end', 'start'),
)

#: A pool of hosts, and who may use it; NULL: everybody. Its units have the same. ``generation``
#: counts the changes.
HOST_POOLS = tables.define_table(
    'host_pools',
    tables.required('name', tables.Name, primary_key=True),
    sa.Column('access', tables.Json),
    tables.required('generation', sa.Integer, server_default='0'),
)

#: A property of hosts that users may not see, or may.
HOST_PROPERTIES = tables.define_table(
    'host_properties',
    tables.required('name', tables.Name, primary_key=True),
    tables.required('private', sa.Boolean),
)
