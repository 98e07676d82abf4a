# SPDX-License-Identifier: Apache-2.0
"""Change what the plugin of a reservation lets change. Pure."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from climate_core import exceptions
from climate_core.lease import states
from climate_core.lease.changes import wait
from climate_core.lease.model import Lease
from climate_core.lease.results import Change

_ENDED = (states.ReservationStatus.DELETING, states.ReservationStatus.DELETED)


def apply(lease: Lease, reservation_id: str, params: Mapping[str, Any], now: datetime) -> Change:
    """Return a lease one of whose reservations has other params.

    :param params: only what the plugin lets change
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    :raises climate_core.exceptions.InvalidState: its end has begun
    """
    reservation = lease.get_reservation(reservation_id)
    new = {**reservation.params, **params}
    if reservation.params == new:
        return Change(lease)
    if lease.status in states.ENDING or reservation.status in _ENDED:
        raise exceptions.InvalidState(
            f'The end of reservation {reservation_id} has begun: it can only be changed before.'
        )
    wait.check_not_given_up(lease)
    changed = dataclasses.replace(reservation, params=new, updated_at=now)
    after = lease.with_reservations(changed)
    if lease.status == states.LeaseStatus.WAITING:
        after = wait.try_now(after, now)
    return Change(after, {'lease.update': None})
