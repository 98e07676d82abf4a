# SPDX-License-Identifier: Apache-2.0
"""Check whether Placement overbooks an inventory under concurrent claims.

Placement 16 repeats a claim that lost a race inside of one transaction, without a rollback, and
takes the rows of its own failed try for the previous allocations of its consumer
(placement/handlers/allocation.py, placement/objects/allocation.py). With ``[placement]
allocation_conflict_retry_count = 1`` in placement.conf it answers 409 instead, and Nova retries.
The capacity of reservations is only as firm as that.
"""

import concurrent.futures
import contextlib
from typing import Final

from oslo_utils import uuidutils

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import PLACEMENT, create_names

#: The name of the provider, by which the next check finds it.
_NAME: Final = 'climate-check'
_SLOTS: Final = 2
_CLAIMS: Final = 8
#: A single round hardly ever passes if Placement has the bug.
_ROUNDS: Final = 10


def overbooks(conn: Connection) -> bool:
    """Claim slots of a dedicated provider concurrently; return whether too many were accepted.

    The provider is deleted afterwards, or by the next check if this one is killed; hosts and
    servers are not affected. Only one check may run at a time: all have the same provider.

    :param conn: with the rights of the service
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


def _remove(conn: Connection) -> None:
    """Delete the provider of a check with its claims, also of an interrupted check."""
    query = {'name': _NAME}
    for each in PLACEMENT.read(conn, '/resource_providers', 'resource_providers', query):
        path = f'/resource_providers/{each["uuid"]}'
        with contextlib.suppress(errors.Gone):
            for consumer in PLACEMENT.read(conn, f'{path}/allocations', 'allocations'):
                PLACEMENT.request(conn, 'DELETE', f'/allocations/{consumer}')
            PLACEMENT.request(conn, 'DELETE', path)


def _given(conn: Connection, provider_id: str) -> int:
    """Return the number of accepted claims of a round, and release them."""
    consumers = [uuidutils.generate_uuid() for _ in range(_CLAIMS)]
    try:
        with concurrent.futures.ThreadPoolExecutor(_CLAIMS) as pool:
            return sum(pool.map(lambda each: _claim(conn, provider_id, each), consumers))
    finally:
        for each in consumers:
            with contextlib.suppress(errors.Gone):
                PLACEMENT.request(conn, 'DELETE', f'/allocations/{each}')


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
