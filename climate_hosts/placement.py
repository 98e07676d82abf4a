# SPDX-License-Identifier: Apache-2.0
"""The calls to Placement about the hosts of the pools.

Every function takes the connection whose rights it uses, which must be those of an administrator
or of a service, and raises the exceptions of :mod:`climate_core.cloud.errors`. All of them are
idempotent. Facts: Placement API reference, microversion 1.39.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from climate_common import lanes
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import PLACEMENT, HostCapacity, read_trees

#: Maximum attempts of a write after conflicts of generations. Storms of claims took up to 9.
TRIES: Final = 50


GENERATION: Final = 'resource_provider_generation'


_CHANGED_MEANWHILE: Final = 'placement.concurrent_update'


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider.

    :param root_id: the root of its tree; its own id if it is the root
    """

    id: str
    name: str
    root_id: str


def find_provider(conn: Connection, name: str) -> Provider | None:
    """Find a provider by its name, which is unique; None if it does not exist."""
    return next(list_providers(conn, name=name), None)


def has_provider(conn: Connection, provider_id: str) -> bool:
    """Return whether a provider with this id exists."""
    return any(list_providers(conn, uuid=provider_id))


def list_lanes(conn: Connection) -> list[Provider]:
    """List the lanes of all hosts."""
    if PLACEMENT.send(conn, 'GET', f'/resource_classes/{lanes.HOST}').status_code == 404:
        return []
    return list(list_providers(conn, resources=f'{lanes.HOST}:1'))


def list_pool(conn: Connection) -> list[Provider]:
    """List the root providers of the hosts of all pools."""
    return list(list_providers(conn, member_of=lanes.POOL))


def list_providers(conn: Connection, **query: str) -> Iterator[Provider]:
    for row in PLACEMENT.read(conn, '/resource_providers', 'resource_providers', query):
        yield read_provider(row)


def read_provider(row: Mapping[str, Any]) -> Provider:
    """Return a provider from its JSON in the API of Placement."""
    return Provider(row['uuid'], row['name'], row['root_provider_uuid'])


def read_host_capacities(
    conn: Connection, provider_id: str | None = None, *, outside: bool = False
) -> dict[str, HostCapacity]:
    """Return the capacities of the hosts with lanes, by the id of the root provider; one call.

    :param provider_id: only of the host with this root provider, in any pool or none; None: of
        all hosts of the pools
    :param outside: of all hosts with lanes that accept ordinary servers instead
    """
    member_of = f'{"!" if outside else ""}in:{lanes.POOL}'
    which = {'in_tree': provider_id} if provider_id else {'member_of': member_of}
    query = {'resources': f'{lanes.HOST}:1', **which}
    summaries = PLACEMENT.read(conn, '/allocation_candidates', 'provider_summaries', query)
    return read_trees(summaries)


def read_unit_limits(conn: Connection, host: HostCapacity) -> dict[str, tuple[int, int, int]]:
    """Return the limits of one server on a host; one call for each provider of the host.

    :returns: by resource class ``min_unit``, ``max_unit`` and ``step_size``, where these exclude
        an amount of the host; without the classes of several providers
    """
    unit_limits = {}
    for provider_id in sorted(host.provider_ids):
        path = f'/resource_providers/{provider_id}/inventories'
        for name, inventory in PLACEMENT.read(conn, path, 'inventories').items():
            units = inventory['min_unit'], inventory['max_unit'], inventory['step_size']
            is_free = units[0] == units[2] == 1 and units[1] >= host.capacity.get(name, 0)
            if not is_free and name not in host.divided:
                unit_limits[name] = units
    return unit_limits


def list_consumers(conn: Connection, provider_id: str) -> list[str]:
    """List the consumers of a provider: ids of servers, and of migrations of servers.

    The consumers of a lane are the servers of its reservation.
    """
    allocations = PLACEMENT.read(
        conn, f'/resource_providers/{provider_id}/allocations', 'allocations'
    )
    return sorted(allocations)


def read_allocations(conn: Connection, provider_id: str) -> dict[str, dict[str, int]]:
    """Return the allocations of a provider: consumer -> resource class -> amount."""
    allocations = PLACEMENT.read(
        conn, f'/resource_providers/{provider_id}/allocations', 'allocations'
    )
    return {consumer: dict(row['resources']) for consumer, row in allocations.items()}


def list_ordinary(conn: Connection, host: HostCapacity) -> list[str]:
    """List the consumers of a host that have no slot of its lanes.

    Consumers that come or leave during the call are not listed. It sends two requests, and one for
    each lane in use.
    """
    before = list_consumers(conn, host.provider_id)
    used = [lane_id for lane_id, lane in host.lanes.items() if lane.used]
    inside = {consumer for lane_id in used for consumer in list_consumers(conn, lane_id)}
    after = list_consumers(conn, host.provider_id) if {*before} - inside else []
    return sorted({*before} & {*after} - inside)


def read_aggregates(conn: Connection, provider_id: str) -> tuple[int, frozenset[str]]:
    """Return the generation and the aggregates of a provider."""
    response = PLACEMENT.send(conn, 'GET', f'/resource_providers/{provider_id}/aggregates')
    aggregates = errors.read_response(response, PLACEMENT.name, 'aggregates')
    return response.json()[GENERATION], frozenset(aggregates)


def is_in_pool(conn: Connection, provider_id: str) -> bool:
    """Return whether a host rejects ordinary servers."""
    return lanes.POOL in read_aggregates(conn, provider_id)[1]


class ProviderPart:
    """Change a part of a provider, with retries while other processes change the provider.

    Iterate over the present values, and :meth:`put` the new one, or leave the loop. The loop ends
    when a value is written.

    :param path: of the part
    :param present_value: the present value with the generation of the provider, to save a request
    :ivar value: the present value, with the generation
    """

    def __init__(
        self, conn: Connection, path: str, present_value: Mapping[str, Any] | None = None
    ) -> None:
        self._conn = conn
        self._path = path
        self._is_written = False
        self.value: Mapping[str, Any] = present_value or {}

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the present value for each attempt.

        :raises climate_core.cloud.errors.Busy: all attempts failed
        """
        for _ in range(TRIES):
            if not self.value:
                self.value = PLACEMENT.read(self._conn, self._path)
            yield self.value
            if self._is_written:
                return
            self.value = {}
        raise errors.Busy(f'Concurrent changes of {self._path} exhausted the retries.')

    def put(self, value: Mapping[str, Any]) -> None:
        """Write a value, unless the provider has changed since the present one was read."""
        body = {GENERATION: self.value[GENERATION], **value}
        written = put_if_unchanged(self._conn, self._path, body)
        if written is not None:
            self.value, self._is_written = written, True


def put_if_unchanged(
    conn: Connection, path: str, body: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Set a part of a provider; return None if its generation is not that of the body."""
    response = PLACEMENT.send(conn, 'PUT', path, body)
    if _has_changed(response):
        return None
    written: dict[str, Any] = errors.read_response(response, PLACEMENT.name)
    return written


def _has_changed(response: Any) -> bool:
    """Return whether a 409 is a conflict of generations, and not, say, an inventory in use."""
    if response.status_code != 409:
        return False
    return any(error.get('code') == _CHANGED_MEANWHILE for error in response.json()['errors'])
