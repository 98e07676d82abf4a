# SPDX-License-Identifier: Apache-2.0
"""The calls to Placement about lanes, the child providers by which servers enter hosts.

See :mod:`climate_common.lanes`. Servers of one reservation take the slots of a lane;
while all of them are reserved the lane is closed. The functions have the contract of those of
:mod:`climate_core.cloud.placement`.
"""

import dataclasses
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import PLACEMENT
from climate_hosts import placement
from climate_hosts.placement import GENERATION

#: Sets aggregates without a generation, which each claim of a server changes.
_WITHOUT_GENERATION: Final = '1.18'
#: The maximum of an inventory in the database: a lane for servers of any size and number.
MAX_SLOTS: Final = 2**31 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class LaneAccess:
    """The access to a lane: the aggregates of the servers that may enter when it is open.

    :param generation: of the lane when they were read
    """

    generation: int
    aggregates: frozenset[str]


def create_lane(
    conn: Connection,
    root: placement.Provider,
    number: int,
    lane_id: str | None = None,
) -> str:
    """Create a lane of a host, closed, or find it as it is; return its id.

    :param lane_id: the id of a lane that is created; None: a new id
    :raises climate_core.exceptions.Permanent: a lane of another host has its name
    """
    name = lanes.lane_name(root.name, number)
    lane = placement.find_provider(conn, name)
    generation = None
    if lane is None:
        body = {'name': name, 'parent_provider_uuid': root.id}
        if lane_id is not None:
            body['uuid'] = lane_id
        response = PLACEMENT.send(conn, 'POST', '/resource_providers', body)
        if response.status_code == 409:
            # Another process has just created it.
            lane = placement.find_provider(conn, name)
        else:
            row = errors.read_response(response, PLACEMENT.name)
            lane, generation = placement.read_provider(row), row['generation']
    if lane is None or lane.root_id != root.id:
        raise errors.Forbidden(
            f'The resource provider {name} does not belong to {root.name}. Delete it and restart '
            'the nova-compute of its host.'
        )
    _complete_lane(conn, lane.id, generation)
    return lane.id


def _complete_lane(conn: Connection, lane_id: str, generation: int | None) -> None:
    """Create the inventory, trait and aggregates that a lane lacks.

    :param generation: of a lane that was just created and has nothing; None: read what it has
    """

    path = f'/resource_providers/{lane_id}'
    present_value = None if generation is None else {GENERATION: generation, 'inventories': {}}
    slots = placement.ProviderPart(conn, f'{path}/inventories', present_value)
    for found in slots:
        if lanes.SLOT in found['inventories'] and lanes.HOST in found['inventories']:
            # A lane that existed before may be open, and stays open.
            break
        slots.put({'inventories': _lane_inventories(1, is_open=False)})
    present_value = None if generation is None else {**slots.value, 'traits': []}
    traits = placement.ProviderPart(conn, f'{path}/traits', present_value)
    for found in traits:
        if lanes.TRAIT in found['traits']:
            break
        traits.put({'traits': sorted({lanes.TRAIT, *found['traits']})})


def read_access(conn: Connection, lane_id: str) -> LaneAccess:
    """Return whose servers may take slots of a lane."""
    return LaneAccess(*placement.read_aggregates(conn, lane_id))


def set_lane_aggregates(conn: Connection, lane_id: str, aggregates: Collection[str]) -> None:
    """Set the aggregates of a lane: the reservation that may enter; empty: none may."""
    path = f'/resource_providers/{lane_id}/aggregates'
    response = PLACEMENT.send(
        conn, 'PUT', path, sorted(aggregates), microversion=_WITHOUT_GENERATION
    )
    errors.check_response(response, PLACEMENT.name)


def is_open(conn: Connection, lane_id: str) -> bool:
    """Return whether any servers may take slots of a lane."""
    inventories = PLACEMENT.read(conn, f'/resource_providers/{lane_id}/inventories', 'inventories')
    slots = inventories.get(lanes.SLOT, {})
    return slots.get('reserved', 0) < slots.get('total', 0) or bool(
        read_access(conn, lane_id).aggregates
    )


def set_slots(conn: Connection, lane_id: str, slots: int | None = None, *, is_open: bool) -> None:
    """Set how many slots a lane has, and whether they can be taken.

    Servers that have slots keep them, also when there are fewer than that now.

    :param slots: None: as many as it has
    """
    part = placement.ProviderPart(conn, f'/resource_providers/{lane_id}/inventories')
    for found in part:
        total = found['inventories'][lanes.SLOT]['total'] if slots is None else slots
        inventories = _lane_inventories(total, is_open)
        if _has(found, inventories):
            break
        part.put({'inventories': inventories})


def open_lane(
    conn: Connection,
    lane_id: str,
    slots: int,
    aggregates: Collection[str],
    access_before: LaneAccess,
) -> bool:
    """Open a closed lane to servers; one request if it was prepared.

    :param access_before: as it is, or as :func:`prepare_lane` left it
    :returns: False: it has changed, and was not opened
    """
    access = _give_lane(conn, lane_id, aggregates, access_before)
    return access is not None and _put_slots(conn, lane_id, slots, True, access) is not None


def prepare_lane(
    conn: Connection, lane_id: str, slots: int, aggregates: Collection[str]
) -> int | None:
    """Set the aggregates of a lane to those of a reservation; leave it closed until the start.

    :returns: the generation after that; None: it is open, in use or gone, and left alone
    """
    path = f'/resource_providers/{lane_id}'
    try:
        found = PLACEMENT.read(conn, f'{path}/inventories')
        slot = found['inventories'].get(lanes.SLOT, {})
        closed = slot.get('reserved') == slot.get('total')
        if not closed or any(PLACEMENT.read(conn, f'{path}/usages', 'usages').values()):
            return None
        # No other process opens it concurrently: that would change its generation.
        access = _put_slots(
            conn, lane_id, slots, False, LaneAccess(found[GENERATION], frozenset())
        )
        access = access and _give_lane(conn, lane_id, aggregates, access)
    except errors.Gone:
        return None
    return access.generation if access else None


def _give_lane(
    conn: Connection, lane_id: str, aggregates: Collection[str], access: LaneAccess
) -> LaneAccess | None:
    """Set whose servers may enter a lane; None if it has changed since it was read."""
    if access.aggregates == {*aggregates}:
        return access
    body = {GENERATION: access.generation, 'aggregates': sorted(aggregates)}
    path = f'/resource_providers/{lane_id}/aggregates'
    written = placement.put_if_unchanged(conn, path, body)
    return None if written is None else LaneAccess(written[GENERATION], frozenset(aggregates))


def _put_slots(
    conn: Connection, lane_id: str, slots: int, is_open: bool, access: LaneAccess
) -> LaneAccess | None:
    """Set the slots of a lane; None if it has changed since it was read."""
    body = {GENERATION: access.generation, 'inventories': _lane_inventories(slots, is_open)}
    path = f'/resource_providers/{lane_id}/inventories'
    written = placement.put_if_unchanged(conn, path, body)
    return None if written is None else LaneAccess(written[GENERATION], access.aggregates)


def close_lane(conn: Connection, lane_id: str) -> list[str]:
    """Close a lane to further servers; return the ids of the servers that are in it.

    Its aggregates go first: that needs no generation, so claims at the same time do not delay it.
    Servers that claim a slot until all are closed are among those returned.
    """
    set_lane_aggregates(conn, lane_id, ())
    set_slots(conn, lane_id, is_open=False)
    return placement.list_consumers(conn, lane_id)


def drain_lane(conn: Connection, lane_id: str, reservation_id: str) -> list[str]:
    """Close a lane to servers of a reservation; return the ids of the servers that are in it.

    The lane stays the reservation's, and no other reservation may open it, until this is called
    and finds it empty. A lane of another reservation, or that is gone, is left alone: no servers.
    """
    ended = lanes.ended_aggregate(reservation_id)
    own = {ended, lanes.reservation_aggregate(reservation_id)}
    try:
        closed = _close_if(conn, lane_id, own, [ended], always_write=False)
        left = placement.list_consumers(conn, lane_id) if closed else []
        if closed and not left:
            _release_lane(conn, lane_id, ended, closed[1].generation)
        # Another manager may have released it, and other servers may be in it by now.
        if left and read_access(conn, lane_id).aggregates != {ended}:
            return []
    except errors.Gone:
        return []
    return left


def _close_if(
    conn: Connection,
    lane_id: str,
    own: Collection[str],
    aggregates: Collection[str],
    *,
    always_write: bool,
) -> tuple[LaneAccess, LaneAccess] | None:
    """Close a lane and set its aggregates; None: it is another reservation's.

    Nothing is written if the lane has changed since it was read: another reservation may have it
    by now.

    :param own: the lane is closed if it is in one of these aggregates
    :param always_write: also if it is closed, so that no process that has read it can open it
    :returns: the access before and after
    :raises climate_core.cloud.errors.Busy: other processes always changed it first
    """
    for _ in range(placement.TRIES):
        found = read_access(conn, lane_id)
        if found.aggregates.isdisjoint(own):
            return None
        closed = _close_unchanged(conn, lane_id, found, aggregates, always_write)
        if closed:
            return found, closed
    raise errors.Busy(f'Concurrent changes of lane {lane_id} exhausted the retries.')


def _close_unchanged(
    conn: Connection,
    lane_id: str,
    access: LaneAccess,
    aggregates: Collection[str],
    always_write: bool,
) -> LaneAccess | None:
    """Close a lane and set its aggregates; None if it has changed since it was read.

    The slots go first, for they decide about claims.
    """
    seen = PLACEMENT.read(conn, f'/resource_providers/{lane_id}/inventories')
    if seen[GENERATION] != access.generation:
        return None
    total = seen['inventories'][lanes.SLOT]['total']
    is_closed = _has(seen, _lane_inventories(total, is_open=False))
    if is_closed and not always_write:
        closed: LaneAccess | None = access
    else:
        closed = _put_slots(conn, lane_id, total, False, access)
    return closed and _give_lane(conn, lane_id, aggregates, closed)


def clear_lane(
    conn: Connection, lane_id: str, aggregates: Collection[str]
) -> frozenset[str] | None:
    """Close a lane that is in one of these aggregates, and remove it from all.

    Servers may be in it. Concurrent changes by other processes are left as they are.

    :returns: the aggregates that it had; None: it was left alone
    :raises climate_core.cloud.errors.Busy: other processes always changed it first
    """
    cleared = _close_if(conn, lane_id, aggregates, (), always_write=True)
    return cleared and cleared[0].aggregates


def clear_unchanged(conn: Connection, lane_id: str, access: LaneAccess) -> bool:
    """Close a lane as :func:`clear_lane` does; False if it has changed since it was read."""
    return _close_unchanged(conn, lane_id, access, (), always_write=True) is not None


def _release_lane(conn: Connection, lane_id: str, ended: str, generation: int) -> None:
    """Remove the aggregates of a closed lane, unless a reservation has got it since."""
    present_value = {GENERATION: generation, 'aggregates': [ended]}
    part = placement.ProviderPart(conn, f'/resource_providers/{lane_id}/aggregates', present_value)
    for found in part:
        if found['aggregates'] != [ended]:
            break
        part.put({'aggregates': []})


def _lane_inventories(slots: int, is_open: bool) -> dict[str, dict[str, int]]:
    return {
        lanes.SLOT: {'total': slots, 'reserved': 0 if is_open else slots, 'max_unit': 1},
        lanes.HOST: {'total': 1, 'max_unit': 1},
    }


def _has(provider: Mapping[str, Any], inventories: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether inventories are as wanted; missing values are 0."""
    present = provider['inventories']
    return present.keys() == inventories.keys() and all(
        {'reserved': 0, **each}.items() <= present[name].items()
        for name, each in inventories.items()
    )


_NAMESPACE: Final = uuid.UUID('3d8a4b0e-5a43-5f0e-8a0f-0f5b7e6f1c52')
_CLASS: Final = 'MEMORY_MB'
_TYPE: Final = 'CLIMATE_HOLD'
#: The maximum number of allocations of a claim, which limits the ids that are released.
_MAX_ALLOCATIONS: Final = 4096


def claim_host(conn: Connection, provider_id: str) -> bool:
    """Claim a host; return whether it is claimed, which proves that nothing else is there.

    A host without memory in Placement, as a node of Ironic, cannot be claimed; nor can a host that
    would need more than 4096 allocations.

    :raises climate_core.cloud.errors.Gone: there is no such provider
    """
    path = f'/resource_providers/{provider_id}/inventories'
    inventory = PLACEMENT.read(conn, path, 'inventories').get(_CLASS)
    if inventory is None:
        return False
    wanted = {
        _id(provider_id, number): amount for number, amount in enumerate(_amounts(inventory))
    }
    if not 0 < len(wanted) <= _MAX_ALLOCATIONS:
        return False
    allocations = placement.read_allocations(conn, provider_id)
    if allocations.keys() - wanted.keys():
        release_host(conn, provider_id)
        return False
    if _is_claimed(allocations, wanted):
        return True
    # Delete the claim of an earlier inventory.
    for each in allocations:
        _delete(conn, each)
    owner = {
        'project_id': conn.session.get_project_id(),
        'user_id': conn.session.get_user_id(),
        'consumer_generation': None,
        'consumer_type': _TYPE,
    }
    body = {
        consumer: {'allocations': {provider_id: {'resources': {_CLASS: amount}}}, **owner}
        for consumer, amount in wanted.items()
    }
    response = PLACEMENT.send(conn, 'POST', '/allocations', body)
    if response.status_code != 409:
        errors.check_response(response, PLACEMENT.name)
    # Placement may have accepted both of two concurrent claims.
    if _is_claimed(placement.read_allocations(conn, provider_id), wanted):
        return True
    release_host(conn, provider_id)
    return False


def release_host(conn: Connection, provider_id: str) -> None:
    """Release a host, if it is claimed."""
    consumers = placement.list_consumers(conn, provider_id)
    ours = {_id(provider_id, number) for number in range(_MAX_ALLOCATIONS)} if consumers else set()
    for consumer in sorted(ours.intersection(consumers)):
        _delete(conn, consumer)


def _delete(conn: Connection, consumer: str) -> None:
    response = PLACEMENT.send(conn, 'DELETE', f'/allocations/{consumer}')
    if response.status_code != 404:
        errors.check_response(response, PLACEMENT.name)


def _id(provider_id: str, number: int) -> str:
    """Return the id of a consumer of the claim of a host."""
    return str(uuid.uuid5(_NAMESPACE, f'{provider_id}|{number}'))


def _is_claimed(allocations: Mapping[str, Mapping[str, int]], amounts: Mapping[str, int]) -> bool:
    return {each: found.get(_CLASS) for each, found in allocations.items()} == dict(amounts)


def _amounts(inventory: Mapping[str, Any]) -> Sequence[int]:
    """Split an inventory into amounts that an allocation may have."""
    total = int((inventory['total'] - inventory['reserved']) * inventory['allocation_ratio'])
    largest = min(inventory['max_unit'], total)
    if largest <= 0:
        return []
    whole, rest = divmod(total, largest)
    return [largest] * whole + ([rest] if rest else [])
