# SPDX-License-Identifier: Apache-2.0
"""Serialize leases as the API shows them, in the format that clients of Blazar read. Pure.

So one answer has two formats of time: dates carry microseconds and a ``T``, ``created_at`` and
``updated_at`` have neither. All are UTC.
"""

import importlib.metadata
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from climate_common import dates
from climate_core.lease import events, model, serialize, webhook
from climate_core.lease.listed import ListedEvent, ListedLease, ListedReservation, Time

#: Each release may show a lease in another way. An API asks a manager of the same one to show it.
RELEASE: Final = importlib.metadata.version('openstack-climate')

#: How long a time is without its zone.
_SECONDS: Final = len('YYYY-MM-DD HH:MM:SS')

#: The answer of a manager to an API that asks for a lease: a new one as the API shows it; or only
#: its id, by which the API reads it, if it was there before, waits, or that API shows it in
#: another way. RPC of releases of two ages carries both.
CreatedLease = dict[str, Any] | str


def lease(
    one: model.Lease | ListedLease, position: int | None = None, viewer_id: str | None = None
) -> dict[str, Any]:
    """Return a lease; the owner's trust and the secret of the webhook are never shown.

    :param position: its place in the queue, if it waits
    :param viewer_id: the user who reads it: only the owner reads the whole URL of the webhook
    """
    early = one.early_ends
    return {
        **serialize.lease(one),
        'before_end_date': dates.serialize(one.before_end_date),
        'kind': str(one.kind),
        'retries_left': one.retries_left,
        'priority': one.priority,
        'preemptible': one.preemptible,
        'next_retry_at': dates.serialize(one.next_retry_at),
        'queue_position': position,
        'start_policy': str(one.start_policy),
        # What the release before this one wrote has no list.
        'before_start': list(one.before_start or ()),
        'webhook': _webhook(one.webhook, viewer_id == one.user_id),
        'generation': one.generation,
        'created_at': stamp(one.created_at),
        'updated_at': stamp(one.updated_at),
        'reservations': [_of_lease(each, early) for each in one.reservations],
        'events': [event(each) for each in events.visible(one)],
    }


def reservation(one: model.Reservation, of: model.Lease | None = None) -> dict[str, Any]:
    """Return a reservation; what its plugin keeps never replaces other fields.

    :param of: its lease: a reservation that ends before that has an end date of its own
    """
    return _of_lease(one, {} if of is None else of.early_ends)


def _of_lease(
    one: model.Reservation | ListedReservation, early: Mapping[str, Time]
) -> dict[str, Any]:
    shown = {
        **serialize.reservation(one),
        'lease_id': one.lease_id,
        'created_at': stamp(one.created_at),
        'updated_at': stamp(one.updated_at),
    }
    if one.id in early:
        shown['end_date'] = dates.serialize(early[one.id])
    return shown


def event(one: model.Event | ListedEvent) -> dict[str, Any]:
    """Return an event, without the engine's claims and attempts."""
    return {
        **serialize.event(one),
        'lease_id': one.lease_id,
        'created_at': stamp(one.created_at),
        'updated_at': stamp(one.updated_at),
    }


def _webhook(one: Mapping[str, Any] | None, is_owner: bool) -> dict[str, Any] | None:
    if one is None:
        return None
    url = one['url'] if is_owner else webhook.origin(one['url'])
    return {'url': url, 'events': list(one['events'])}


def stamp(time: Time | None) -> str | None:
    """Return a time in seconds, without a zone."""
    if time is None:
        return None
    if isinstance(time, str):
        return time[:_SECONDS]
    # As in dates.serialize.
    utc = time if time.tzinfo is UTC else time.astimezone(UTC)
    return utc.isoformat(' ', 'seconds')[:_SECONDS]
