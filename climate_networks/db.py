# SPDX-License-Identifier: Apache-2.0
"""The floating IPs and network segments that operators register for leases, in the database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import tables
from climate_core.db.registered_units import UnitTable
from climate_networks import units
from climate_networks.units import FloatingIp, RegisteredSegment, Segment

#: A floating IP that is registered for leases: its unit, which is allocated as a whole.
_FLOATING_IP = tables.define_table(
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
_SEGMENT = tables.define_table(
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
_PROPERTIES = tables.define_table(
    'network_segment_properties',
    tables.required('name', tables.Name, primary_key=True),
    tables.required('private', sa.Boolean),
)

FLOATING_IPS: Final = UnitTable(
    kind=units.FLOATING_IP_KIND,
    record=FloatingIp,
    table=_FLOATING_IP,
    allocation_columns=('network_id', 'address'),
    unknown_unit=exceptions.FloatingIpNotFound,
)
SEGMENTS: Final = UnitTable(
    kind=units.SEGMENT_KIND,
    record=RegisteredSegment,
    table=_SEGMENT,
    unit_columns=('available', 'access'),
    allocation_columns=units.SEGMENT_FACTS,
    unknown_unit=exceptions.NetworkNotFound,
    properties=_PROPERTIES,
    unknown_property=exceptions.NetworkPropertyNotFound,
)


def find_registered_addresses(
    session: orm.Session, network_id: str, addresses: Iterable[str]
) -> list[str]:
    """Return the registered addresses of a network among these; one statement."""
    listed, row = [*addresses], _FLOATING_IP.c
    query = sa.select(row.address).where(row.network_id == network_id, row.address.in_(listed))
    found = {*session.scalars(query)}
    return [address for address in listed if address in found]


def insert_floatingips(
    session: orm.Session, network_id: str, subnets: Mapping[str, str]
) -> list[int]:
    """Write new floating IPs and their units; return their ids, in order.

    :param subnets: address -> the id of its subnet
    :raises oslo_db.exception.DBDuplicateEntry: one of them exists
    """
    return [
        FLOATING_IPS.insert(
            session,
            {'pool': network_id, 'properties': {'network_id': network_id, 'address': address}},
            {'network_id': network_id, 'subnet_id': subnet_id, 'address': address},
        )
        for address, subnet_id in subnets.items()
    ]


def find_registered_segments(session: orm.Session, segments: Sequence[Segment]) -> list[Segment]:
    """Return the registered segments among these, all of one physical network; one statement."""
    row = _SEGMENT.c
    query = sa.select(row.segment_id).where(
        row.network_type == segments[0].network_type,
        row.physical_network == (segments[0].physical_network or ''),
        row.segment_id.in_([segment.segment_id for segment in segments]),
    )
    found = {*session.scalars(query)}
    return [segment for segment in segments if segment.segment_id in found]


def insert_segments(
    session: orm.Session,
    segments: Sequence[Segment],
    unit: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> list[int]:
    """Write new segments and their units; return their ids, in order.

    :param unit: ``available`` and ``access`` of the units
    :raises oslo_db.exception.DBDuplicateEntry: one of them exists
    """
    return [
        SEGMENTS.insert(
            session,
            {'pool': segment.pool, 'properties': {**extra, **segment.facts}, **unit},
            {
                **segment.facts,
                'physical_network': segment.physical_network or '',
                'extra': extra,
            },
        )
        for segment in segments
    ]
