# SPDX-License-Identifier: Apache-2.0
"""The tables of floating IPs and network segments; see :mod:`climate_core.db.tables`."""

import sqlalchemy as sa

from climate_core.db import tables

#: A floating IP that is registered for leases: its unit, which is allocated as a whole.
FLOATING_IPS = tables.define_table(
    'floatingips',
    tables.unit_id_column('floatingips', primary_key=True),
    tables.required('network_id', tables.Uuid),
    tables.required('subnet_id', tables.Uuid),
    tables.required('address', sa.String(15)),
    tables.required('created_at', tables.Time),
    # No address belongs to two units.
    sa.UniqueConstraint('network_id', 'address', name='floatingips_address_key'),
)

#: A network segment that is registered for leases: its unit, which is allocated as a whole.
#: ``physical_network`` is empty where there is none; ``extra`` is what the operator adds.
NETWORK_SEGMENTS = tables.define_table(
    'network_segments',
    tables.unit_id_column('network_segments', primary_key=True),
    tables.required('network_type', sa.String(16)),
    tables.required('physical_network', tables.Name),
    tables.required('segment_id', sa.BigInteger),
    tables.required('extra', tables.Json),
    tables.required('created_at', tables.Time),
    sa.Column('updated_at', tables.Time),
    # Counts the changes by operators; that of the unit counts allocations, too.
    tables.required('generation', sa.Integer, server_default='0'),
    # No segment belongs to two units.
    sa.UniqueConstraint(
        'network_type', 'physical_network', 'segment_id', name='network_segments_segment_key'
    ),
)

#: A property of network segments that users may not see, or may.
NETWORK_SEGMENT_PROPERTIES = tables.define_table(
    'network_segment_properties',
    tables.required('name', tables.Name, primary_key=True),
    tables.required('private', sa.Boolean),
)
