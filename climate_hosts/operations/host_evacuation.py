# SPDX-License-Identifier: Apache-2.0
"""Evacuate the shared hosts that were taken for a lease: the event ``make_room``.

Each pass compares: a host must be isolated from ordinary servers, and each server on it must
be moved. Nova stores which servers are being moved, so a manager that dies leaves nothing to
repair. No server is stopped or deleted. :mod:`climate_hosts.operations.shared_hosts` returns
hosts that are no longer needed, whatever became of the lease.
"""

import contextlib
import dataclasses
import datetime
import functools
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from oslo_log import log

from climate_common import dates
from climate_core import exceptions
from climate_core.cloud import errors, placement
from climate_core.db.engine import Clock
from climate_core.lease import model, states
from climate_core.lease.changes import queueing
from climate_core.operations.wait_queue import WaitQueue
from climate_core.plugins.base import PollAgain
from climate_core.plugins.common_pool import server_placement
from climate_core.plugins.common_pool.server_placement import (
    CandidateHost,
    CannotDrainHosts,
    RunningServer,
)
from climate_hosts.db import shared_hosts as db_shared
from climate_hosts.db.shared_hosts import SharedHost
from climate_hosts.operations import evacuation_inventory, shared_hosts
from climate_hosts.operations.evacuation_planner import UNTIL, EvacuationPlanner
from climate_hosts.watch import isolation

LOG = log.getLogger(__name__)

#: Seconds until the next look at servers that are being moved.
_POLL_SECONDS: Final = 2.0
#: After so many requests that did not move a server its host is given up.
_MAX_REQUESTS: Final = 3
#: What is kept with the reservation: since when each host is closed at the latest, how often each
#: server was to be moved, and the hosts that were given up.
_CLOSED: Final = 'closed'
_SERVERS: Final = 'servers'
_EXCLUDED: Final = 'refused'
#: Without the name of the host, which the owner of the lease never gets.
_HOST_REPLACED: Final = 'A host could not be emptied, so another one is looked for.'
_TIMED_OUT: Final = 'No hosts were emptied for it by {}. {}'


@dataclasses.dataclass(eq=False)
class HostEvacuation:
    """Empty the hosts of leases, and promise the hosts to them when they are empty.

    :param planner: chooses others for those that cannot be emptied
    """

    planner: EvacuationPlanner
    queue: WaitQueue
    clock: Clock

    def step(self, lease: model.Lease) -> PollAgain | None:
        """Take the next step of emptying hosts.

        :returns: until when to wait; None: the lease needs no room any more
        :raises climate_core.exceptions.Permanent: it took too long
        """
        (reservation,) = queueing.pending_reservations(lease) or (None,)
        if reservation is None:
            return None
        progress, now = dict(reservation.progress or {}), self.clock.now()
        until = datetime.datetime.fromisoformat(progress[UNTIL])
        if now >= until:
            # sync.hosts.shared_hosts gives its hosts back once the lease is written as given up.
            told = _TIMED_OUT.format(dates.sentence(until), lease.status_reason or '')
            raise exceptions.Permanent(told.strip())
        wait = _EvacuationPass(self, lease, progress, now).run()
        if wait is None:
            return None
        seconds = min(wait.seconds, (until - now).total_seconds())
        return dataclasses.replace(wait, seconds=seconds, progress=progress)

    def has_capacity_for(
        self, chosen: Sequence[CandidateHost], before: Iterable[SharedHost]
    ) -> bool:
        """Tell whether the servers of chosen hosts find room beside those of hosts before them."""
        conn = self.planner.connect()
        targets = evacuation_inventory.Hypervisors(conn).targets()
        moving = evacuation_inventory.read_candidates(conn, before)
        spares = self.planner.conf.queue.spare_servers
        return server_placement.place_servers([*moving, *chosen], targets, spares) is not None

    def replace(
        self,
        lease: model.Lease,
        host: SharedHost,
        without: Collection[int],
        now: datetime.datetime,
    ) -> list[int]:
        """Replace a host that cannot be emptied by others, if there are, and give it back.

        :param without: the ids of hosts that were given up
        :returns: the ids of the others
        """
        database = self.planner.database
        database.write(shared_hosts.release_from_lease, host.id, lease.id)
        try:
            chosen = [each.id for each in self.planner.choose(lease, now, without)]
        except CannotDrainHosts:
            return []
        database.write(shared_hosts.take_all_for_lease, chosen, lease.id)
        return chosen

    def grant(self, lease: model.Lease, emptied: Sequence[int]) -> None:
        """Promise a lease the hosts that are empty.

        :raises climate_core.exceptions.ClimateError: its project exceeds its limits by now, or
            others were promised what is to be added to them
        """
        self.queue.grant(
            lease,
            states.LeaseStatus.IN_PROGRESS,
            emptied,
            functools.partial(
                shared_hosts.complete_evacuation, emptied=emptied, lease_id=lease.id
            ),
        )


class _EvacuationPass:
    """One pass of draining the hosts of a lease.

    :param progress: is changed
    """

    def __init__(
        self,
        steps: HostEvacuation,
        lease: model.Lease,
        progress: dict[str, Any],
        now: datetime.datetime,
    ) -> None:
        self._steps = steps
        self._planner = steps.planner
        self._database = steps.planner.database
        self._conn = steps.planner.connect()
        self._lease = lease
        self._progress = progress
        self._now = now
        self._tries: dict[str, int] = dict(progress.get(_SERVERS, {}))
        self._closed: dict[str, str] = dict(progress.get(_CLOSED, {}))

    def run(self) -> PollAgain | None:
        emptied = self._database.read(db_shared.list_evacuating)
        taken = [each for each in emptied if each.emptied_for == self._lease.id]
        missing, _ = self._planner.allocation_service.count_shortage(self._lease, self._now)
        if not missing:
            # Others have freed enough: what was taken is given back.
            self._steps.grant(self._lease, [])
            return None
        more = self._choose_more(taken, missing)
        if more is not None:
            return more
        self._close(taken)
        found: list[CandidateHost] = []
        for host in taken:
            try:
                found.append(evacuation_inventory.read_candidate(self._conn, host))
            except errors.Gone:
                return self._replace_host(host, 'Placement does not have it any more.')
            wrong = self._find_obstacle(found[-1])
            if wrong is not None:
                return self._replace_host(host, wrong)
        left = [server for each in found for server in each.servers]
        if (
            left
            and not self._tries
            and all(e.status in evacuation_inventory.MOVABLE for e in left)
        ):
            # Another lease may have got its hosts at the same moment.
            ahead = itertools.takewhile(lambda each: each not in taken, emptied)
            if not self._steps.has_capacity_for(found, ahead):
                return self._replace_host(taken[-1], 'Its servers do not fit elsewhere any more.')
        self._move(
            [each.id for each in left if each.status in evacuation_inventory.MOVABLE],
            left,
            emptied,
        )
        if left:
            number = max(len(self._tries), len(left))
            told = f'Hosts are being emptied for it: moved {number - len(left)} of {number}.'
            return PollAgain(_POLL_SECONDS, told)
        return self._grant(taken)

    def _grant(self, taken: Sequence[SharedHost]) -> PollAgain | None:
        """Grant the lease its hosts, which are empty, when no server can come to them any more."""
        # A server that was scheduled before the hosts were closed claims its host a moment later.
        since = max(map(datetime.datetime.fromisoformat, self._closed.values()))
        rest = self._planner.conf.hosts.enrol_seconds - (self._now - since).total_seconds()
        if rest > 0:
            return PollAgain(rest)
        nodes = evacuation_inventory.Hypervisors(self._conn)
        for host in taken:
            # The watch of hosts does not look at hosts that take no promises.
            if not nodes.is_up(host.provider_id):
                return self._replace_host(host, 'Its nova-compute is down or disabled.')
        self._steps.grant(self._lease, [each.id for each in taken])
        return None

    def _choose_more(self, taken: Sequence[SharedHost], missing: int) -> PollAgain | None:
        """Choose more hosts if the lease has too few; None: it has enough."""
        if len(taken) >= missing:
            return None
        refused = self._progress.get(_EXCLUDED, [])
        try:
            more = self._planner.choose(self._lease, self._now, refused)
        except CannotDrainHosts as exc:
            return PollAgain(self._planner.conf.queue.retry_interval / 10, str(exc))
        self._database.write(
            shared_hosts.take_all_for_lease, [each.id for each in more], self._lease.id
        )
        return PollAgain(0.0)

    def _close(self, taken: Iterable[SharedHost]) -> None:
        """Keep ordinary servers off hosts.

        The time of one that a manager closed that died before it wrote so is that of this look.
        """
        before, now = self._closed, self._now.isoformat()
        self._closed = {}
        for host in taken:
            self._closed[str(host.id)] = before.get(str(host.id), now)
            with contextlib.suppress(errors.Gone):
                if not placement.is_in_pool(self._conn, host.provider_id):
                    isolation.update_isolation(self._database, self._conn, host.provider_id)
                    self._closed[str(host.id)] = now
        self._progress[_CLOSED] = self._closed

    def _find_obstacle(self, found: CandidateHost) -> str | None:
        """Return why a host cannot be emptied; None: it can."""
        for each in found.servers:
            if each.obstacle and each.status != evacuation_inventory.MOVING:
                return f'Server {each.id} {each.obstacle}.'
            if (
                self._tries.get(each.id, 0) >= _MAX_REQUESTS
                and each.status in evacuation_inventory.MOVABLE
            ):
                return f'Nova did not move server {each.id}.'
        return None

    def _replace_host(self, host: SharedHost, wrong: str) -> PollAgain:
        refused = [*self._progress.get(_EXCLUDED, []), host.id]
        self._progress[_EXCLUDED] = refused
        self._steps.replace(self._lease, host, refused, self._now)
        LOG.warning('%s is not emptied for lease %s: %s', host.name, self._lease.id, wrong)
        return PollAgain(0.0, _HOST_REPLACED)

    def _move(
        self, idle: Sequence[str], left: Sequence[RunningServer], emptied: Iterable[SharedHost]
    ) -> None:
        """Ask for servers to be moved, as many at once as this lease may have moved.

        :param left: all that are to leave its hosts
        :param emptied: the hosts that are being emptied for any lease
        """
        for server_id in idle:
            self._tries.setdefault(server_id, 0)
        share = self._planner.conf.queue.migrations // len({each.emptied_for for each in emptied})
        moving = len(left) - len(idle)
        for server_id in idle[: max(0, max(1, share) - moving)]:
            self._tries[server_id] += 1
            evacuation_inventory.live_migrate(self._conn, server_id)
        self._progress[_SERVERS] = self._tries
