# SPDX-License-Identifier: Apache-2.0
"""Floating IPs and network segments as the API shows them, in the form of Blazar."""

from collections.abc import Collection
from typing import Any

from climate_core.lease import views
from climate_networks.domain.floatingips import FloatingIp
from climate_networks.domain.networks import RegisteredSegment


def floatingip(one: FloatingIp) -> dict[str, Any]:
    """Return a floating IP as the API shows it."""
    return {
        'id': str(one.id),
        'floating_network_id': one.network_id,
        'subnet_id': one.subnet_id,
        'floating_ip_address': one.address,
        'reservable': one.available,
        'created_at': views.format_stamp(one.created_at),
    }


def network(one: RegisteredSegment, is_operator: bool, hidden: Collection[str]) -> dict[str, Any]:
    """Return a network segment as the API shows it; extra properties never replace other fields.

    :param is_operator: whether its projects and its generation are shown, too
    :param hidden: the names of extra properties that are left out
    """
    projects = {
        'project_ids': list(one.project_ids),
        'domain_ids': list(one.domain_ids),
        'generation': one.generation,
    }
    return {
        **{name: value for name, value in one.extra.items() if name not in hidden},
        'id': str(one.id),
        **one.segment.facts,
        'reservable': one.available,
        **(projects if is_operator else {}),
        'created_at': views.format_stamp(one.created_at),
        'updated_at': views.format_stamp(one.updated_at),
    }
