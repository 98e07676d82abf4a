# SPDX-License-Identifier: Apache-2.0
"""Watch the hosts of the pools, and replace those that failed in their leases.

No notification reports that a host died: Nova sends one only when an operator or a fencing tool
changes a service. So all services are polled, with the rights of the service. Nova reports since
when a service is silent, and the rest is in the database. Several managers may do it concurrently:
each step reads the present state, and writes only what differs.

A host that failed is out of use until its nova-compute is up and the servers of the leases that
released it are gone. Its allocations are moved to other hosts, immediately or at a later poll. Of
a host that an operator disabled, or that became too small for its allocations, leases that have
not started are moved, if there is capacity. While a lease lacks a host, a manager also polls when
it has released a host itself.

When too many hosts are down at the same time, Nova itself has failed: nothing is written until it
works.
"""

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, NamedTuple

from oslo_config import cfg
from oslo_log import log
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.calendar import Calendar
from climate_core.calendar.transaction import CalendarTransaction
from climate_core.cloud import Cloud, servers
from climate_core.db import calendar as db_calendar
from climate_core.db import events, leases, sql, store
from climate_core.db.engine import DATABASE_ERRORS, Database, Stale, TransactionRejected, signal
from climate_core.lease import model, resources, states
from climate_core.lease.history import Cause
from climate_core.plugins.base import HostBacked, ResourcePlugin
from climate_core.threads import PeriodicWorker
from climate_hosts import hosts, lane_providers, placement
from climate_hosts.db import host_reservations as db
from climate_hosts.db import hosts as db_hosts
from climate_hosts.db.host_reservations import ReservedHost, WatchedHost
from climate_hosts.metrics import HostMetrics
from climate_hosts.power.states import WAKE_FAILED
from climate_hosts.watch import PASS_ERRORS

LOG = log.getLogger(__name__)

#: The first poll is soon after the start: within this number of seconds.
_FIRST_SECONDS = 10.0
#: Seconds until the next poll while there are no hosts: the manager that enrols the first host
#: polls immediately.
_NO_HOST_SECONDS = 600.0
_CAUSE = Cause('host.failed')
#: The errors that keep a lease from being changed; the next poll retries.
_WRITE_ERRORS: tuple[type[Exception], ...] = (exceptions.ClimateError, Stale, *DATABASE_ERRORS)
#: The reason of a lease that lacks a host, behind the name of the host.
_NO_REPLACEMENT: Final = 'failed, and no other is free. {}'
_TOO_SMALL: Final = 'is too small for its allocations: it has {}, and {} are allocated.'
#: The reason of a host that is up and not in use.
_NOT_EMPTY = 'It is up again, but still has {} servers of an earlier lease.'


class Loss(NamedTuple):
    """The loss of a host, which is to be replaced in a lease.

    :param reason: of the lease if no other host is free; None: the lease keeps the host
    :param while_running: whether the host is also replaced in an active lease
    """

    reason: str | None = None
    while_running: bool = False


class HostWatch(PeriodicWorker):
    """Poll the hosts, in a dedicated thread.

    :param plugins: resource type -> plugin
    :param metrics: show whether too many hosts are down
    """

    name = 'host-watch'
    polls_on_compute_change = True
    # A client of the message bus can forge the notifications that trigger it.
    spacing = 2.0
    expected_errors = PASS_ERRORS
    failure_message = 'Could not check which hosts failed; the next poll retries'

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        cloud: Cloud,
        plugins: Mapping[str, ResourcePlugin],
        calendar: Calendar,
        metrics: HostMetrics | None = None,
    ) -> None:
        super().__init__(conf.hosts.watch_interval, _FIRST_SECONDS)
        self._conf = conf
        self._database = database
        self._cloud = cloud
        self._plugins = plugins
        self._calendar = calendar
        self._metrics = metrics
        #: Whether hosts that are powered off are left to the power worker.
        self._leaves_sleeping = bool(conf.power.driver)
        #: The capacities at the last poll; no decision depends on it.
        self._capacities: dict[int, str] | None = None
        #: Whether a lease lacked a host at the last poll; only the time of the next depends on it.
        self._lacks_host = False
        #: Whether the last poll found a host.
        self._watching = True
        #: Whether a host was released, or enrolled, since the last poll started.
        self._has_freed = False
        self._idle_seconds = max(self._idle_seconds, _NO_HOST_SECONDS)
        database.listen(db_calendar.FREED, self._freed)
        database.listen(WAKE_FAILED, self.nudge)

    def _freed(self) -> None:
        self._has_freed = True
        if self._lacks_host or not self._watching:
            self.nudge()

    def poll(self) -> float:
        self._has_freed = False
        self.watch()
        if self._has_freed:
            # During the poll it was unknown whether that matters.
            self._freed()
        seconds = self.next_poll()
        return seconds if self._watching else max(seconds, _NO_HOST_SECONDS)

    def watch(self) -> None:
        """Poll once: one request to Nova and two statements where nothing is wrong."""
        self._lacks_host = False
        watched, now = self._database.read(db.list_watched)
        self._watching = bool(watched)
        if not watched:
            return
        services = servers.list_compute_services(self._cloud.service())
        if not services:
            LOG.warning('Could not check which hosts failed: Nova reports no nova-compute')
            return
        awake = [host for host in watched if not self._is_left(host)]
        if self._is_outage(awake, services):
            return
        failed: dict[int, str] = {}
        for host in watched:
            if self._is_left(host):
                why = host.disabled_reason if host.failed else None
            else:
                why = self._judge(host, services.get(host.service_name), now)
            if why is not None:
                failed[host.id] = why
        names = {host.id: host.name for host in watched}
        disabled = {host.id for host in watched if not (host.available or host.failed)}
        self._read_capacities({host.id: host.capacity for host in watched})
        small = {key: loss for key, loss in self._find_small().items() if key[0] not in failed}
        self._replace(names, failed, disabled, small)
        self._complete(failed, {reservation_id for _, reservation_id in small})

    def _is_left(self, host: WatchedHost) -> bool:
        """Return whether a host is left to the power worker: it is off or changes."""
        return self._leaves_sleeping and host.power is not None

    def _is_outage(
        self, watched: Iterable[WatchedHost], services: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Return whether Nova itself has failed, and not its hosts."""
        share = self._conf.hosts.max_down_share
        names = {host.service_name for host in watched if host.available}
        why = hosts.find_outage(services, names, share)
        if self._metrics is not None:
            self._metrics.set_outage(why is not None)
        if why is not None:
            LOG.error(
                '%s, more than [hosts] max_down_share = %s: no host is replaced. Check Nova, '
                'or force down the services whose hosts are dead',
                why,
                share,
            )
        return why is not None

    def _judge(
        self, host: WatchedHost, service: Mapping[str, Any] | None, now: datetime.datetime
    ) -> str | None:
        """Write whether a host has failed, and return why; None if it has not."""
        seconds = self._conf.hosts.down_seconds
        why = hosts.find_failure(service, host.service_name, now, seconds)
        if why is None:
            is_up = hosts.is_service_up(service)
            return self._recover(host, is_up, now) if host.failed else None
        is_recorded = host.failed and host.disabled_reason == why
        if not is_recorded and self._database.write(db_hosts.mark_failed, host.id, why):
            LOG.warning('Host %s failed: %s', host.name, why)
        return why

    def _recover(self, host: WatchedHost, is_up: bool, now: datetime.datetime) -> str | None:
        """Let a host that failed take allocations again, if it can.

        :returns: why it cannot
        """
        why = host.disabled_reason or ''
        if not is_up:
            return why
        rows = self._database.read(db.list_reserved, [host.id])
        in_use = any(row.start <= now and not row.released for row in rows)
        if not in_use:
            left = self._empty(host, [row for row in rows if row.released])
            if left:
                why = _NOT_EMPTY.format(left)
                self._database.write(db_hosts.mark_failed, host.id, why)
                return why
        if self._database.write(
            db_hosts.change_state,
            host.id,
            (hosts.State.FAILED,),
            hosts.State.ENROLLED,
            True,
            disabled_reason=None,
        ):
            LOG.info('Host %s is in use again', host.name)
        return None

    def _empty(self, host: WatchedHost, rows: Iterable[ReservedHost]) -> int:
        """Remove the aggregates of the lanes of a host; return the number of servers left."""
        conn = self._cloud.service()
        current = self._database.read(db_hosts.HOSTS.get, host.id)
        for row in rows:
            for lane_id in current.lane_ids:
                lane_providers.drain_lane(conn, lane_id, row.reservation_id)
        return len(placement.list_consumers(conn, current.provider_id))

    def _read_capacities(self, capacities: dict[int, str]) -> None:
        """Refresh the calendar if the capacity of a host has changed since the last poll."""
        if self._capacities not in (None, capacities):
            self._calendar.refresh()
        self._capacities = capacities

    def _find_small(self) -> dict[tuple[int, str], Loss]:
        """Find the hosts and reservations of allocations that no longer fit on their hosts."""
        found = {}
        for overcommit in self._calendar.find_overcommits(hosts.KIND):
            has = ', '.join(f'{name}={short[0]}' for name, short in overcommit.short.items())
            need = ', '.join(f'{name}={short[1]}' for name, short in overcommit.short.items())
            found[overcommit.unit_id, overcommit.reservation_id] = Loss(
                _TOO_SMALL.format(has, need)
            )
        return found

    def _replace(
        self,
        names: Mapping[int, str],
        failed: Mapping[int, str],
        disabled: Set[int],
        small: Mapping[tuple[int, str], Loss],
    ) -> None:
        """Move allocations from hosts that are lost to other hosts."""
        out = failed.keys() | disabled | {unit_id for unit_id, _ in small}
        rows = self._database.read(db.list_reserved, out) if out else []
        units: dict[tuple[str, str], dict[int, Loss]] = defaultdict(dict)
        for row in rows:
            if row.released:
                continue
            loss = small.get((row.unit_id, row.reservation_id))
            if row.unit_id in failed:
                loss = Loss(_NO_REPLACEMENT.format(failed[row.unit_id]), True)
            elif row.unit_id in disabled and row.lease_status == states.LeaseStatus.PENDING:
                loss = loss or Loss()
            if loss is not None:
                units[row.lease_id, row.reservation_id][row.unit_id] = loss
        for (lease_id, reservation_id), lost in units.items():
            self._write(lease_id, reservation_id, lost, names)

    def _complete(self, failed: Mapping[int, str], small: Set[str]) -> None:
        """Clear the reason of reservations that lack nothing any more.

        :param small: the ids of the reservations that have hosts which are too small for them
        """
        types = [kind for kind, plugin in self._plugins.items() if isinstance(plugin, HostBacked)]
        units: dict[tuple[str, str], set[int]] = defaultdict(set)
        for row in self._database.read(db.list_incomplete, types):
            if row.reservation_id not in small:
                units[row.lease_id, row.reservation_id].add(row.unit_id)
        for (lease_id, reservation_id), present in units.items():
            if present.isdisjoint(failed):
                self._write(lease_id, reservation_id, {}, {})

    def _write(self, lease_id: str, *args: Any) -> None:
        """Change a lease; an error does not affect other leases."""
        if self.stopping:
            return
        try:
            notice = self._database.write(self._move, lease_id, *args)
        except _WRITE_ERRORS as exc:
            LOG.warning('Hosts of lease %s were not replaced: %s', lease_id, exc)
            return
        if notice is not None:
            LOG.warning('Lease %s: %s', lease_id, notice)

    def _move(
        self,
        session: orm.Session,
        lease_id: str,
        reservation_id: str,
        lost: Mapping[int, Loss],
        names: Mapping[int, str],
    ) -> str | None:
        """Allocate other hosts to a reservation, and write which hosts it lacks then.

        :param lost: the ids of the hosts to replace -> why
        :returns: the notification; None if nothing changed
        """
        lease = leases.find(session, lease_id, lock=True)
        ours = next((r for r in lease.live if r.id == reservation_id), None) if lease else None
        if lease is None or ours is None or lease.status in states.ENDING:
            return None
        if ours.status == states.ReservationStatus.DELETING:
            return None
        now = sql.read_time(session)
        calendar = self._calendar.transaction(session)
        replaced: dict[str, list[str]] = {}
        missing: dict[str, str] = {}
        for unit_id, loss in lost.items():
            is_moved = loss.while_running or not lease.has_started(now)
            new = self._replacement(calendar, ours, unit_id) if is_moved else None
            if new:
                replaced[names[unit_id]] = new
            elif new is None and loss.reason and _has(ours, unit_id):
                missing[names[unit_id]] = loss.reason
                self._lacks_host = True
        if lost and not replaced and not missing:
            return None
        change = resources.record_host_replacement(lease, reservation_id, replaced, missing, now)
        if change.lease == lease:
            return None
        store.save(session, lease, change, now, _CAUSE)
        signal(session, events.DUE)
        return change.notifications.get('lease.update')

    def _replacement(
        self, calendar: CalendarTransaction, reservation: model.Reservation, unit_id: int
    ) -> list[str] | None:
        """Replace a host; return the names of the other hosts, none if it is gone already.

        :returns: None if no other host is free
        """
        plugin = self._plugins[reservation.resource_type]
        if not isinstance(plugin, HostBacked):
            return None
        try:
            new = self._calendar.replace_unit(calendar, plugin.read_demand(reservation), unit_id)
        except TransactionRejected:
            return None
        return sorted(db.get_name(calendar.session, allocation.unit_id) for allocation in new)


def _has(reservation: model.Reservation, unit_id: int) -> bool:
    return any(allocation.unit_id == unit_id for allocation in reservation.allocations)
