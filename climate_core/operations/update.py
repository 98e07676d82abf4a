# SPDX-License-Identifier: Apache-2.0
"""Read what a user changes of a reservation, and count what it holds then. Pure."""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import model, states
from climate_core.lease.results import Change
from climate_core.operations.draft import check_owner
from climate_core.plugins.base import ResourcePlugin


def normalize_values(
    plugins: Mapping[str, ResourcePlugin],
    context: RequestContext,
    lease: model.Lease,
    reservation_id: str,
    values: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return what is asked of a reservation as its plugin keeps it, without the ``id``.

    :raises climate_core.exceptions.BadRequest: its plugin does not let it change
    :raises climate_core.exceptions.Forbidden: only the owner of the lease may change it
    :raises climate_core.exceptions.InvalidState: its plugin let it change before the start
    :raises climate_core.exceptions.ReservationNotFound: the lease does not have it
    """
    reservation = lease.get_reservation(reservation_id)
    plugin = plugins.get(reservation.resource_type)
    changeable = plugin.changeable if plugin is not None else ()
    for field in sorted(values.keys() - {'id', *changeable}):
        raise exceptions.BadRequest(
            f'{field} of this reservation cannot be changed; these can be: '
            f'{", ".join(changeable) or "none"}.',
            field=field,
        )
    asked = {name: each for name, each in values.items() if name != 'id'}
    if plugin is None:
        return asked
    kept = plugin.normalize(asked)
    for field in sorted(kept):
        if kept[field] != reservation.params.get(field):
            check_owner(plugin, lease, context, field)
    if lease.status not in {states.LeaseStatus.PENDING, *states.UNGRANTED}:
        _check_until_start(plugin, reservation, kept)
    return kept


def _check_until_start(
    plugin: ResourcePlugin, reservation: model.Reservation, kept: Mapping[str, Any]
) -> None:
    """Refuse a change of a lease that has started to something that its start has used."""
    for field in sorted(kept.keys() & plugin.until_start.keys()):
        if kept[field] != reservation.params.get(field):
            raise exceptions.InvalidState(
                f'{field}: can be changed only before the start of the lease. '
                f'{plugin.until_start[field]}',
                field=field,
            )


def recount_amounts(
    plugins: Mapping[str, ResourcePlugin],
    before: model.Lease,
    change: Change,
    now: datetime.datetime,
) -> Change:
    """Return a change with what its reservations hold by their new params.

    One that holds nothing, as it waits or could not be made, still holds nothing.
    """
    old = {each.id: each for each in before.reservations}
    counted = []
    for each in change.lease.live:
        plugin, was = plugins.get(each.resource_type), old.get(each.id, each)
        if plugin is None or not was.amounts or each.params == was.params:
            continue
        amounts = plugin.amounts(each.params)
        if amounts is not None:
            counted.append(dataclasses.replace(each, amounts=amounts, updated_at=now))
    return dataclasses.replace(change, lease=change.lease.with_reservations(*counted))
