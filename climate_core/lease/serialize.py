# SPDX-License-Identifier: Apache-2.0
"""Serialize what the API and the notifications both show of a lease, as JSON types. Pure.

Dates are UTC, ``YYYY-MM-DDTHH:MM:SS.ffffff``. The owner's trust, the secret of the webhook, and
claims and attempts, which are the engine's own affair, are never shown.
"""

from typing import Any

from climate_common import dates, resource_types
from climate_core.lease import model
from climate_core.lease.listed import ListedEvent, ListedLease, ListedReservation
from climate_hosts.domain import hosts
from climate_networks.domain import floatingips, networks


def lease(one: model.Lease | ListedLease) -> dict[str, Any]:
    """Return the lease without its reservations, its events and the times of its changes."""
    return {
        'id': one.id,
        'name': one.name,
        'user_id': one.user_id,
        'project_id': one.project_id,
        'start_date': dates.serialize(one.start_date),
        'end_date': dates.serialize(one.end_date),
        'status': one.status,
        'status_reason': one.status_reason,
        'degraded': one.degraded,
    }


def reservation(one: model.Reservation | ListedReservation) -> dict[str, Any]:
    """Return a reservation; what its plugin keeps stands beside the rest and never replaces it."""
    return {
        **params(one),
        **_allocated(one),
        'id': one.id,
        'resource_id': one.resource_id,
        'resource_type': resource_types.api_name(one.resource_type),
        'status': one.status,
        'status_reason': one.status_reason,
        'missing_resources': one.missing_resources,
        'resources_changed': one.resources_changed,
    }


def params(one: model.Reservation | ListedReservation) -> dict[str, Any]:
    """Return what the plugin keeps with a reservation and lets users see."""
    return {name: value for name, value in one.params.items() if not name.startswith('_')}


def _allocated(one: model.Reservation | ListedReservation) -> dict[str, Any]:
    """Return what the calendar promises, by the names that users know."""
    match one.unit_kind:
        case hosts.KIND:
            names = [each.unit['hypervisor_hostname'] for each in one.allocations]
            return {'hosts': names, **_made(one)}
        case floatingips.KIND:
            return {'floatingips': [each.unit['address'] for each in one.allocations]}
        case networks.KIND:
            return _network(one)
    return {}


def _network(one: model.Reservation | ListedReservation) -> dict[str, Any]:
    """Return the segment that is promised, and the id of the network when it is made."""
    segments = [networks.Segment.of(each.unit).facts for each in one.allocations[:1]]
    made = (one.progress or {}).get(networks.MADE)
    return {**(segments[0] if segments else {}), networks.MADE: made}


def _made(one: model.Reservation | ListedReservation) -> dict[str, Any]:
    """Return what Blazar's clients read besides.

    It is what Blazar does before the end, and makes in Nova for room by sizes, of which only the
    flavor is needed.
    """
    match one.resource_type:
        case resource_types.HOST:
            return {'before_end': one.params.get('before_end', 'default')}
        case resource_types.SIZES:
            return {'flavor_id': one.id, 'aggregate_id': None, 'server_group_id': None}
    return {}


def event(one: model.Event | ListedEvent) -> dict[str, Any]:
    """Return an event."""
    return {
        'id': one.id,
        'event_type': one.event_type,
        'time': dates.serialize(one.time),
        'status': one.status,
        'status_reason': one.status_reason,
    }
