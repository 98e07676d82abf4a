# SPDX-License-Identifier: Apache-2.0
"""Ask the plugins whether the resources of a request can be reserved. Nothing is written."""

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from climate_common import resource_types
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import model, states
from climate_core.lease.errors import RAISE_FIRST, ErrorCollector, within
from climate_core.operations.draft import Item
from climate_core.plugins.base import ResourcePlugin


@dataclasses.dataclass(frozen=True, slots=True)
class Reserver:
    """Make reservations of what a request says, or find them in the lease that is present."""

    plugins: Mapping[str, ResourcePlugin]
    context: RequestContext
    lease_id: str
    now: datetime.datetime
    present: model.Lease | None = None

    def reserve_items(
        self,
        listed: Iterable[Mapping[str, Any]],
        errors: ErrorCollector = RAISE_FIRST,
        field: str = 'reservations',
    ) -> tuple[tuple[Item, ...], tuple[model.Reservation, ...]]:
        """Ask the plugins for the reservations of a request.

        :param listed: what the request says of each
        :param field: where that stands; empty if one reservation is the whole request
        :returns: those that are new, and those that the lease has
        :raises climate_core.exceptions.ClimateError: one cannot be reserved, or is named twice;
            ``errors`` may collect it
        """
        items: dict[model.Key, Item] = {}
        found: list[model.Reservation] = []
        for place, values in enumerate(listed):
            where = f'{field}[{place}]' if field else ''
            with errors.collected():
                with within(where):
                    asked = self._find_or_claim(values, {each.id for each in found})
                for new in asked:
                    if self.present is not None and new in self.present.reservations:
                        found.append(new)
                    elif new.key in items:
                        raise exceptions.BadRequest(
                            'reservations: must name each resource only once.',
                            field='reservations',
                        )
                    else:
                        items[new.key] = Item(new, values, where)
        return tuple(items.values()), tuple(found)

    def _find_or_claim(
        self, values: Mapping[str, Any], matched: Collection[str]
    ) -> Sequence[model.Reservation]:
        """Return the reservations that the lease has already, or those that the plugin grants.

        Of what the calendar promises, or is made, one request may want the same several times.

        :param matched: the ids of reservations of the lease that the request has named already

        What is awake could not be reserved once more, so the lease comes before the plugin.
        """
        plugin = self.plugins.get(str(values.get('resource_type')))
        if plugin is None:
            known = ', '.join(resource_types.names(self.plugins)) or 'none'
            raise exceptions.UnknownResourceType(
                f'resource_type must be one of the types that are enabled ({known}), not '
                f'{values.get("resource_type")!r}.',
                field='resource_type',
            )
        for each in self._held():
            same_type = each.resource_type == plugin.resource_type
            again = (each.unit_kind or each.group) and each.id in matched
            if same_type and not again and plugin.matches_request(each, values):
                _staying(each)
                # What a server of a group is asked for by its own id joins as one.
                if each.group is None or 'resource_id' in values:
                    return [each]
                return [one for one in self._held() if one.group == each.group]
        if plugin.owner_only:
            self._check_owner(plugin)
        claimed = plugin.reserve_for(self.context, self.lease_id, values)
        new = [
            each.to_reservation(self.lease_id, plugin.resource_type, self.now)
            for each in (claimed, *claimed.others)
        ]
        # The plugin may have found another name for what the lease has.
        return [find(self._held(), each.key) or each for each in new]

    def _held(self) -> tuple[model.Reservation, ...]:
        return () if self.present is None else self.present.live

    def _check_owner(self, plugin: ResourcePlugin) -> None:
        """Refuse to join a lease that has the rights of another user of the project."""
        lease, context = self.present, self.context
        if lease is None or lease.project_id != context.project_id:
            return
        if lease.user_id != context.user_id:
            raise exceptions.BadRequest(
                f'Lease {lease.id} was created by another user of the project, with whose rights '
                f'a {plugin.title.lower()} of yours cannot be woken: it must join a lease of '
                'yours.',
                field='resource_id',
            )


def find(held: Iterable[model.Reservation], what: model.Key) -> model.Reservation | None:
    """Return the reservation of a resource that is held, unless it is being taken out."""
    return next((_staying(each) for each in held if each.key == what), None)


def _staying(found: model.Reservation) -> model.Reservation:
    if found.status == states.ReservationStatus.DELETING:
        raise exceptions.ResourceReserved(
            f'{found.resource_type} {found.resource_id} is being taken out of this lease; it is '
            'free when that is done.',
            field='resource_id',
        )
    return found
