# SPDX-License-Identifier: Apache-2.0
"""Read what Placement has of all hosts of the pools, also where it answers with a part of them.

``[placement] max_allocation_candidates`` limits how many lanes are in an answer, and says nothing
where it does. So hosts that an answer does not have are asked for one by one.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from climate_core.cloud import placement
from climate_hosts.domain.hosts import Host

if TYPE_CHECKING:
    from climate_core.cloud import connections


@dataclasses.dataclass(frozen=True, slots=True)
class Rooms:
    """Hold what Placement has of hosts, by the id of the root provider.

    :param inside: of those that it keeps ordinary servers off
    :param outside: of those that take ordinary servers
    :param hidden: those that were found only when they were asked for alone
    """

    inside: Mapping[str, placement.HostCapacity]
    outside: Mapping[str, placement.HostCapacity]
    hidden: frozenset[str]


def read(conn: 'connections.Connection', hosts: Iterable[Host]) -> Rooms:
    """Read what Placement has of hosts.

    One request, one more if some of them take ordinary servers, one for each host that the
    answers do not have, and one more if Placement has that.
    """
    hosts = list(hosts)
    inside = placement.read_host_capacities(conn)
    takes_any_ordinary = any(host.takes_ordinary for host in hosts)
    outside = placement.read_host_capacities(conn, outside=True) if takes_any_ordinary else {}
    hidden = set()
    for provider_id in {host.provider_id for host in hosts} - inside.keys() - outside.keys():
        alone = placement.read_host_capacities(conn, provider_id)
        if alone:
            is_kept = placement.is_in_pool(conn, provider_id)
            (inside if is_kept else outside).update(alone)
            if is_kept or takes_any_ordinary:
                hidden.add(provider_id)
    return Rooms(inside, outside, frozenset(hidden))
