# SPDX-License-Identifier: Apache-2.0
"""Evacuate the servers of a lease from hosts that failed."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from oslo_log import log

from climate_common import words
from climate_core.cloud import errors, servers
from climate_core.plugins.base import PollAgain

if TYPE_CHECKING:
    from climate_core.cloud import connections

LOG = log.getLogger(__name__)

#: Seconds until the next look at servers that are being evacuated.
_LOOK: Final = 5.0
#: So many servers that cannot be evacuated are named.
_NAMED: Final = 3


def evacuate(
    conn: 'connections.Connection', left: Mapping[str, str], projects: Collection[str]
) -> PollAgain | None:
    """Evacuate servers, also after one that Nova refuses; wait for those that are still there.

    :param left: server -> the host that failed
    :param projects: those whose servers are evacuated; others stay
    :raises climate_core.exceptions.PluginFailure: the first refusal, once nothing else is left
    """
    there: list[str] = []
    refused: list[tuple[str, Exception]] = []
    for server_id, host in left.items():
        try:
            if _evacuate_one(conn, server_id, host, projects):
                there.append(server_id)
        except errors.EXPECTED as exc:
            refused.append((server_id, exc))
    if there:
        told = f'Evacuating {words.counted(len(there), "server")} from hosts that failed.'
        more = ''.join(f' Server {each} cannot be: {exc}' for each, exc in refused[:_NAMED])
        return PollAgain(_LOOK, told + more)
    if refused:
        raise refused[0][1]
    return None


def _evacuate_one(
    conn: 'connections.Connection', server_id: str, host: str, projects: Collection[str]
) -> bool:
    """Evacuate a server from a host that failed; tell whether it is still there."""
    try:
        server = servers.get(conn, server_id)
        if server['OS-EXT-SRV-ATTR:host'] != host:
            return False
        if servers.read_project(server) not in projects:
            LOG.error('Server %s of another project stays on host %s', server_id, host)
            return False
        if server['OS-EXT-STS:task_state'] is None:
            servers.act(conn, server_id, 'evacuate', {})
    except errors.Gone:
        # A migration holds a slot, too, by an id of its own.
        return False
    return True
