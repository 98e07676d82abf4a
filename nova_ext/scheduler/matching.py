# SPDX-License-Identifier: Apache-2.0
"""Find lanes with open matching for servers that name no reservation.

Placement knows which projects have such lanes, so the lease service is not asked. What is asked
of Placement, for a server that :func:`nova_ext.scheduler.requests.is_matched`:

1. are there such lanes at all? Once in some seconds;
2. does its project have any? Once in some seconds, and only if there are;
3. is there room in them now? The request for candidates that nova would make, for this server.

The first two may be answered by what was seen before: a server may then be outside although there
is a lane, or be asked for in vain. The third is asked now, and the claim judges: no server enters
a lane that is not for it. Of two servers that see the last slot one may find no host.
"""

from collections.abc import Callable, Sequence
from typing import Any

from nova.scheduler import utils
from nova.scheduler.client import report

from climate_common import lanes
from nova_ext.providers import Recent
from nova_ext.scheduler import requests

RequestFilter = Callable[[Any, Any], bool]

#: How old the knowledge may be that there are no lanes, in seconds.
RECENT_SECONDS = 10
recent = Recent(RECENT_SECONDS)


def find(context: Any, spec: Any, request_filters: Sequence[RequestFilter]) -> list[str]:
    """Return the aggregates of lanes that have room for what is requested, or nothing.

    :param request_filters: nova's own, which its request will go through
    """
    if not recent.exist(context, [lanes.reservation_aggregate(lanes.OPEN)]):
        return []
    members = requests.aggregates(lanes.OPEN, spec)
    if not recent.exist(context, members) or not _have_room(
        context, spec, members, request_filters
    ):
        return []
    return members


def _have_room(
    context: Any, spec: Any, members: list[str], request_filters: Sequence[RequestFilter]
) -> bool:
    """Return whether all servers of the request have room in these lanes.

    A copy of the request goes through nova's own request filters, so that zones, disabled
    hosts and what images need are taken into account.
    """
    copy = spec.obj_clone()
    requests.require_lane(copy, members)
    for each in request_filters:
        each(context, copy)
    # No host is named, so nothing is asked of the HostManager.
    resources = utils.resources_from_request_spec(context, copy, None)
    found = report.report_client_singleton().get_allocation_candidates(context, resources)
    candidates, summaries, _ = found or (None, None, None)
    return sum(_room(each, summaries) for each in candidates or ()) >= spec.num_instances


def _room(candidate: Any, summaries: Any) -> int:
    """Return how many servers fit into a candidate for one."""
    return min(
        (each['capacity'] - each['used']) // amount
        for provider, allocation in candidate['allocations'].items()
        for name, amount in allocation['resources'].items()
        for each in [summaries[provider]['resources'][name]]
    )
