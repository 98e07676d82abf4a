# SPDX-License-Identifier: Apache-2.0
"""Try whether Placement gives more away than there is to claims that are made at once.

Placement 16 repeats a claim that others were faster than inside of one transaction, without a
rollback, and takes the rows of its own failed try for what its consumer had before
(placement/handlers/allocation.py, placement/objects/allocation.py). With ``[placement]
allocation_conflict_retry_count = 1`` in placement.conf it answers 409 instead, and Nova tries
again. The capacity of reservations is only as firm as that.
"""

import concurrent.futures
import contextlib
from typing import TYPE_CHECKING, Final

from oslo_utils import uuidutils

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.placement import PLACEMENT
from climate_hosts.cloud.lane_providers import create_names

if TYPE_CHECKING:
    from climate_core.cloud import connections

#: The name of the provider, by which the next check finds it.
_NAME: Final = 'climate-check'
_SLOTS: Final = 2
_CLAIMS: Final = 8
#: One of them hardly ever ends well if Placement has the bug.
_ROUNDS: Final = 10


def overbooks(conn: 'connections.Connection') -> bool:
    """Claim slots of a provider of our own, many at once, and tell whether too many were given.

    The provider is deleted afterwards, or by the next check if this one is killed; hosts and
    servers are not touched. Let one check run at a time: they have the same provider.

    :param conn: the rights of the service
    """
    create_names(conn)
    _remove(conn)
    provider_id = uuidutils.generate_uuid()
    try:
        body = {'name': _NAME, 'uuid': provider_id}
        PLACEMENT.request(conn, 'POST', '/resource_providers', body)
        slots = {lanes.SLOT: {'total': _SLOTS, 'max_unit': 1}}
        PLACEMENT.request(
            conn,
            'PUT',
            f'/resource_providers/{provider_id}/inventories',
            {'resource_provider_generation': 0, 'inventories': slots},
        )
        return any(_given(conn, provider_id) > _SLOTS for _ in range(_ROUNDS))
    finally:
        _remove(conn)


def _remove(conn: 'connections.Connection') -> None:
    """Delete the provider of a check with its claims, also of one that was cut off."""
    query = {'name': _NAME}
    for each in PLACEMENT.read(conn, '/resource_providers', 'resource_providers', query):
        path = f'/resource_providers/{each["uuid"]}'
        with contextlib.suppress(errors.Gone):
            for consumer in PLACEMENT.read(conn, f'{path}/allocations', 'allocations'):
                PLACEMENT.request(conn, 'DELETE', f'/allocations/{consumer}')
            PLACEMENT.request(conn, 'DELETE', path)


def _given(conn: 'connections.Connection', provider_id: str) -> int:
    """Return how many of the claims of a round were accepted; they are given back."""
    consumers = [uuidutils.generate_uuid() for _ in range(_CLAIMS)]
    try:
        with concurrent.futures.ThreadPoolExecutor(_CLAIMS) as pool:
            return sum(pool.map(lambda each: _claim(conn, provider_id, each), consumers))
    finally:
        for each in consumers:
            with contextlib.suppress(errors.Gone):
                PLACEMENT.request(conn, 'DELETE', f'/allocations/{each}')


def _claim(conn: 'connections.Connection', provider_id: str, consumer_id: str) -> bool:
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
