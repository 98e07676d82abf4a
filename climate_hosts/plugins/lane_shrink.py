# SPDX-License-Identifier: Apache-2.0
"""Release a part of an active reservation of hosts, if no servers are there.

The lanes of the released part are closed before they are checked to be empty, so that no
server enters hosts that the next lease may get. If the change is rejected, the plugin opens
them again.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from climate_common import words
from climate_core import exceptions
from climate_core.cloud.placement import HostCapacity
from climate_hosts import lane_providers, placement

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Allocation

#: Up to this number hosts are read one by one; for more, all hosts of the pools are read.
_MAX_SINGLE_READS = 10
#: The number of hosts that a rejection names.
_MAX_NAMED = 10


class PiecesInUse(Exception):
    """More pieces are in use than the reservation may keep.

    :ivar count: number of pieces in use
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


def choose_retained(own: Mapping[int, int], used: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how many pieces of each unit a reservation keeps, by the ids of the units.

    Unused units are returned first, and of these the units with the fewest pieces.

    :param own: id of a unit -> number of pieces that it has
    :param used: id of a unit -> number of pieces in use
    :param most: maximum number of pieces that it keeps
    :raises PiecesInUse: more are in use
    """
    in_use = {unit_id: min(pieces, used.get(unit_id, 0)) for unit_id, pieces in own.items()}
    if sum(in_use.values()) > most:
        raise PiecesInUse(sum(in_use.values()))
    left = dict(own)
    too_many = sum(own.values()) - most
    for unit_id in sorted(own, key=lambda each: (in_use[each] > 0, own[each], -each)):
        less = min(own[unit_id] - in_use[unit_id], max(0, too_many))
        left[unit_id] -= less
        too_many -= less
    return left


@dataclasses.dataclass(frozen=True, slots=True)
class ReservedPart:
    """An allocation of a reservation of which pieces may be released.

    :param lane_id: of the lane by which its servers enter
    """

    allocation: 'Allocation'
    lane_id: str

    @property
    def unit_id(self) -> int:
        """Return the id of its unit."""
        return self.allocation.unit_id

    @property
    def name(self) -> str:
        """Return the name of the host."""
        return str(self.allocation.unit['hypervisor_hostname'])


@dataclasses.dataclass(frozen=True, slots=True)
class LaneShrink:
    """Choose and close what one reservation releases.

    :param is_whole: whether its parts are whole hosts
    :param field: the name of their number in a request
    """

    conn: 'connections.Connection'
    parts: Sequence[ReservedPart]
    is_whole: bool
    field: str

    def choose(self, most: int) -> dict[int, int]:
        """Choose which hosts, or which capacity on them, to release.

        :param most: the highest number of hosts, or servers, that stay
        :returns: the number of pieces of each unit that stay
        :raises climate_core.exceptions.InvalidState: more are in use
        """
        used = self._used(self.parts)
        own = {part.unit_id: part.allocation.pieces for part in self.parts}
        try:
            return choose_retained(own, used, most)
        except PiecesInUse as exc:
            names = [part.name for part in self.parts if used[part.unit_id]]
            message = _refusal(_join(names), sum(own.values()), exc.count, self)
            raise exceptions.InvalidState(message, field=self.field) from None

    def close(
        self, left: Mapping[int, int], slots: Callable[['Allocation'], int], reservation_id: str
    ) -> None:
        """Close lanes, or lower their slots, to the pieces that are left.

        :param slots: returns the number of servers that may be in the lane of an allocation
        :raises climate_core.exceptions.InvalidState: more servers entered until then
        """
        closed = [part for part in self.parts if left[part.unit_id] < part.allocation.pieces]
        for part in closed:
            pieces = left[part.unit_id]
            if not pieces:
                lane_providers.drain_lane(self.conn, part.lane_id, reservation_id)
            else:
                smaller = dataclasses.replace(part.allocation, pieces=pieces)
                lane_providers.set_slots(self.conn, part.lane_id, slots(smaller), is_open=True)
        used = self._used(closed)
        came = [part.name for part in closed if used[part.unit_id] > left[part.unit_id]]
        if came:
            raise exceptions.InvalidState(
                f'Servers came to {_join(came)} while that was given back. Ask again: others '
                'may be free.',
                field=self.field,
            )

    def _used(self, parts: Sequence[ReservedPart]) -> dict[int, int]:
        """Return the number of pieces of units in use; one request for each, or for the pools."""
        ids = [part.allocation.unit['provider_id'] for part in parts]
        capacities: dict[str, HostCapacity] = {}
        for provider_id in ids if len(ids) <= _MAX_SINGLE_READS else [None]:
            capacities |= placement.read_host_capacities(self.conn, provider_id)
        found = {}
        for part in parts:
            capacity = capacities.get(part.allocation.unit['provider_id'])
            lane = capacity.lanes.get(part.lane_id) if capacity else None
            if capacity is None or lane is None:
                # The servers of a host that Placement does not have are unknown.
                used = part.allocation.pieces
            elif self.is_whole:
                used = int(lane.used > 0 or any(capacity.used.values()))
            else:
                used = lane.used
            found[part.unit_id] = used
        return found


def _refusal(names: str, own: int, count: int, what: LaneShrink) -> str:
    if what.is_whole:
        free = words.counted(own - count, 'host')
        return (
            f'Of the {words.counted(own, "host")} of the reservation {free} can be given back: '
            f'there are servers on {names}. So {what.field} must be at least {count}; or delete '
            'these servers, or move them together on fewer hosts, and ask again.'
        )
    return (
        f'{words.counted(count, "server")} of the reservation are there, on {names}. So '
        f'{what.field} must be at least {count}; or delete servers, and ask again.'
    )


def _join(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ', '.join(sorted(names)[:_MAX_NAMED]) + (f' and {more} more' if more > 0 else '')
