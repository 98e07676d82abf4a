# SPDX-License-Identifier: Apache-2.0
"""Drain the servers from the lanes of a reservation: at the end, on preemption, on failure.

At the end they are deleted, or moved to ordinary hosts (``on_end: migrate``). The lanes are
closed and name the reservation no more, so that nova-scheduler takes a move for one of an
ordinary server. During a cold migration Placement has the allocation of the slot under the
id of the migration, not of the server: so the id of each server is saved in the progress of
the reservation before the migration is requested, and no server is lost track of.

When the time for moving has ended, the next lease needs the hosts. A server that could not be
moved is then shelved, which keeps its disk as an image and frees the host, or deleted, as the
operator configures. A server in ERROR cannot be shelved: the reason of the lease names it,
and an operator must act.

The servers of a preempted lease are shelved when it releases its hosts, and unshelved when it
has hosts again. Nova schedules an unshelved server like a new one: its scheduler hint names
the reservation, whose lanes are open again by then. Climate respects what a user did with a
server in between: one that was deleted, or runs, is forgotten.

Servers of a host that failed are evacuated to the other hosts of the lease.
"""

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oslo_log import log

from climate_common import dates, words
from climate_core import exceptions
from climate_core.cloud import errors, servers
from climate_core.plugins import server_end, server_recovery, step_context
from climate_core.plugins.base import Done, PollAgain
from climate_core.plugins.step_context import END, EndContext, Progress

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.lease.model import Lease, Reservation

LOG = log.getLogger(__name__)

#: Seconds until the next poll of servers that are leaving.
POLL_SECONDS: Final = 1.0
#: The longest time between two polls while servers have their grace.
_GRACE_POLL_SECONDS: Final = 60.0
DELETE: Final = 'delete'
MIGRATE: Final = 'migrate'
#: The end action of a lease that is preempted, see :func:`unshelve`.
SHELVE: Final = 'shelve'
_SERVERS: Final = 'servers'
_BEGAN: Final = 'began'
_ACTION: Final = 'action'
#: Tasks of a server that is being moved (nova/compute/task_states.py), also by an administrator.
_MOVING: Final = frozenset(
    {'migrating', 'resize_prep', 'resize_migrating', 'resize_migrated', 'resize_finish'}
)
#: The number of servers that a reason names.
_MAX_NAMED: Final = 3
#: The key of shelved servers in the progress: their ids, with the number of requests to unshelve.
_SHELVED: Final = 'shelved'
#: Seconds until the next poll of servers that are being unshelved.
_UNSHELVE_POLL_SECONDS: Final = 2.0
#: The number of requests to unshelve a server; its owner may do so afterwards.
_MAX_UNSHELVE_REQUESTS: Final = 5
_SHELVED_STATUSES: Final = frozenset({'SHELVED', 'SHELVED_OFFLOADED'})
#: Seconds until the next poll of servers that are being evacuated.
_EVACUATION_POLL_SECONDS: Final = 5.0
#: The number of servers that cannot be evacuated that a reason names.
_MAX_NAMED_REFUSALS: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class DrainTerms:
    """The terms on which the servers of a reservation leave.

    :param on_end: ``delete``, ``migrate`` or ``shelve``
    :param grace: how long they stay before they are deleted, or while they are moved
    :param unmovable: the end action for servers that could not be moved: ``shelve`` or ``delete``
    """

    on_end: str
    grace: datetime.timedelta
    unmovable: str


def list_projects(lease: 'Lease', reservation: 'Reservation') -> frozenset[str]:
    """Return the projects whose servers may be in the lanes of a reservation."""
    return frozenset((lease.project_id, *reservation.params.get('share_with', ())))


class ServerDrain:
    """Drain the servers of a reservation, with the progress of each of them.

    :param context: of the reservation, with the rights of the service
    """

    def __init__(self, context: EndContext, terms: DrainTerms) -> None:
        stored = context.reservation.progress or {}
        if stored.get('phase') != END:
            stored = {}
        began = stored.get(_BEGAN)
        self._began = datetime.datetime.fromisoformat(began) if began else context.now
        self._servers: dict[str, Mapping[str, Any] | None] = dict(stored.get(_SERVERS, {}))
        self._action = stored.get(_ACTION, terms.on_end)
        self._context = context
        self._terms = terms
        self._projects = list_projects(context.lease, context.reservation)

    def step(self, left: Sequence[str]) -> PollAgain:
        """Take the next step of each server.

        :param left: the consumers of the lanes, at least one: servers, and migrations of them
        """
        until = self._began + self._terms.grace
        rest = (until - self._context.now).total_seconds()
        if self._terms.on_end != MIGRATE and rest > 0:
            message = (
                f'{words.counted(len(left), "server")} will be deleted at {dates.sentence(until)}.'
            )
            return PollAgain(min(rest, _GRACE_POLL_SECONDS), message, self._dump())
        unknown = {*left} - self._servers.keys()
        self._servers |= dict.fromkeys(sorted(unknown))
        if unknown and self._terms.on_end != DELETE:
            # If this manager dies after the request, the next manager has the ids.
            return PollAgain(0.0, None, self._dump())
        action = self._terms.on_end
        if action == MIGRATE and rest <= 0:
            action = self._terms.unmovable
        if action != self._action:
            # The progress of an earlier request does not apply to this server.
            self._servers = dict.fromkeys(self._servers)
            self._action = action
        waits = list(self._steps({*left}))
        reasons = [wait.reason for wait in waits if wait.reason]
        number = words.counted(len(left), 'server')
        message = f'Waiting for {number} to leave the hosts of the reservation.'
        if len(reasons) > _MAX_NAMED:
            reasons[_MAX_NAMED:] = [f'And {len(reasons) - _MAX_NAMED} more.']
        return PollAgain(
            min(wait.seconds for wait in waits),
            ' '.join([message, *reasons]),
            self._dump(),
            next((wait.repair for wait in waits if wait.repair), None),
        )

    def _steps(self, left: set[str]) -> Iterator[PollAgain]:
        for server_id in sorted(self._servers):
            try:
                wait = self._step_or_wait(server_id, server_id in left)
            except (exceptions.Transient, exceptions.Permanent) as exc:
                wait = self._failed(server_id, exc)
            if wait is None and server_id not in left:
                del self._servers[server_id]
                continue
            wait = wait or PollAgain(POLL_SECONDS)
            self._servers[server_id] = wait.progress
            yield wait

    def _step_or_wait(self, consumer_id: str, is_inside: bool) -> PollAgain | None:
        try:
            return self._leave(consumer_id, is_inside)
        except errors.Gone:
            return self._wait_for_migration(consumer_id) if is_inside else None

    def _wait_for_migration(self, consumer_id: str) -> PollAgain:
        """Wait for a migration, which has a slot by its own id; it ends with its server.

        Nova forgets the slot of a migration that broke off. Whether its guest has left the
        host is unknown to Climate, so an administrator must decide.
        """
        context = self._context_of(consumer_id).observe('migration')
        wait = step_context.wait_for_operator(
            context,
            f'The server or migration {consumer_id} is gone, and has had a slot',
            60 * context.options.lost_move_minutes,
            'whether its server has left the host is not known',
            f'openstack resource provider allocation delete {consumer_id}',
        )
        return dataclasses.replace(wait, seconds=POLL_SECONDS)

    def _failed(
        self, server_id: str, exc: exceptions.Transient | exceptions.Permanent
    ) -> PollAgain:
        """Return the wait for the next try of a server, which is longer after each failure."""
        now = self._context.now
        before = Progress.load(exc.progress or self._servers[server_id], END, now)
        after = before if exc.progress else before.with_failure(str(exc), now)
        return PollAgain(
            max(POLL_SECONDS, after.rest(now)), f'Server {server_id}: {exc}', after.dump()
        )

    def _leave(self, server_id: str, is_inside: bool) -> PollAgain | None:
        """Take the next step of one server.

        :param is_inside: whether a slot of the lanes is its own
        :raises climate_core.cloud.errors.Gone: there is no such server
        """
        server = servers.get(self._context.conn, server_id)
        lease = self._context.lease
        if servers.read_project(server) not in self._projects:
            LOG.error('Server %s in a lane of lease %s is of another project', server_id, lease.id)
            raise exceptions.Permanent(
                'It belongs to another project, so it is left as it is. An administrator must '
                'migrate it.'
            )
        task = server.get('OS-EXT-STS:task_state')
        context = self._context_of(server_id)
        if task in _MOVING:
            # While a guest is copied its progress changes, and with it the time of the change.
            moved = server.get('progress'), server.get('updated')
            return server_recovery.wait_for_task(
                context.observe(server['status'], task, *moved), server
            )
        # A server whose state was reset during a migration may still be on its host.
        was_reset = context.progress.asked == server_recovery.RESET_REQUEST
        is_moved = task is None and server['status'] != 'VERIFY_RESIZE' and not was_reset
        if not is_inside and is_moved:
            # The server runs on another host and has left the reservation.
            return None
        return server_end.take_end_step(context, server)

    def _context_of(self, server_id: str) -> EndContext:
        """Return the context of a server, which the reservation does not store itself."""
        outer = self._context
        own = dataclasses.replace(
            outer.reservation,
            resource_id=server_id,
            params={'on_end': self._action},
            status='pending',
            woken_at=None,
        )
        progress = Progress.load(self._servers[server_id], END, outer.now)
        return dataclasses.replace(outer, reservation=own, progress=progress)

    def _dump(self) -> dict[str, Any]:
        began = self._began.isoformat()
        return {'phase': END, _BEGAN: began, _ACTION: self._action, _SERVERS: self._servers}


def record_servers(reservation: 'Reservation', inside: Iterable[str]) -> dict[str, Any]:
    """Return the progress with the servers that are, or were, in the lanes of a reservation."""
    recorded = _recorded(reservation)
    return {_SHELVED: {**dict.fromkeys(sorted(inside), 0), **recorded}}


def carry_over(reservation: 'Reservation') -> Done | None:
    """Return the servers that the next start of a reservation unshelves; None: no servers."""
    recorded = _recorded(reservation)
    return Done({_SHELVED: recorded}) if recorded else None


def find_shelved(
    conn: 'connections.Connection', reservation: 'Reservation', projects: Collection[str]
) -> set[str]:
    """Return the ids of the recorded servers of some projects that are still shelved."""
    return {
        server_id for server_id in _recorded(reservation) if _is_shelved(conn, server_id, projects)
    }


def unshelve(
    conn: 'connections.Connection', reservation: 'Reservation', projects: Collection[str]
) -> PollAgain | None:
    """Unshelve the recorded servers of some projects; None if all run, or cannot."""
    left: dict[str, int] = {}
    for server_id, tries in sorted(_recorded(reservation).items()):
        try:
            server = servers.get(conn, server_id)
            if (
                server['status'] not in _SHELVED_STATUSES
                or servers.read_project(server) not in projects
            ):
                continue
            if server['OS-EXT-STS:task_state'] is None:
                if tries == _MAX_UNSHELVE_REQUESTS:
                    continue
                servers.act(conn, server_id, 'unshelve')
                tries += 1
        except (errors.Gone, errors.Forbidden):
            # A migration holds a slot, too, by an id of its own.
            continue
        except errors.Busy:
            pass
        left[server_id] = tries
    if not left:
        return None
    progress = {**(reservation.progress or {}), _SHELVED: left}
    return PollAgain(
        _UNSHELVE_POLL_SECONDS, f'Unshelving {words.counted(len(left), "server")}.', progress
    )


def _is_shelved(conn: 'connections.Connection', server_id: str, projects: Collection[str]) -> bool:
    try:
        server = servers.get(conn, server_id)
    except errors.Gone:
        return False
    return server['status'] in _SHELVED_STATUSES and servers.read_project(server) in projects


def _recorded(reservation: 'Reservation') -> Mapping[str, int]:
    return dict((reservation.progress or {}).get(_SHELVED, {}))


def evacuate(
    conn: 'connections.Connection', left: Mapping[str, str], projects: Collection[str]
) -> PollAgain | None:
    """Evacuate servers, also after a rejection of Nova; wait for servers that are still there.

    :param left: server -> the host that failed
    :param projects: the projects whose servers are evacuated; other servers stay
    :raises climate_core.exceptions.PluginFailure: the first rejection, once nothing else is left
    """
    present: list[str] = []
    refused: list[tuple[str, Exception]] = []
    for server_id, host in left.items():
        try:
            if _evacuate_one(conn, server_id, host, projects):
                present.append(server_id)
        except errors.EXPECTED as exc:
            refused.append((server_id, exc))
    if present:
        message = f'Evacuating {words.counted(len(present), "server")} from hosts that failed.'
        more = ''.join(
            f' Server {server_id} cannot be: {exc}'
            for server_id, exc in refused[:_MAX_NAMED_REFUSALS]
        )
        return PollAgain(_EVACUATION_POLL_SECONDS, message + more)
    if refused:
        raise refused[0][1]
    return None


def _evacuate_one(
    conn: 'connections.Connection', server_id: str, host: str, projects: Collection[str]
) -> bool:
    """Evacuate a server from a host that failed; return whether it is still there."""
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
