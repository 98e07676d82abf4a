# SPDX-License-Identifier: Apache-2.0
"""Read what leases take, and free, of what everybody uses, for :mod:`.forecasting`."""

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from climate_core import exceptions
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
        :raises climate_core.exceptions.BadRequest: that is not known
        """

    def released(self, amounts: Mapping[str, int]) -> Mapping[str, int]:
        """Return what becomes free with a resource of these amounts."""


def demand(room: Room, reservation: model.Reservation) -> RunningServer:
    """Return what a reservation takes, also one of a lease that waits, which holds nothing."""
    return _demand(room, reservation.id, reservation)


def _demand(room: Room, name: str, wanted: model.Reservation | db.ToBeMade) -> RunningServer:
    held = wanted.amounts or wanted.params.get(model.HOLDS) or {}
    return room.demand(name, wanted.params, held)


def types(reservation: model.Reservation) -> set[str]:
    """Return the types of what needs room when the resource of a reservation is made."""
    parts = reservation.parts
    return {reservation.resource_type} if parts is None else {*parts}


def demands(room: Room, reservation: model.Reservation, resource_type: str) -> list[RunningServer]:
    """Return what a reservation takes of the room for a type: itself, or what is in it.

    :raises climate_core.exceptions.BadRequest: what is in it is not known
    """
    if reservation.parts is None:
        return [demand(room, reservation)]
    inside = reservation.parts.get(resource_type, ())
    unknown = next((each[model.UNKNOWN] for each in inside if model.UNKNOWN in each), None)
    if unknown is not None:
        raise exceptions.BadRequest(
            f'The {unknown} is known only when the stack is made, so nobody can tell whether '
            'there will be room: write it into the template or its parameters, or ask for a lease '
            'of the kind immediate.',
            field='template',
        )
    return [room.demand(f'{reservation.id}.{n}', each, {}) for n, each in enumerate(inside)]


def claims(database: Database, resource_type: str, room: Room) -> dict[str, FutureDemand]:
    """Return what leases will take that is not made yet, or not woken again, by their ids."""
    found = {}
    for lease_id, wanted in database.read(db.to_be_made, resource_type).items():
        servers = []
        for number, each in enumerate(wanted):
            # What is not known, as of a flavor that is gone, cannot be counted.
            with contextlib.suppress(exceptions.BadRequest):
                if each.resource_id not in room.places:
                    name = f'{lease_id}.{number}'
                    servers.append(_demand(room, name, each))
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
