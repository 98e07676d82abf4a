# SPDX-License-Identifier: Apache-2.0
"""Floating IPs and network segments as the API shows them, in the form of Blazar."""

from collections.abc import Collection
from typing import Any

from climate_core.lease import views
from climate_networks.domain.floatingips import FloatingIp
from climate_networks.domain.networks import RegisteredSegment


def floatingip(row: FloatingIp) -> dict[str, Any]:
    """Return a floating IP as the API shows it."""
    return {
        'id': str(row.id),
        'floating_network_id': row.network_id,
        'subnet_id': row.subnet_id,
        'floating_ip_address': row.address,
        'reservable': row.available,
        'created_at': views.format_stamp(row.created_at),
    }


def network(row: RegisteredSegment, is_operator: bool, hidden: Collection[str]) -> dict[str, Any]:
    """Return a network segment as the API shows it; extra properties never replace other fields.

    :param is_operator: whether to show its projects and its generation
    :param hidden: the names of the extra properties to leave out
    """
    projects = {
        'project_ids': list(row.project_ids),
        'domain_ids': list(row.domain_ids),
        'generation': row.generation,
    }
    return {
        **{name: value for name, value in row.extra.items() if name not in hidden},
        'id': str(row.id),
        **row.segment.facts,
        'reservable': row.available,
        **(projects if is_operator else {}),
        'created_at': views.format_stamp(row.created_at),
        'updated_at': views.format_stamp(row.updated_at),
    }
