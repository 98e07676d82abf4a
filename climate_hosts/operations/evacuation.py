# SPDX-License-Identifier: Apache-2.0
"""Evacuate shared hosts for a lease: the kind ``best_effort`` and the event ``make_room``.

The hosts are taken from ordinary servers in the transaction that writes the lease. Each pass
compares: a host must be isolated from ordinary servers, and each server on it must be moved.
Nova stores which servers are being moved, so a manager that dies leaves nothing to repair. No
server is stopped or deleted. :mod:`climate_hosts.operations.shared_hosts` returns hosts that are
no longer needed, whatever became of the lease.
"""

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from oslo_log import log
from sqlalchemy import orm
from stevedore import driver

from climate_common import dates
from climate_core import exceptions
from climate_core.cloud import errors
from climate_core.cloud.connections import Connection
from climate_core.db.project_limits import Amounts
from climate_core.lease import model
from climate_core.lease.events import queue
from climate_core.operations.allocation import count_shortage
from climate_core.operations.draft import Draft
from climate_core.operations.services import HostEvacuation, Services
from climate_core.operations.wait_queue import WaitQueue
from climate_core.plugins import server_placement
from climate_core.plugins.base import PollAgain
from climate_core.plugins.loading import PluginError
from climate_core.plugins.server_placement import CandidateHost, CannotDrainHosts
from climate_hosts import placement
from climate_hosts.db import host_reservations
from climate_hosts.db.host_reservations import SharedHost
from climate_hosts.operations import shared_hosts
from climate_hosts.operations.draining import (
    MOVABLE,
    MOVING,
    Hypervisors,
    live_migrate,
    read_candidate,
    read_candidates,
)
from climate_hosts.watch import isolation

LOG = log.getLogger(__name__)


NAMESPACE: Final = 'climate.migration.strategies'
_STRATEGIES: Final[Mapping[str, server_placement.Strategy]] = {
    function.__name__: function
    for function in (
        server_placement.fewest_servers,
        server_placement.least_memory,
        server_placement.oldest_first,
    )
}
#: Candidates are read in batches of this size, or of twice the requested number; two calls each.
_BATCH_SIZE: Final = 10
#: After this number of candidates the request is rejected.
_MAX_CANDIDATES: Final = 100
#: The key of the progress of the reservation: until when its hosts must be empty.
UNTIL: Final = 'until'
#: Seconds until the next poll of servers that are being moved.
_POLL_SECONDS: Final = 2.0
#: After this number of requests that did not move a server its host is replaced.
_MAX_REQUESTS: Final = 3
#: The keys of the progress of the reservation: since when each host is closed at the latest, how
#: often each server was to be moved, and the hosts that were replaced.
_CLOSED: Final = 'closed'
_SERVERS: Final = 'servers'
_EXCLUDED: Final = 'refused'
#: Without the name of the host, which the owner of the lease never gets.
_HOST_REPLACED: Final = 'A host could not be drained, so another one is chosen.'
_TIMED_OUT: Final = 'No hosts were drained for it by {}. {}'


def load_strategy(name: str) -> server_placement.Strategy:
    """Return the strategy of ``[queue] migration_strategy``.

    :raises climate_core.plugins.loading.PluginError: there is none of this name
    """
    if name in _STRATEGIES:
        return _STRATEGIES[name]
    try:
        found: server_placement.Strategy = driver.DriverManager(NAMESPACE, name).driver
    except RuntimeError as exc:
        raise PluginError(
            f'[queue] migration_strategy: {name} is not installed in {NAMESPACE}; there are '
            f'{", ".join(_STRATEGIES)}.'
        ) from exc
    return found


class PoolHostEvacuation(HostEvacuation):
    """Choose hosts that can be evacuated for a lease, evacuate them, and allocate them to it."""

    def __init__(self, services: Services, queue: WaitQueue) -> None:
        self.conf = services.conf
        self.database = services.database
        self.services = services
        self.cloud = services.cloud
        self.queue = queue
        self._clock = services.clock
        self._strategy = load_strategy(self.conf.queue.migration_strategy)

    def choose_hosts(self, draft: Draft, rejection: exceptions.NotEnough) -> tuple[int, ...]:
        """Return the ids of the hosts that are to be evacuated for a new lease.

        :param rejection: the rejection without an evacuation
        :raises climate_core.exceptions.NotEnough: too few can be evacuated
        :raises climate_core.exceptions.BadRequest: the lease starts too late
        """
        lease = draft.lease
        max_seconds = self.conf.queue.best_effort_timeout
        if lease.start_date > draft.now + datetime.timedelta(seconds=max_seconds):
            raise exceptions.BadRequest(
                f'Hosts are drained immediately, so a lease of the kind best_effort must start '
                f'within {max_seconds} seconds.',
                field='start_date',
            )
        if draft.request is not None and draft.request.lasts is not None:
            seconds = round(draft.request.lasts.total_seconds())
            lease = dataclasses.replace(lease, duration=seconds)
        try:
            return tuple(candidate.id for candidate in self.choose(lease, draft.now))
        except CannotDrainHosts as exc:
            message = f'{exc} {rejection.message}'
            raise exceptions.NotEnough(message, rejection.field, rejection.available_from) from exc
        except errors.EXPECTED as exc:
            raise exceptions.ServiceUnavailable(str(exc)) from exc

    def take_hosts(self, session: orm.Session, draft: Draft, lease: model.Lease) -> model.Lease:
        """Take the hosts that are to be evacuated for the new lease of a draft; return the lease.

        :raises climate_core.exceptions.NotEnough: another lease has taken one of them
        """
        request, max_seconds = draft.request, self.conf.queue.best_effort_timeout
        assert request is not None, 'hosts are drained for a whole lease'  # nosec B101 # for mypy: it holds already
        for host_id in draft.hosts_to_evacuate:
            shared_hosts.take_for_lease(session, host_id, lease.id)
        until = draft.now + datetime.timedelta(seconds=request.best_effort_timeout or max_seconds)
        progress = {UNTIL: until.isoformat()}
        return queue.drain_hosts_for(lease, progress, request.lasts, draft.wait_reason, draft.now)

    def connect(self) -> Connection:
        """Return the connection with the rights of the service."""
        assert self.cloud is not None, 'there are hosts'  # nosec B101 # for mypy: it holds already
        return self.cloud.service()

    def choose(
        self, lease: model.Lease, now: datetime.datetime, without: Collection[int] = ()
    ) -> list[CandidateHost]:
        """Choose hosts to evacuate, beside those that are being evacuated for the lease.

        :raises climate_core.plugins.server_placement.CannotDrainHosts: too few
        """
        missing, matching_ids = count_shortage(self.services, lease, now)
        present = [
            host
            for host in self.database.read(host_reservations.list_available)
            if host.id in matching_ids and host.id not in without
        ]
        evacuating = self.database.read(host_reservations.list_evacuating)
        count = max(0, missing - sum(host.emptied_for == lease.id for host in evacuating))
        if count > len(present) or not count:
            return server_placement.choose_hosts(
                [CandidateHost(id=e.id, name='') for e in present], count, ()
            )
        conn = self.connect()
        hypervisors = Hypervisors(conn)
        free = server_placement.FreeCapacity(hypervisors.targets())
        # The servers of hosts that are being evacuated are placed first.
        moving = list(read_candidates(conn, evacuating))
        up, looked = hypervisors.emptiest_first(present), list[CandidateHost]()
        size, spares = max(_BATCH_SIZE, 2 * count), self.conf.queue.spare_servers
        failure = CannotDrainHosts()
        for first in range(0, max(1, min(len(up), max(_MAX_CANDIDATES, size))), size):
            looked += read_candidates(conn, up[first : first + size])
            try:
                return server_placement.choose_hosts(
                    looked, count, free, self._strategy, spares, moving
                )
            except CannotDrainHosts as exc:
                failure = exc
        if len(up) <= len(looked):
            raise failure
        raise CannotDrainHosts(f'{failure} Those with more servers were not checked.')

    def step(self, lease: model.Lease) -> PollAgain | None:
        """Take the next step of the evacuation.

        :returns: until when to wait; None: the lease needs no evacuation any more
        :raises climate_core.exceptions.Permanent: it timed out
        """
        (reservation,) = queue.pending_reservations(lease) or (None,)
        if reservation is None:
            return None
        progress, now = dict(reservation.progress or {}), self._clock.now()
        until = datetime.datetime.fromisoformat(progress[UNTIL])
        if now >= until:
            # SharedHostReturner returns the hosts once the lease is written as timed out.
            message = _TIMED_OUT.format(dates.sentence(until), lease.status_reason or '')
            raise exceptions.Permanent(message.strip())
        wait = _EvacuationPass(self, lease, progress, now).run()
        if wait is None:
            return None
        seconds = min(wait.seconds, (until - now).total_seconds())
        return dataclasses.replace(wait, seconds=seconds, progress=progress)

    def grant(self, lease: model.Lease, evacuated: Sequence[int]) -> None:
        """Allocate hosts that are empty to a lease.

        :param evacuated: the ids of the hosts
        :raises climate_core.exceptions.ClimateError: its project exceeds its limits by now, or the
            hosts that are to be added to them were allocated to other leases
        """
        most = self.queue.check_limits(lease)
        self.database.write(self._write_grant, lease, most, evacuated)

    def _write_grant(
        self,
        session: orm.Session,
        lease: model.Lease,
        most: Amounts | None,
        evacuated: Sequence[int],
    ) -> None:
        if self.queue.write_grant(session, lease, most, evacuated):
            shared_hosts.complete_evacuation(session, host_ids=evacuated, lease_id=lease.id)


class _EvacuationPass:
    """One pass of the evacuation of the hosts of a lease.

    :param progress: is changed
    """

    def __init__(
        self,
        evacuation: PoolHostEvacuation,
        lease: model.Lease,
        progress: dict[str, Any],
        now: datetime.datetime,
    ) -> None:
        self._evacuation = evacuation
        self._database = evacuation.database
        self._conn = evacuation.connect()
        self._lease = lease
        self._progress = progress
        self._now = now
        self._requests: dict[str, int] = dict(progress.get(_SERVERS, {}))
        self._closed: dict[str, str] = dict(progress.get(_CLOSED, {}))

    def run(self) -> PollAgain | None:
        evacuating = self._database.read(host_reservations.list_evacuating)
        evacuated = [host for host in evacuating if host.emptied_for == self._lease.id]
        missing, _ = count_shortage(self._evacuation.services, self._lease, self._now)
        if not missing:
            # Other leases have released enough: the hosts that were taken are returned.
            self._evacuation.grant(self._lease, [])
            return None
        if len(evacuated) < missing:
            return self._take_more()
        self._close(evacuated)
        candidates: list[CandidateHost] = []
        for host in evacuated:
            try:
                candidates.append(read_candidate(self._conn, host))
            except errors.Gone:
                return self._replace(host, 'Placement does not have it any more.')
            obstacle = self._find_obstacle(candidates[-1])
            if obstacle is not None:
                return self._replace(host, obstacle)
        left = [server for candidate in candidates for server in candidate.servers]
        idle = [server.id for server in left if server.status in MOVABLE]
        if left and not self._requests and len(idle) == len(left):
            # Another lease may have got its hosts at the same moment.
            ahead = itertools.takewhile(lambda host: host not in evacuated, evacuating)
            if not self._can_place(candidates, ahead):
                return self._replace(evacuated[-1], 'Its servers do not fit elsewhere any more.')
        self._move(idle, len(left), len({host.emptied_for for host in evacuating}))
        if left:
            number = max(len(self._requests), len(left))
            message = f'Hosts are being drained for it: moved {number - len(left)} of {number}.'
            return PollAgain(_POLL_SECONDS, message)
        return self._grant(evacuated)

    def _grant(self, evacuated: Sequence[SharedHost]) -> PollAgain | None:
        """Grant the lease its hosts, which are empty, when no server can enter them any more."""
        # A server that was scheduled before the hosts were closed claims its host a moment later.
        since = max(map(datetime.datetime.fromisoformat, self._closed.values()))
        rest = self._evacuation.conf.hosts.enrol_seconds - (self._now - since).total_seconds()
        if rest > 0:
            return PollAgain(rest)
        hypervisors = Hypervisors(self._conn)
        for host in evacuated:
            # The watch of hosts ignores hosts that take no allocations.
            if not hypervisors.is_up(host.provider_id):
                return self._replace(host, 'Its nova-compute is down or disabled.')
        self._evacuation.grant(self._lease, [host.id for host in evacuated])
        return None

    def _take_more(self) -> PollAgain:
        """Take more hosts for the lease, which has too few."""
        excluded = self._progress.get(_EXCLUDED, [])
        try:
            more = self._evacuation.choose(self._lease, self._now, excluded)
        except CannotDrainHosts as exc:
            return PollAgain(self._evacuation.conf.queue.retry_interval / 10, str(exc))
        ids = [candidate.id for candidate in more]
        self._database.write(shared_hosts.take_all_for_lease, ids, self._lease.id)
        return PollAgain(0.0)

    def _close(self, evacuated: Iterable[SharedHost]) -> None:
        """Keep ordinary servers off hosts.

        If a manager closed a host and died before it wrote the time, the time of this pass counts.
        """
        before, now = self._closed, self._now.isoformat()
        self._closed = {}
        for host in evacuated:
            self._closed[str(host.id)] = before.get(str(host.id), now)
            with contextlib.suppress(errors.Gone):
                if not placement.is_in_pool(self._conn, host.provider_id):
                    isolation.update_isolation(self._database, self._conn, host.provider_id)
                    self._closed[str(host.id)] = now
        self._progress[_CLOSED] = self._closed

    def _find_obstacle(self, candidate: CandidateHost) -> str | None:
        """Return why a host cannot be evacuated; None: it can."""
        for server in candidate.servers:
            if server.obstacle and server.status != MOVING:
                return f'Server {server.id} {server.obstacle}.'
            is_movable = server.status in MOVABLE
            if self._requests.get(server.id, 0) >= _MAX_REQUESTS and is_movable:
                return f'Nova did not move server {server.id}.'
        return None

    def _can_place(self, chosen: Sequence[CandidateHost], ahead: Iterable[SharedHost]) -> bool:
        """Return whether the servers of chosen hosts fit on other hosts.

        :param ahead: hosts whose servers are placed first
        """
        targets = Hypervisors(self._conn).targets()
        moving = read_candidates(self._conn, ahead)
        spares = self._evacuation.conf.queue.spare_servers
        return server_placement.place_servers([*moving, *chosen], targets, spares) is not None

    def _replace(self, host: SharedHost, reason: str) -> PollAgain:
        """Replace a host that cannot be evacuated by others, if there are, and return it."""
        excluded = [*self._progress.get(_EXCLUDED, []), host.id]
        self._progress[_EXCLUDED] = excluded
        self._database.write(shared_hosts.release_from_lease, host.id, self._lease.id)
        with contextlib.suppress(CannotDrainHosts):
            more = self._evacuation.choose(self._lease, self._now, excluded)
            ids = [candidate.id for candidate in more]
            self._database.write(shared_hosts.take_all_for_lease, ids, self._lease.id)
        LOG.warning('%s is not drained for lease %s: %s', host.name, self._lease.id, reason)
        return PollAgain(0.0, _HOST_REPLACED)

    def _move(self, idle: Sequence[str], left: int, leases: int) -> None:
        """Request to move servers, as many concurrently as this lease may have moved.

        :param idle: the ids of servers that are to be moved and do not move yet
        :param left: the number of servers that are to leave its hosts
        :param leases: the number of leases for which hosts are being evacuated
        """
        for server_id in idle:
            self._requests.setdefault(server_id, 0)
        share = self._evacuation.conf.queue.migrations // leases
        moving = left - len(idle)
        for server_id in idle[: max(0, max(1, share) - moving)]:
            self._requests[server_id] += 1
            live_migrate(self._conn, server_id)
        self._progress[_SERVERS] = self._requests
