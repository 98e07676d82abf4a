# SPDX-License-Identifier: Apache-2.0
"""Read what leases take, and free, of what everybody uses, for :mod:`.forecasting`."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from climate_core.calendar import moments
from climate_core.db import reservations as db
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.plugins.common_pool.emptying import RunningServer, TargetHost
from climate_core.plugins.common_pool.forecast import FutureDemand, Nouns, Release

#: How long what gives way is thought to take to leave its host.
LEAVING: Final = datetime.timedelta(minutes=5)
#: End actions after which a host has what a server had of it.
_FREES: Final = frozenset({'delete', 'shelve', 'create_image'})


class Room(Protocol):
    """The room that is free now for the resources of one type."""

    @property
    def nouns(self) -> Nouns:
        """Return how users are told of it."""

    @property
    def hosts(self) -> Sequence[TargetHost]:
        """Return what has room; for all that was demanded."""

    @property
    def places(self) -> Mapping[str, str]:
        """Return where each resource is that is there, by its id, as far as that is known."""

    def demand(
        self, name: str, params: Mapping[str, object], amounts: Mapping[str, int]
    ) -> RunningServer:
        """Return what is taken by a resource that is to be made for a reservation.

        :param name: its id in the forecast
        """

    def released(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """Return what becomes free with a resource of these amounts."""


def demand(room: Room, reservation: model.Reservation) -> RunningServer:
    """Return what a reservation takes, also one of a lease that waits, which holds nothing."""
    held = reservation.amounts or reservation.params.get(model.HOLDS) or {}
    return room.demand(reservation.id, reservation.params, held)


def claims(database: Database, resource_type: str, room: Room) -> dict[str, FutureDemand]:
    """Return what leases will take that is not made yet, or not woken again, by their ids."""
    found = {}
    for lease_id, wanted in database.read(db.to_be_made, resource_type).items():
        servers = [
            room.demand(f'{lease_id}.{number}', each.params, each.amounts)
            for number, each in enumerate(wanted)
            if each.resource_id not in room.places
        ]
        if servers:
            start, end = moments.moment(wanted[0].start), moments.moment(wanted[0].end)
            found[lease_id] = FutureDemand(start=start, end=end, servers=servers)
    return found


def releases(database: Database, resource_type: str, room: Room) -> list[Release]:
    """Return what leases free: at their ends, or when they give way to another one."""
    places = room.places
    if not places:
        return []
    return [
        Release(
            at=moments.moment(end.at if end.given_up_at is None else end.given_up_at + LEAVING),
            host=places[end.resource_id],
            amounts=room.released(end.amounts),
        )
        for end in database.read(db.ends, resource_type)
        if end.resource_id in places
        if end.given_up_at is not None or end.on_end in _FREES
    ]
