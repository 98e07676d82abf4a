# SPDX-License-Identifier: Apache-2.0
"""Ask Placement for a lane of a reservation, or for hosts outside of the pool.

One row in nova's table of request filters (nova/scheduler/request_filter.py, ALL_REQUEST_FILTERS)
adds to the one request for candidates that nova-scheduler makes anyway. So Placement judges who
gets in, forced hosts included, and again at the claim: no cache has to be kept fresh.
"""

import logging
from typing import Any

import nova.conf
from keystoneauth1 import exceptions as ks_exceptions
from nova import exception, objects
from nova.scheduler import request_filter
from nova.scheduler.client import report

from climate_common import lanes
from climateclient.extension import hints
from nova_ext import seams

LOG = logging.getLogger(__name__)

#: The suffix of the request group (Placement API, "granular resource requests").
GROUP = '_climate'
#: The first microversion of Placement whose answers nova reads likewise (report.py).
_MICROVERSION = '1.18'


def install() -> None:
    """Put the row into nova's table; a second time does nothing.

    It is the first row: ``isolate_aggregates`` has to see the trait that this one requires.

    :raises climateclient.extension.errors.Incompatible: an extension point is not as expected;
        nothing was changed
    """
    seams.check(seams.SCHEDULER)
    if isolate_pool not in request_filter.ALL_REQUEST_FILTERS:
        request_filter.ALL_REQUEST_FILTERS.insert(0, isolate_pool)


@request_filter.trace_request_filter
def isolate_pool(context: Any, spec: Any) -> bool:
    """Require a lane of the reservation that the request names; forbid the pool to others.

    :param spec: the RequestSpec of a boot or a move, which is changed; nova asks nothing about a
        rebuild, which stays where it is
    :returns: True: nova logs that the row was used
    :raises nova.exception.RequestFilterFailed: the flavor names a reservation by no uuid
    """
    reservation_id = _reservation(spec)
    if reservation_id is None or (_is_move(spec) and _is_over(context, reservation_id)):
        _forbid_pool(spec)
    else:
        _require_lane(spec, _aggregates(reservation_id, spec))
    return True


def _reservation(spec: Any) -> str | None:
    """Return the reservation that the hints name, or else the flavor."""
    given = spec.scheduler_hints if 'scheduler_hints' in spec else None
    try:
        named = hints.reservation_of_hosts(given or {})
        return named or hints.reservation_of_hosts(_extra_specs(spec), lanes.EXTRA_SPEC)
    except hints.BadHint as error:
        raise exception.RequestFilterFailed(reason=str(error)) from error


def _aggregates(reservation_id: str, spec: Any) -> list[str]:
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


def _extra_specs(spec: Any) -> dict[str, str]:
    return spec.flavor.extra_specs if 'extra_specs' in spec.flavor else {}


def _is_move(spec: Any) -> bool:
    """Return whether the server exists: nova names its cell, or lets it leave that.

    See nova/conductor/manager.py, _restrict_request_spec_to_cell, and tasks/migrate.py; nothing
    sets these for a boot.
    """
    destination = spec.requested_destination
    if not destination:
        return False
    return destination.allow_cross_cell_move or bool('cell' in destination and destination.cell)


def _is_over(context: Any, reservation_id: str) -> bool:
    """Return whether a reservation has no lane any more; its servers are then as any other.

    A Placement that does not answer cannot say so: the request for candidates will show.
    """
    url = f'/resource_providers?member_of={lanes.reservation_aggregate(reservation_id)}'
    client = report.report_client_singleton()
    try:
        answer = client.get(url, version=_MICROVERSION, global_request_id=context.global_id)
    except ks_exceptions.ClientException as error:
        LOG.warning('Placement cannot be asked for the lanes of a reservation: %s', error)
        return False
    return answer.status_code == 200 and not answer.json()['resource_providers']


def _require_lane(spec: Any, aggregates: list[str]) -> None:
    # The belt: nova's aggregates that are isolated by the trait let only these requests in.
    belt = nova.conf.CONF.scheduler.enable_isolated_aggregate_filtering
    group = objects.RequestGroup(
        requester_id=GROUP,
        resources={lanes.SLOT: 1},
        aggregates=[aggregates],
        required_traits={lanes.TRAIT} if belt else set(),
    )
    spec.requested_resources = [*(spec.requested_resources or []), group]


def _forbid_pool(spec: Any) -> None:
    if not spec.requested_destination:
        spec.requested_destination = objects.Destination()
    spec.requested_destination.append_forbidden_aggregates({lanes.POOL})
