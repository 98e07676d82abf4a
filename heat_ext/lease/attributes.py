# SPDX-License-Identifier: Apache-2.0
"""The attributes of ``OS::Climate::Lease``."""

from typing import Any, Final

from heat.engine import attributes

from climate_common import dates
from climateclient import models

_A = attributes.Schema


def _attribute(description: str, kind: str | None = None) -> attributes.Schema:
    # The lease service changes it, so heat must not answer from its cache.
    return _A(description, type=kind or _A.STRING, cache_mode=_A.CACHE_NONE)


SCHEMA: Final = {
    'name': _attribute('The name of the lease.'),
    'status': _attribute(
        'WAITING, IN_PROGRESS, PENDING, STARTING, ACTIVE, TERMINATING, TERMINATED, DELETING, '
        'ERROR or TIMEDOUT.'
    ),
    'status_reason': _attribute('Why it has this status; empty if there is no reason.'),
    'kind': _attribute('immediate, scheduled, retry or best_effort.'),
    'priority': _attribute('Those with a higher one wait shorter.', _A.INTEGER),
    'preemptible': _attribute('Whether other leases may take what it has.', _A.BOOLEAN),
    'start_date': _attribute('When it starts, in ISO 8601.'),
    'end_date': _attribute('When it ends, in ISO 8601.'),
    'before_end_date': _attribute('When the notification before the end is sent, in ISO 8601.'),
    'start_policy': _attribute('auto or manual.'),
    'degraded': _attribute('Whether it has lost some of its resources.', _A.BOOLEAN),
    'reservations': _attribute('Its reservations, with the status of each.', _A.LIST),
    'events': _attribute('Its events, in the order of time.', _A.LIST),
    'project_id': _attribute('The project that it belongs to.'),
    'user_id': _attribute('The user who created it.'),
    'created_at': _attribute('When it was created, in ISO 8601.'),
    'updated_at': _attribute('When it was last changed, in ISO 8601.'),
}


def to_values(lease: models.Lease) -> dict[str, Any]:
    """Return the attributes of a lease, of JSON types only."""
    return {
        'id': lease.id,
        'name': lease.name,
        'status': lease.status,
        'status_reason': lease.status_reason,
        'kind': lease.kind,
        'priority': lease.priority,
        'preemptible': lease.preemptible,
        'start_date': dates.isoformat(lease.start_date),
        'end_date': dates.isoformat(lease.end_date),
        'before_end_date': dates.isoformat(lease.before_end_date),
        'start_policy': lease.start_policy,
        'before_start': list(lease.before_start),
        'degraded': lease.degraded,
        'reservations': [
            {
                **each.params,
                'id': each.id,
                'resource_type': each.resource_type,
                'resource_id': each.resource_id,
                'status': each.status,
                'status_reason': each.status_reason,
            }
            for each in lease.reservations
        ],
        'events': [
            {
                'id': each.id,
                'event_type': each.event_type,
                'time': dates.isoformat(each.time),
                'status': each.status,
                'status_reason': each.status_reason,
            }
            for each in lease.events
        ],
        'project_id': lease.project_id,
        'user_id': lease.user_id,
        'created_at': dates.isoformat(lease.created_at),
        'updated_at': dates.isoformat(lease.updated_at),
    }
