# SPDX-License-Identifier: Apache-2.0
"""Read what a RequestSpec of nova says about reservations of hosts, and write into it."""

from typing import Any

import nova.conf
from nova import exception, objects

from climate_common import lanes
from climateclient.extension import hints

#: The suffix of the request group (Placement API, "granular resource requests").
GROUP = '_climate'


def reservation(spec: Any) -> str | None:
    """Return the reservation that the hints name, or else the flavor.

    :raises nova.exception.RequestFilterFailed: it is no uuid
    """
    try:
        named = hints.reservation_of_hosts(_hints(spec))
        return named or hints.reservation_of_hosts(_extra_specs(spec), lanes.EXTRA_SPEC)
    except hints.BadHint as error:
        raise exception.RequestFilterFailed(reason=str(error)) from error


def aggregates(reservation_id: str, spec: Any) -> list[str]:
    """Return the aggregates of the lanes that take this server: by its project and its flavor."""
    flavor = spec.flavor
    shape = lanes.shape(
        flavor.vcpus,
        flavor.memory_mb,
        flavor.root_gb,
        flavor.ephemeral_gb,
        flavor.swap,
        _extra_specs(spec),
    )
    return [
        lanes.host_aggregate(reservation_id, spec.project_id),
        lanes.slot_aggregate(reservation_id, spec.project_id, shape),
    ]


def is_move(spec: Any) -> bool:
    """Return whether the server exists: nova names its cell, or lets it leave that.

    See nova/conductor/manager.py, _restrict_request_spec_to_cell, and tasks/migrate.py; nothing
    sets these for a boot.
    """
    destination = spec.requested_destination
    if not destination:
        return False
    return destination.allow_cross_cell_move or bool('cell' in destination and destination.cell)


def is_matched(spec: Any) -> bool:
    """Return whether lanes with open matching may take this server, which names no reservation.

    Only a new one: what is in a lease ends with it, and a server that exists was not booted for
    that. It leaves the pool when it is moved.

    Not if more than Placement chooses the host, which would refuse the lane afterwards: a named
    host, a server group, the hosts of other servers. Nor a server with a lease of its own, which
    may be longer: it could not be moved while it is RESERVED.
    """
    destination = spec.requested_destination
    named = destination and any(
        name in destination and getattr(destination, name) for name in ('host', 'node')
    )
    forced = any(name in spec and getattr(spec, name) for name in ('force_hosts', 'force_nodes'))
    given = _hints(spec)
    near = not {'group', 'same_host', 'different_host'}.isdisjoint(given)
    return not (is_move(spec) or named or forced or near or hints.wants_reservation(given))


def require_lane(spec: Any, members: list[str]) -> None:
    """Add a slot of a lane to what Placement is asked for.

    :param members: aggregates; the lane must be in one of them
    """
    # Nova's aggregates that are isolated by the trait let only these requests in.
    isolated = nova.conf.CONF.scheduler.enable_isolated_aggregate_filtering
    group = objects.RequestGroup(
        requester_id=GROUP,
        resources={lanes.SLOT: 1},
        aggregates=[members],
        required_traits={lanes.TRAIT} if isolated else set(),
    )
    spec.requested_resources = [*(spec.requested_resources or []), group]


def forbid_pool(spec: Any) -> None:
    """Forbid the hosts of the pool in the request to Placement."""
    if not spec.requested_destination:
        spec.requested_destination = objects.Destination()
    spec.requested_destination.append_forbidden_aggregates({lanes.POOL})


def drop_blazar_spec(spec: Any) -> None:
    """Remove the extra spec that only clients of Blazar read from the flavor of a reservation.

    Nova's AggregateInstanceExtraSpecsFilter would require a host aggregate for it. A flavor of
    Blazar, which has such an aggregate, keeps it. The request is the copy of this scheduler.
    """
    specs = _extra_specs(spec)
    if lanes.EXTRA_SPEC in specs and specs.get(lanes.BLAZAR_SPEC) == specs[lanes.EXTRA_SPEC]:
        del specs[lanes.BLAZAR_SPEC]


def _hints(spec: Any) -> dict[str, list[str]]:
    return (spec.scheduler_hints if 'scheduler_hints' in spec else None) or {}


def _extra_specs(spec: Any) -> dict[str, str]:
    return spec.flavor.extra_specs if 'extra_specs' in spec.flavor else {}
