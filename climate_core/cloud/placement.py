# SPDX-License-Identifier: Apache-2.0
"""The calls to Placement about the capacity of hosts.

Every function takes the connection whose rights it uses, which must be those of an administrator
or of a service, and raises the exceptions of :mod:`climate_core.cloud.errors`. Facts: Placement
API reference, microversion 1.39.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from climate_common import lanes
from climate_core.cloud.connections import Connection
from climate_core.cloud.services import Service

#: Since 1.26 all of an inventory may be reserved; since 1.39 ``member_of`` takes several.
PLACEMENT = Service('Placement', 'placement', microversion='1.39')


@dataclasses.dataclass(frozen=True, slots=True)
class LaneSlots:
    """The slots of a lane: the number in all, 0 for a closed lane, and the number in use."""

    slots: int
    used: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostCapacity:
    """The capacity of a host in Placement.

    :param capacity: by resource class: the amount in all, without its lanes
    :param used: by resource class: the claimed amount
    :param lanes: its lanes by their ids
    :param traits: traits of all its providers
    :param root_traits: traits of its root provider
    :param divided: the resource classes of which several of its providers have inventories
    :param provider_ids: ids of all its providers but the lanes
    """

    provider_id: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    lanes: Mapping[str, LaneSlots]
    traits: frozenset[str]
    root_traits: frozenset[str]
    divided: frozenset[str]
    provider_ids: frozenset[str] = frozenset()

    @property
    def slots_used(self) -> int:
        """Return the number of slots of its lanes that are in use."""
        return sum(lane.used for lane in self.lanes.values())

    @property
    def has_only_ordinary(self) -> bool:
        """Return whether it has servers and none of them has a slot of a lane.

        It does not see ordinary servers beside one with a slot: :func:`list_ordinary` finds them.
        """
        return any(self.used.values()) and not self.slots_used

    @property
    def open_lanes(self) -> frozenset[str]:
        """Return the ids of the open lanes, including full ones."""
        return frozenset(lane_id for lane_id, lane in self.lanes.items() if lane.slots)


def read_trees(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, HostCapacity]:
    trees: dict[str, dict[str, Any]] = {}
    for provider_id, row in summaries.items():
        trees.setdefault(row['root_provider_uuid'], {})[provider_id] = row
    return {root: _read_capacity(root, tree) for root, tree in trees.items()}


def _read_capacity(root: str, tree: Mapping[str, Mapping[str, Any]]) -> HostCapacity:
    capacity: dict[str, int] = {}
    used: dict[str, int] = {}
    traits: set[str] = set()
    lane_slots: dict[str, LaneSlots] = {}
    divided: set[str] = set()
    for provider_id, provider in tree.items():
        if lanes.HOST in provider['resources']:
            slot = provider['resources'][lanes.SLOT]
            lane_slots[provider_id] = LaneSlots(slot['capacity'], slot['used'])
            continue
        traits |= set(provider['traits'])
        for name, amounts in provider['resources'].items():
            if name in capacity:
                divided.add(name)
            capacity[name] = capacity.get(name, 0) + amounts['capacity']
            used[name] = used.get(name, 0) + amounts['used']
    root_traits = tree[root]['traits'] if root in tree else ()
    return HostCapacity(
        root,
        capacity,
        used,
        lane_slots,
        frozenset(traits),
        root_traits=frozenset(root_traits),
        divided=frozenset(divided),
        provider_ids=frozenset(tree.keys() - lane_slots.keys()),
    )


def read_ordinary_capacities(conn: Connection) -> dict[str, HostCapacity]:
    """Return the hosts that accept ordinary servers, by the id of the root provider; one call."""
    query = {
        'resources': 'MEMORY_MB:1',
        'member_of': f'!in:{lanes.POOL}',
        'required': '!COMPUTE_STATUS_DISABLED',
    }
    summaries = PLACEMENT.read(conn, '/allocation_candidates', 'provider_summaries', query)
    return read_trees(summaries)


def list_ordinary_roots(conn: Connection) -> list[str]:
    """List the root providers of :func:`read_ordinary_capacities`, and full ones; one call.

    A full provider is in no candidate, and so in no summary. Facts: Placement API reference,
    ``GET /resource_providers``, ``required`` with ``!`` since 1.22.
    """
    query = {'member_of': f'!in:{lanes.POOL}', 'required': '!COMPUTE_STATUS_DISABLED'}
    rows = PLACEMENT.read(conn, '/resource_providers', 'resource_providers', query)
    return [row['uuid'] for row in rows if row['uuid'] == row['root_provider_uuid']]


def create_names(conn: Connection) -> None:
    """Create the resource classes and the trait of lanes."""
    for name in (lanes.SLOT, lanes.HOST):
        PLACEMENT.request(conn, 'PUT', f'/resource_classes/{name}')
    PLACEMENT.request(conn, 'PUT', f'/traits/{lanes.TRAIT}')
