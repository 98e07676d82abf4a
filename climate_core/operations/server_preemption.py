# SPDX-License-Identifier: Apache-2.0
"""Find the preemptible leases without which servers fit in the common pool. Nothing is written.

The common pool is in no calendar, so the forecast decides. Leases that are earlier in the queue
get their capacity first. Nova is called for the servers of chosen leases only, and not at all if
there is no preemptible lease of servers.
"""

import contextlib
import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from climate_common import dates
from climate_common.resource_types import SERVER
from climate_core import exceptions
from climate_core.calendar.preemption import choose_fewest_preempted
from climate_core.cloud import Cloud, errors, servers
from climate_core.cloud.errors import require_services
from climate_core.concurrency import SearchBudget
from climate_core.db import forecast_reads, leases
from climate_core.db.forecast_reads import PreemptibleServers
from climate_core.lease import model, states
from climate_core.lease.events import queue
from climate_core.operations import pool_forecast
from climate_core.operations.draft import PreemptionChoice
from climate_core.operations.services import Services
from climate_core.plugins import server_end
from climate_core.plugins.forecast import (
    MAX_SEARCH_STEPS,
    Forecast,
    FutureDemand,
    NotExpected,
    Release,
)
from climate_core.plugins.pool_capacity import CommonHostCapacity

_PREEMPTING_KINDS: Final = frozenset(
    {states.LeaseKind.IMMEDIATE, states.LeaseKind.SCHEDULED, states.LeaseKind.RETRY}
)
#: The reason of a lease that is queued until preempted leases have released their servers.
PREEMPTS: Final = 'It preempts other leases and is queued until they release their capacity.'
#: Maximum number of earlier queued leases for which capacity is left, to bound the cost.
_MAX_LEASES_AHEAD: Final = 100
#: Maximum number of servers of these leases. A lease that exceeds it is skipped: it may claim what
#: preempted leases release for a later lease, which is then queued until its next retry.
_MAX_SERVERS_AHEAD: Final = 1000
#: How many times more checks what other leases take may cost than the lease itself: ten seconds.
_CLAIM_FACTOR: Final = 4
#: Maximum number of servers that one search requests from Nova, one by one: of the leases that it
#: chooses, and as many in vain.
_MAX_SERVERS_CHECKED: Final = 1000


def find_preempted(
    services: Services, lease: model.Lease, now: datetime.datetime, is_tried: bool = False
) -> PreemptionChoice | None:
    """Find the fewest leases without which all servers of a lease have a host.

    :param is_tried: whether Nova has just found no host; if the forecast finds one, preemption
        does not help
    :returns: no leases if there will be sufficient capacity anyway; None if there is no sufficient
        capacity without all of them either
    :raises climate_core.exceptions.ServiceUnavailable: Nova or Placement does not answer; try
        again later
    """
    if lease.preemptible or lease.kind not in _PREEMPTING_KINDS:
        return None
    if not lease.live or len(_find_servers(lease)) < len(lease.live):
        return None
    first, end = queue.granted_period(lease, now)
    if lease.kind == states.LeaseKind.SCHEDULED:
        first -= datetime.timedelta(seconds=services.conf[SERVER].lead_seconds)
    notice = datetime.timedelta(seconds=services.conf.queue.preemption_notice)
    # When preempted leases release their servers, and when the lease can start.
    time = max(now + notice, first - pool_forecast.PREEMPTION_TIME)
    start = max(lease.start_date, time + pool_forecast.PREEMPTION_TIME)
    if lease.duration is not None:
        end = max(end, start + datetime.timedelta(seconds=lease.duration))
    if start >= end:
        return None
    preemptible = services.database.read(forecast_reads.find_preemptible_servers, end)
    if not preemptible:
        return None
    if is_tried and not all(reservation.is_made for reservation in lease.live):
        # A server of which only Nova knows yet would not be counted.
        raise exceptions.ServiceUnavailable('Not all of its servers are requested yet.')
    try:
        snapshot = _PoolSnapshot(services, lease, (start, end))
    except exceptions.BadRequest:
        # Its demand is not known, so the leases to preempt are not known either.
        return None
    if is_tried and snapshot.is_enough_now():
        return None
    reason = PREEMPTS if start > lease.start_date else None
    if snapshot.is_enough(()):
        # Leases that are being preempted already are sufficient, or there is capacity soon
        # without preemption.
        is_preempting = any(other.given_up_at for other in preemptible)
        return PreemptionChoice(lease, (), time, reason) if is_preempting else None
    candidates = [
        other for other in preemptible if other.given_up_at is None and snapshot.knows(other)
    ]
    active = [other for other in candidates if other.runs]
    chosen = _choose(candidates, snapshot, _PreemptionObstacles(services.cloud, active))
    return PreemptionChoice(lease, chosen, time, reason) if chosen else None


class _PreemptionObstacles:
    """Find in Nova which leases cannot be preempted.

    Each project has the same share of the servers that are checked in vain. Of a project without
    any left no more leases are checked, and none of them is preempted.

    :param cloud: the rights of the service
    :param running: all leases that may be chosen, the youngest first
    """

    def __init__(self, cloud: Cloud, running: Sequence[PreemptibleServers]) -> None:
        with require_services():
            self._conn = cloud.service()
        self._unchecked = {each.lease_id: each for each in running}
        projects = {each.project_id for each in running}
        self._shares = {
            each: SearchBudget(_MAX_SERVERS_CHECKED // len(projects)) for each in projects
        }
        self._counts = Counter[str]()

    def find(self, chosen: Sequence[PreemptibleServers]) -> set[str]:
        """Find leases that cannot be preempted, among some that are chosen.

        :returns: their ids, and those of other leases of the same projects that are not to be
            chosen either
        :raises climate_core.exceptions.ServiceUnavailable: Nova does not answer
        """
        new = [each for each in chosen if each.lease_id in self._unchecked]
        found = {each.lease_id: each.project_id for each in new if not self._is_preemptible(each)}
        for project_id in {*found.values()}:
            others = [e for e in self._unchecked.values() if e.project_id == project_id]
            # Double the checks: few searches follow, however many leases cannot be preempted.
            for each in others[: self._counts[project_id]]:
                if self._shares[project_id].left > 0 and not self._is_preemptible(each, False):
                    found[each.lease_id] = project_id
            if self._shares[project_id].left <= 0:
                unknown = (each for each in others if each.lease_id in self._unchecked)
                found |= dict.fromkeys((each.lease_id for each in unknown), project_id)
        return {*found}

    def _is_preemptible(self, lease: PreemptibleServers, is_chosen: bool = True) -> bool:
        del self._unchecked[lease.lease_id]
        self._counts[lease.project_id] += 1
        share = self._shares[lease.project_id]
        try:
            for server_id in lease.servers:
                share.spend()
                if server_end.find_obstacle(servers.get(self._conn, server_id)):
                    return False
        except errors.Gone:
            return False
        except errors.EXPECTED as exc:
            # Nova may answer the next time: the lease must not fail for one timeout.
            raise exceptions.ServiceUnavailable(str(exc)) from exc
        if is_chosen:
            # A successful check is free.
            share.left += len(lease.servers)
        return True


class _PoolSnapshot:
    """The present state of the shared hosts, and what a lease requests of them.

    :param period: from when to when the lease wants it
    :ivar budget: of checks of hosts, and for the servers of the lease
    :ivar claim_budget: of checks for what other leases take, which other projects request
    :raises climate_core.exceptions.BadRequest: what the lease takes is not known
    """

    def __init__(
        self,
        services: Services,
        lease: model.Lease,
        period: tuple[datetime.datetime, datetime.datetime],
    ) -> None:
        database = services.database
        with require_services():
            self._pool = CommonHostCapacity(services.cloud.service())
        self._places = self._pool.places
        self._start, self._end = map(dates.to_microseconds, period)
        self._releases = pool_forecast.read_releases(database, SERVER, self._pool)
        self._claims = pool_forecast.read_future_demands(database, SERVER, self._pool)
        self._claims.pop(lease.id, None)
        # Servers that are present need no further capacity.
        wanted = [each for each in _find_servers(lease) if each.resource_id not in self._places]
        self._requested = self._demand(wanted)
        waiting = [each.id for each in database.read(leases.read_queue) if each.needs_forecast]
        first = database.read(leases.read_waiting, waiting[:_MAX_LEASES_AHEAD])
        self._ahead: list[FutureDemand] = []
        self.budget, self.claim_budget = (
            SearchBudget(MAX_SEARCH_STEPS),
            SearchBudget(_CLAIM_FACTOR * MAX_SEARCH_STEPS),
        )
        count = 0
        for each in (each for each in first if _is_ahead(each, lease)):
            made = _find_servers(each)
            if count + len(made) > _MAX_SERVERS_AHEAD:
                continue
            count += len(made)
            # What is not known, as of a deleted flavor, cannot be counted.
            with contextlib.suppress(exceptions.BadRequest):
                self._ahead.append(self._demand(made))

    @property
    def is_cut_short(self) -> bool:
        """Return whether a budget is spent: sets may have been rejected without a full check."""
        return min(self.budget.left, self.claim_budget.left) <= 0

    def knows(self, lease: PreemptibleServers) -> bool:
        """Return whether it is known what a lease would release."""
        return not lease.runs or all(each in self._places for each in lease.servers)

    def is_enough_now(self) -> bool:
        """Return whether there is sufficient capacity now, whatever is expected later."""
        return _fits(Forecast(self._pool.hosts), self._requested)

    def is_enough(self, some: Sequence[PreemptibleServers]) -> bool:
        """Return whether there is capacity without some leases, after earlier queued leases.

        :returns: False, too, if a budget is spent
        """
        # A forecast reads all hosts.
        cost = len(self._pool.hosts) + len(self._requested.servers)
        if self.is_cut_short or not self.budget.spend(cost):
            return False
        freed = (
            Release(at=self._start, host=self._places[each], amounts=self._pool.released(amounts))
            for lease in some
            if lease.runs
            for each, amounts in lease.servers.items()
        )
        without = {each.lease_id for each in some}
        claims = [each for lease_id, each in self._claims.items() if lease_id not in without]
        releases = [*self._releases, *freed]
        forecast = Forecast(self._pool.hosts, releases, [*self._ahead, *claims])
        # Each set places all claims again.
        forecast.budget, forecast.claim_budget = self.budget, self.claim_budget
        return _fits(forecast, self._requested)

    def choose_fewest(self, candidates: Sequence[PreemptibleServers]) -> list[PreemptibleServers]:
        """Choose the fewest leases without which the capacity is sufficient.

        When half of the checks for other leases are spent no more sets are compared: the rest is
        for finding a set at all, which other projects must not prevent.
        """
        half = _CLAIM_FACTOR * MAX_SEARCH_STEPS // 2
        return choose_fewest_preempted(
            candidates, self.is_enough, lambda: self.claim_budget.left > half
        )

    def _demand(self, wanted: Iterable[model.Reservation]) -> FutureDemand:
        found = [pool_forecast.read_demand(self._pool, each.id, each) for each in wanted]
        return FutureDemand(start=self._start, end=self._end, servers=found)


def _choose(
    candidates: Sequence[PreemptibleServers],
    snapshot: _PoolSnapshot,
    obstacles: _PreemptionObstacles,
) -> tuple[str, ...]:
    """Choose leases all of whose servers can be preempted.

    :returns: their ids; none also if the search for them costs too much
    """
    chosen = snapshot.choose_fewest([lease for lease in candidates if not lease.runs])
    while True:
        chosen = chosen or snapshot.choose_fewest(candidates)
        # A search that was cut short could preempt more leases than the fewest.
        if not chosen or snapshot.is_cut_short:
            return ()
        if sum(len(lease.servers) for lease in chosen if lease.runs) > _MAX_SERVERS_CHECKED:
            return ()
        rejected = obstacles.find(chosen)
        if not rejected:
            return tuple(lease.lease_id for lease in chosen)
        candidates = [lease for lease in candidates if lease.lease_id not in rejected]
        chosen = []


def _fits(forecast: Forecast, demand: FutureDemand) -> bool:
    try:
        forecast.check(demand)
    except NotExpected:
        return False
    return True


def _find_servers(lease: model.Lease) -> list[model.Reservation]:
    """Return the reservations of servers that are created for a lease."""
    return [each for each in lease.live if each.group and each.resource_type == SERVER]


def _is_ahead(other: model.Lease, lease: model.Lease) -> bool:
    """Return whether a queued lease is earlier in the queue than another lease."""
    return other.id != lease.id and model.queue_order(other) < model.queue_order(lease)
