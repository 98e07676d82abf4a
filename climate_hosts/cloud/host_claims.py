# SPDX-License-Identifier: Apache-2.0
"""Claim all of an empty host in Placement, so that no server enters it, and release it.

The claim is an allocation of all memory of the host. Placement rejects it while anything is there,
and rejects everything else while it exists. Where no single allocation may be so large the claim
is several allocations, in one request. Their ids are derived from the id of the host: any number
of managers may do the same.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from climate_core.cloud import errors, placement
from climate_core.cloud.placement import PLACEMENT

if TYPE_CHECKING:
    from climate_core.cloud import connections

_NAMESPACE: Final = uuid.UUID('3d8a4b0e-5a43-5f0e-8a0f-0f5b7e6f1c52')
_CLASS: Final = 'MEMORY_MB'
_TYPE: Final = 'CLIMATE_HOLD'
#: The maximum number of allocations of a claim, which limits the ids that are released.
_MAX_ALLOCATIONS: Final = 4096


def take(conn: 'connections.Connection', provider_id: str) -> bool:
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
    there = placement.read_allocations(conn, provider_id)
    if there.keys() - wanted.keys():
        release(conn, provider_id)
        return False
    if _is_claimed(there, wanted):
        return True
    # Delete the claim of an earlier inventory.
    for each in there:
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
    release(conn, provider_id)
    return False


def release(conn: 'connections.Connection', provider_id: str) -> None:
    """Release a host, if it is claimed."""
    there = placement.list_consumers(conn, provider_id)
    ours = {_id(provider_id, number) for number in range(_MAX_ALLOCATIONS)} if there else set()
    for consumer in sorted(ours.intersection(there)):
        _delete(conn, consumer)


def _delete(conn: 'connections.Connection', consumer: str) -> None:
    response = PLACEMENT.send(conn, 'DELETE', f'/allocations/{consumer}')
    if response.status_code != 404:
        errors.check_response(response, PLACEMENT.name)


def _id(provider_id: str, number: int) -> str:
    """Return the id of a consumer of the claim of a host."""
    return str(uuid.uuid5(_NAMESPACE, f'{provider_id}|{number}'))


def _is_claimed(there: Mapping[str, Mapping[str, int]], wanted: Mapping[str, int]) -> bool:
    return {each: found.get(_CLASS) for each, found in there.items()} == dict(wanted)


def _amounts(inventory: Mapping[str, Any]) -> Sequence[int]:
    """Split an inventory into amounts that an allocation may have."""
    total = int((inventory['total'] - inventory['reserved']) * inventory['allocation_ratio'])
    most = min(inventory['max_unit'], total)
    if most <= 0:
        return []
    whole, rest = divmod(total, most)
    return [most] * whole + ([rest] if rest else [])
