# SPDX-License-Identifier: Apache-2.0
"""Ask the plugins whether the resources of a request can be reserved. Nothing is written."""

import datetime
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from climate_core import exceptions
from climate_core.db import holders
from climate_core.lease import model, states
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector, within
from climate_core.operations.draft import Item, key
from climate_core.plugins.base import ResourcePlugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext


class Reserver:
    """Make reservations of what a request says, or find them in a lease."""

    def __init__(self, plugins: Mapping[str, ResourcePlugin]) -> None:
        self.plugins = plugins

    def reserve_items(
        self,
        context: 'RequestContext',
        lease_id: str,
        listed: Iterable[Mapping[str, Any]],
        now: datetime.datetime,
        present: model.Lease | None = None,
        errors: ErrorCollector = RAISE_FIRST,
        field: str = 'reservations',
    ) -> tuple[tuple[Item, ...], tuple[model.Reservation, ...]]:
        """Ask the plugins for the reservations of a request.

        :param listed: what the request says of each
        :param field: where that stands; empty if one reservation is the whole request
        :param present: a lease that may have some of them already
        :returns: those that are new, and those that the lease has
        """
        items: dict[holders.Key, Item] = {}
        found: list[model.Reservation] = []
        for place, values in enumerate(listed):
            where = f'{field}[{place}]' if field else ''
            with errors.collected():
                with within(where):
                    new = self._find_or_claim(context, lease_id, values, now, present)
                if present is not None and new in present.reservations:
                    found.append(new)
                elif key(new) in items:
                    raise exceptions.BadRequest(
                        'A resource can be reserved only once.', field='reservations'
                    )
                else:
                    items[key(new)] = Item(new, values, where)
        return tuple(items.values()), tuple(found)

    def _find_or_claim(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        now: datetime.datetime,
        present: model.Lease | None,
    ) -> model.Reservation:
        if present is None:
            return self._claim(context, lease_id, values, now)
        found = self._find_requested(present, values)
        if found is not None:
            return found
        new = self._claim(context, lease_id, values, now, present)
        # The plugin may have found another name for what the lease has.
        return find(present, key(new)) or new

    def _claim(
        self,
        context: 'RequestContext',
        lease_id: str,
        values: Mapping[str, Any],
        now: datetime.datetime,
        present: model.Lease | None = None,
    ) -> model.Reservation:
        """Ask the plugin whether a resource can be reserved.

        :raises climate_core.exceptions.UnknownResourceType: no plugin for it is enabled
        :raises climate_core.exceptions.ClimateError: what the plugin says
        """
        plugin = self.plugins.get(str(values.get('resource_type')))
        if plugin is None:
            known = ', '.join(sorted(self.plugins)) or 'none'
            raise exceptions.UnknownResourceType(
                f'resource_type must be one of the types that are enabled ({known}), not '
                f'{values.get("resource_type")!r}.',
                field='resource_type',
            )
        if present is not None and plugin.owner_only:
            _check_owner(context, present, plugin)
        claimed = plugin.reserve_for(context, lease_id, values)
        return model.new_reservation(
            lease_id,
            plugin.resource_type,
            claimed.resource_id,
            claimed.params,
            now,
            claimed.amounts,
            claimed.parent_id,
        )

    def _find_requested(
        self, lease: model.Lease, values: Mapping[str, Any]
    ) -> model.Reservation | None:
        """Return the reservation with which a lease has what a request asks for already.

        What is awake could not be reserved once more, so this comes before the plugin is asked.

        :raises climate_core.exceptions.ResourceReserved: it is being taken out of the lease
        """
        plugin = self.plugins.get(str(values.get('resource_type')))
        if plugin is None:
            return None
        same = (each for each in lease.live if each.resource_type == plugin.resource_type)
        return _staying(
            next((each for each in same if plugin.matches_request(each, values)), None)
        )


def find(lease: model.Lease, what: holders.Key) -> model.Reservation | None:
    """Return the reservation with which a lease holds a resource.

    :raises climate_core.exceptions.ResourceReserved: it is being taken out of the lease
    """
    return _staying(next((each for each in lease.live if key(each) == what), None))


def _check_owner(context: 'RequestContext', lease: model.Lease, plugin: ResourcePlugin) -> None:
    """Refuse to join a lease that has the rights of another user of the project.

    :raises climate_core.exceptions.BadRequest: it does
    """
    if lease.project_id == context.project_id and lease.user_id != context.user_id:
        raise exceptions.BadRequest(
            f'Lease {lease.id} was created by another user of the project, with whose rights a '
            f'{plugin.title.lower()} of yours cannot be woken: it must join a lease of yours.',
            field='resource_id',
        )


def _staying(found: model.Reservation | None) -> model.Reservation | None:
    if found is not None and found.status == states.ReservationStatus.DELETING:
        raise exceptions.ResourceReserved(
            f'{found.resource_type} {found.resource_id} is being taken out of this lease; it is '
            'free when that is done.',
            field='resource_id',
        )
    return found
