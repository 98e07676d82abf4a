# SPDX-License-Identifier: Apache-2.0
"""Ask Placement for a lane of a reservation, or for hosts outside of the pool.

One row in nova's table of request filters (nova/scheduler/request_filter.py, ALL_REQUEST_FILTERS)
adds to the one request for candidates that nova-scheduler makes anyway. So Placement judges who
gets in, forced hosts included, and again at the claim: no cache has to be kept fresh.
"""

from typing import Any

from nova.scheduler import request_filter

from climate_common import lanes
from nova_ext import providers, seams
from nova_ext.scheduler import matching, requests


def install() -> None:
    """Add the row to nova's table; a second time does nothing.

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
    members = _lanes(context, spec)
    requests.drop_blazar_spec(spec)
    if members:
        requests.require_lane(spec, members)
    else:
        requests.forbid_pool(spec)
    return True


def _lanes(context: Any, spec: Any) -> list[str]:
    """Return the aggregates of lanes of which the server needs one; none if it is ordinary."""
    reservation_id = requests.reservation(spec)
    if reservation_id is None:
        if not requests.is_matched(spec):
            return []
        others = [each for each in request_filter.ALL_REQUEST_FILTERS if each is not isolate_pool]
        return matching.find(context, spec, others)
    if requests.is_move(spec) and _is_over(context, reservation_id):
        return []
    return requests.aggregates(reservation_id, spec)


def _is_over(context: Any, reservation_id: str) -> bool:
    """Return whether a reservation has no lane any more; its servers are then as any other.

    A Placement that does not answer cannot say so: the request for candidates will show.
    """
    return providers.exist(context, [lanes.reservation_aggregate(reservation_id)]) is False
