# SPDX-License-Identifier: Apache-2.0
"""The servers of a preempted lease: shelved when it gives up its hosts, woken when it has some.

Nova keeps a shelved server as an image, and takes its host for others. Unshelving schedules it
like a new one: its scheduler hint names the reservation, whose lanes are open again by then.
What a user did with a server meanwhile is respected: one that is deleted, or runs, is forgotten.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from climate_common import words
from climate_core.cloud import errors, servers
from climate_core.plugins.base import Done, PollAgain

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Reservation

#: What is kept of them: the ids, with how often each was asked to wake.
_SHELVED: Final = 'shelved'
#: Seconds until the next look at servers that wake.
_LOOK: Final = 2.0
#: How often a server is asked to wake; its owner may do so afterwards.
_TRIES: Final = 5
_ASLEEP: Final = frozenset({'SHELVED', 'SHELVED_OFFLOADED'})


def keep(reservation: 'Reservation', inside: Iterable[str]) -> dict[str, Any]:
    """Return what is kept of the servers that are, or were, in the lanes of a reservation."""
    known = _known(reservation)
    return {_SHELVED: {**dict.fromkeys(sorted(inside), 0), **known}}


def done(reservation: 'Reservation') -> Done | None:
    """Return what the next start of a reservation is to know; None if there was no server."""
    known = _known(reservation)
    return Done({_SHELVED: known}) if known else None


def find(
    conn: 'connections.Connection', reservation: 'Reservation', projects: Collection[str]
) -> set[str]:
    """Return the ids of those of some projects that are still shelved."""
    return {each for each in _known(reservation) if _is_asleep(conn, each, projects)}


def wake(
    conn: 'connections.Connection', reservation: 'Reservation', projects: Collection[str]
) -> PollAgain | None:
    """Unshelve those of some projects that are shelved; None if all run, or cannot."""
    left: dict[str, int] = {}
    for server_id, tries in sorted(_known(reservation).items()):
        try:
            server = servers.get(conn, server_id)
            if server['status'] not in _ASLEEP or servers.read_project(server) not in projects:
                continue
            if server['OS-EXT-STS:task_state'] is None:
                if tries == _TRIES:
                    continue
                servers.act(conn, server_id, 'unshelve')
                tries += 1
        except (errors.Gone, errors.Refused):
            # A migration holds a slot, too, by an id of its own.
            continue
        except errors.Busy:
            pass
        left[server_id] = tries
    if not left:
        return None
    kept = {**(reservation.progress or {}), _SHELVED: left}
    return PollAgain(_LOOK, f'Waking {words.counted(len(left), "server")}.', kept)


def _is_asleep(conn: 'connections.Connection', server_id: str, projects: Collection[str]) -> bool:
    try:
        server = servers.get(conn, server_id)
    except errors.Gone:
        return False
    return server['status'] in _ASLEEP and servers.read_project(server) in projects


def _known(reservation: 'Reservation') -> Mapping[str, int]:
    return dict((reservation.progress or {}).get(_SHELVED, {}))
