# SPDX-License-Identifier: Apache-2.0
"""Tell what earlier leases left on a host of which a lane is to be opened. Pure."""

from collections.abc import Mapping
from typing import Final

from climate_core.cloud import placement
from climate_core.lease import unit_properties
from climate_hosts.cloud import lane_providers

#: The reason of a lease whose host takes no servers yet: all of a node is reserved as long as
#: Ironic cleans it, or has it in maintenance. In each of these texts ``{}`` stands for the host.
WITHHELD: Final = 'Host {} is not free yet: Nova withholds all of it, as while a node is cleaned.'
#: The reason of a lease that waits for another one.
OPEN: Final = (
    'Host {} is still open to an earlier lease. If that is over for long, an operator closes it '
    'by "climate-manage repair --yes".'
)
IN_USE: Final = 'Host {} still has servers of an earlier lease.'


def find(
    host: placement.HostCapacity, lane_id: str, pieces: int, piece: Mapping[str, int] | None
) -> str | None:
    """Return what is in the way; None if the lane can be opened.

    A whole host must be empty and closed. One that is shared must not be open as a whole, and have
    the room that is promised if leases that are over still have servers there.

    :param pieces: how many pieces of the host are promised to the reservation
    :param piece: what one of them takes; None: the whole host
    """
    if not any(host.capacity.values()):
        return WITHHELD
    others = [each for key, each in host.lanes.items() if key != lane_id]
    if piece is None:
        in_use, is_open = any(host.used.values()), any(each.slots for each in others)
    else:
        free = {name: host.capacity[name] - used for name, used in host.used.items()}
        room = unit_properties.unit_amounts(free)
        short = any(room[name] < each * pieces for name, each in piece.items())
        in_use = short and any(each.used and not each.slots for each in others)
        is_open = any(each.slots == lane_providers.MAX_SLOTS for each in others)
    if in_use or host.lanes[lane_id].used:
        return IN_USE
    return OPEN if is_open else None
