# SPDX-License-Identifier: Apache-2.0
"""Write the notification of the usage of a lease, for a system that rates it."""

from collections.abc import Sequence
from typing import Any, Final

from climate_common import dates, resource_types
from climate_core import notifications
from climate_core.lease import usage

TYPE: Final = 'lease.usage'


def payload(uses: Sequence[usage.ReservationUse], period: usage.Span) -> dict[str, Any]:
    """Write what one lease had in a period as JSON types.

    :param uses: its reservations, at least one
    """
    first, total = uses[0], usage.of_lease(uses, period)
    return {
        'schema_version': notifications.VERSION,
        'lease_id': first.lease_id,
        'name': first.lease_name,
        'project_id': first.project_id,
        'user_id': first.user_id,
        'begin': dates.serialize(period.begin),
        'end': dates.serialize(period.end),
        'reserved': usage.rounded(total.reserved),
        'used': usage.rounded(total.used),
        'preempted': usage.rounded(total.preempted),
        'resources': [
            {
                'reservation_id': each.id,
                'resource_type': resource_types.api_name(each.resource_type),
                'resource_id': each.resource_id,
                'units': dict(each.amounts),
                'reserved': _span(each.reserved(period)),
                'used': _span(each.used(period)),
                'preempted': _span(each.preempted(period)),
            }
            for each in uses
        ],
    }


def _span(span: usage.Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    begin, end = dates.serialize(span.begin), dates.serialize(span.end)
    return {'begin': begin, 'end': end, 'hours': round(span.hours, 6)}
