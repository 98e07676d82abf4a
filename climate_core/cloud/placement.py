# SPDX-License-Identifier: Apache-2.0
"""The calls to Placement about the capacity of hosts.

Every function takes the connection whose rights it uses, which must be those of an administrator
or of a service, and raises the exceptions of :mod:`climate_core.cloud.errors`. Facts: Placement
API reference, microversion 1.39.
"""

import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from oslo_utils import uuidutils

from climate_common import lanes
from climate_core.cloud import errors
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

        It does not see ordinary servers beside one with a slot: :func:`list_ordinary_roots` finds
        them.
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


#: The name of the provider, by which the next check finds it.
_CHECK_NAME: Final = 'climate-check'
_SLOTS: Final = 2
_CLAIMS: Final = 8
#: A single round hardly ever passes if Placement has the bug.
_ROUNDS: Final = 10


def overbooks(conn: Connection) -> bool:
    """Return whether Placement overbooks an inventory under concurrent claims.

    Placement 16 repeats a claim that lost a race inside of one transaction, without a rollback,
    and takes the rows of its own failed try for the previous allocations of its consumer
    (placement/handlers/allocation.py, placement/objects/allocation.py). With ``[placement]
    allocation_conflict_retry_count = 1`` in placement.conf it answers 409 instead, and Nova
    retries. The capacity of reservations is only as firm as that.

    This claims slots of a dedicated provider concurrently and counts the accepted claims.
    The provider is deleted afterwards, or by the next check if this one is killed; hosts and
    servers are not affected. Only one check may run at a time: all have the same provider.

    :param conn: with the rights of the service
    """
    create_names(conn)
    _remove_check(conn)
    provider_id = uuidutils.generate_uuid()
    try:
        body = {'name': _CHECK_NAME, 'uuid': provider_id}
        PLACEMENT.request(conn, 'POST', '/resource_providers', body)
        slots = {lanes.SLOT: {'total': _SLOTS, 'max_unit': 1}}
        PLACEMENT.request(
            conn,
            'PUT',
            f'/resource_providers/{provider_id}/inventories',
            {'resource_provider_generation': 0, 'inventories': slots},
        )
        return any(_count_accepted(conn, provider_id) > _SLOTS for _ in range(_ROUNDS))
    finally:
        _remove_check(conn)


def _remove_check(conn: Connection) -> None:
    """Delete the provider of a check with its claims, also of an interrupted check."""
    query = {'name': _CHECK_NAME}
    for provider in PLACEMENT.read(conn, '/resource_providers', 'resource_providers', query):
        path = f'/resource_providers/{provider["uuid"]}'
        with contextlib.suppress(errors.Gone):
            for consumer in PLACEMENT.read(conn, f'{path}/allocations', 'allocations'):
                PLACEMENT.request(conn, 'DELETE', f'/allocations/{consumer}')
            PLACEMENT.request(conn, 'DELETE', path)


def _count_accepted(conn: Connection, provider_id: str) -> int:
    """Return the number of accepted claims of a round, and release them."""
    consumers = [uuidutils.generate_uuid() for _ in range(_CLAIMS)]
    try:
        with concurrent.futures.ThreadPoolExecutor(_CLAIMS) as pool:
            return sum(pool.map(lambda consumer: _claim(conn, provider_id, consumer), consumers))
    finally:
        for consumer in consumers:
            with contextlib.suppress(errors.Gone):
                PLACEMENT.request(conn, 'DELETE', f'/allocations/{consumer}')


def _claim(conn: Connection, provider_id: str, consumer_id: str) -> bool:
    body = {
        'allocations': {provider_id: {'resources': {lanes.SLOT: 1}}},
        'project_id': 'climate-check',
        'user_id': 'climate-check',
        'consumer_generation': None,
        'consumer_type': 'CLIMATE_CHECK',
    }
    response = PLACEMENT.send(conn, 'PUT', f'/allocations/{consumer_id}', body)
    if response.status_code != 409:
        errors.check_response(response, PLACEMENT.name)
    return bool(response.status_code == 204)
