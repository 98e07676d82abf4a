# SPDX-License-Identifier: Apache-2.0
"""Power hosts of the pools off while no lease needs them, and on before a lease needs them.

Each pass compares the present with the wanted state, and does the difference: a manager that dies
leaves nothing to repair, and several managers may do it concurrently. The next state of a host is
written before anything is done, with the row of the host locked; it is read again before the
machine is switched off.

A host is never switched off with something on it: all of it is claimed in Placement first.
Placement rejects the claim while anything is there, and keeps everything out until the host is on.

The rest of Climate has two seams with power: a unit of the calendar can be off, and is then
allocated last; and the start of a lease waits until its hosts are on.
"""

import collections
import datetime
from collections.abc import Iterable, Mapping, Sequence
from concurrent import futures
from typing import TYPE_CHECKING, Any, Final

from oslo_config import cfg
from oslo_log import log

from climate_common import dates
from climate_core.cloud import errors, servers, volumes
from climate_core.cloud.connections import Connection
from climate_core.cloud.placement import HostCapacity
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.threads import PeriodicWorker
from climate_hosts import hosts as domain_hosts
from climate_hosts import lane_providers, nova, placement
from climate_hosts.power import db, states
from climate_hosts.power.drivers import PowerDriver, PowerError
from climate_hosts.power.states import PowerHost, PowerState
from climate_hosts.watch import PASS_ERRORS

if TYPE_CHECKING:
    from climate_core.cloud import Cloud

LOG = log.getLogger(__name__)

#: The first pass is soon after the start: within this number of seconds.
_FIRST_SECONDS: Final = 10.0
#: Seconds until the next pass while a host is being powered off or on.
_POLL_SECONDS: Final = 5.0
#: How long until the same request to a machine is repeated.
_REPEAT_AFTER: Final = datetime.timedelta(seconds=30)
#: The number of machines that are switched concurrently.
_THREADS: Final = 8
#: A host that is not off after this number of times ``off_seconds`` is powered on again.
_MAX_DELAY: Final = 3
#: The errors that end a step of one host: the next pass retries.
_STEP_ERRORS: Final[tuple[type[Exception], ...]] = (*PASS_ERRORS, PowerError)

_Service = Mapping[str, Any]


def read_terms(conf: cfg.ConfigOpts) -> states.PowerTerms:
    """Return the terms by which hosts are powered off and on."""
    options = conf.power
    return states.PowerTerms(
        sleep_after=datetime.timedelta(seconds=options.sleep_after),
        wake=datetime.timedelta(seconds=options.wake_seconds),
        slack=datetime.timedelta(seconds=options.wake_slack),
        min_awake=options.min_awake,
        min_cycle=datetime.timedelta(seconds=options.min_cycle),
    )


class HostPower(PeriodicWorker):
    """Power hosts off and on, in a dedicated thread.

    :param driver: switches the machines
    :param cloud: gives the connection with the rights of the service
    """

    name = 'host-power'
    polls_on_compute_change = True
    # A client of the message bus can forge the notifications that trigger it.
    spacing = 2.0
    expected_errors = PASS_ERRORS
    failure_message = 'Could not decide which hosts to power off or on; the next poll retries'

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        driver: PowerDriver,
        cloud: 'Cloud',
    ) -> None:
        super().__init__(conf.power.interval, _FIRST_SECONDS)
        self._conf = conf
        self._database = database
        self._driver = driver
        self._cloud = cloud
        self._terms = read_terms(conf)
        #: The last request to a machine, and its time; only its repetition depends on it.
        self._requests: dict[int, tuple[str, datetime.datetime]] = {}

    def poll(self) -> float | None:
        """Do one pass: one statement where no pool has a host.

        :returns: the seconds until the next pass
        """
        hosts, now = self._database.read(db.list_all)
        if not hosts:
            return None
        conn = self._cloud.service()
        services: Mapping[str, _Service] | None = None
        able: set[int] = set()
        try:
            services = servers.list_compute_services(conn)
            self._repair(conn, hosts, services)
            able = self._find_able(conn, hosts, services)
        except errors.EXPECTED as exc:
            # Hosts that are needed are powered on all the same.
            LOG.warning('No host is powered off now: %s', exc)
        decision = states.decide(hosts, able, self._terms, now)
        for host_id in decision.wake:
            self._database.write(db.mark_waking, host_id)
        for host_id in decision.sleep:
            self._database.write(db.start_sleep, host_id, self._terms.sleep_after)
        if decision.wake or decision.sleep:
            hosts, now = self._database.read(db.list_all)
        on_way = [host for host in hosts if host.state is not None]
        self._step_all(conn, on_way, services, now)
        interval = self.next_poll()
        moving = any(host.state is not PowerState.ASLEEP for host in on_way)
        return min(interval, _POLL_SECONDS) if moving else interval

    def _find_able(
        self,
        conn: Connection,
        hosts: Iterable[PowerHost],
        services: Mapping[str, _Service],
    ) -> set[int]:
        """Return the ids of the hosts that can be powered off."""
        nodes = collections.Counter(host.service_name for host in hosts)
        awake = [
            host
            for host in hosts
            if host.state is None
            and nodes[host.service_name] == 1
            and host.usable
            and not host.kept_on
            and _is_ready(services.get(host.service_name))
            and self._can_switch(host)
        ]
        if not awake:
            return set()
        capacities = placement.read_host_capacities(conn)
        for host in awake:
            if _may_be_claimed(capacities.get(host.provider_id)) and self._is_awake(host):
                # A manager that was suspended may have claimed it after it was powered on.
                lane_providers.release_host(conn, host.provider_id)
        empty = [host for host in awake if _is_empty(capacities.get(host.provider_id))]
        with_volumes = volumes.list_service_hosts(conn) if empty else set()
        return {host.id for host in empty if not _labels(host) & with_volumes}

    def _can_switch(self, host: PowerHost) -> bool:
        try:
            return self._driver.knows(host.name)
        except Exception as exc:  # noqa: BLE001 - a driver of others may raise anything
            # Its text may have secrets.
            LOG.error('%s is not powered off: %s', host.name, type(exc).__name__)
            return False

    def _repair(
        self,
        conn: Connection,
        hosts: Iterable[PowerHost],
        services: Mapping[str, _Service],
    ) -> None:
        """Enable services that a suspended manager disabled after the host was powered on."""
        for host in hosts:
            service = services.get(host.service_name, {})
            if host.state is None and _is_disabled_for_power(service) and self._is_awake(host):
                _enable(conn, service)

    def _is_awake(self, host: PowerHost) -> bool:
        return self._database.read(db.has_state, host.id, None)

    def _step_all(
        self,
        conn: Connection,
        hosts: Sequence[PowerHost],
        services: Mapping[str, _Service] | None,
        now: datetime.datetime,
    ) -> None:
        """Do the next step of each host: a machine that does not answer delays no other.

        :param services: None if Nova does not answer: then hosts are switched on, none is
            switched off, and none fails because its nova-compute is not known to be up
        """

        def step(host: PowerHost) -> None:
            if self.stopping:
                return
            self._step(conn, host, (services or {}).get(host.service_name, {}), now)
            if services is not None:
                self._check_late(host, now)

        if hosts:
            with futures.ThreadPoolExecutor(min(_THREADS, len(hosts)), 'power') as pool:
                list(pool.map(step, hosts))

    def _step(
        self,
        conn: Connection,
        host: PowerHost,
        service: _Service,
        now: datetime.datetime,
    ) -> None:
        steps = {
            PowerState.FALLING_ASLEEP: self._switch_off,
            PowerState.ASLEEP: self._watch,
            PowerState.WAKING: self._switch_on,
        }
        assert host.state is not None  # nosec B101 # for mypy: it holds already
        try:
            steps[host.state](conn, host, service, now)
        except _STEP_ERRORS as exc:
            LOG.warning('%s is %s; the next poll retries: %s', host.name, host.state, exc)
        except Exception as exc:  # noqa: BLE001 - a driver of others may raise anything
            # Its text, which a traceback has as well, may have secrets.
            error = type(exc).__name__
            LOG.error('%s is %s; the next poll retries: %s', host.name, host.state, error)

    def _switch_off(
        self,
        conn: Connection,
        host: PowerHost,
        service: _Service,
        now: datetime.datetime,
    ) -> None:
        """Claim a host, disable its nova-compute, and switch it off."""
        is_disabled_by_operator = _is_disabled(service) and not _is_disabled_for_power(service)
        if is_disabled_by_operator or not self._driver.knows(host.name):
            # Its machine may have been requested to switch off already.
            self._database.write(db.mark_waking, host.id)
            LOG.info('%s is powered on: it is disabled in Nova, or has no driver', host.name)
            return
        if not lane_providers.claim_host(conn, host.provider_id):
            self._cancel(conn, host, service)
            return
        if not self._database.read(db.has_state, host.id, PowerState.FALLING_ASLEEP):
            # Another manager continued; a claim that came too late is released by the next pass.
            return
        assert host.since is not None  # nosec B101 # for mypy: it holds already
        late = (now - host.since).total_seconds() / max(1, self._conf.power.off_seconds)
        if late > _MAX_DELAY:
            LOG.warning('%s was not switched off in time, and is powered on', host.name)
            self._database.write(db.mark_waking, host.id)
            return
        if not _is_disabled(service):
            if 'id' not in service:
                # Its cell is down, or it was deleted.
                return
            nova.set_service_status(conn, service['id'], states.DISABLED_REASON)
        is_on = self._driver.is_on(host.name)
        if is_on is not False and (is_on or service.get('state') != 'down'):
            # A manager that was suspended must not switch off a host that was powered on.
            if self._database.read(db.has_state, host.id, PowerState.FALLING_ASLEEP):
                self._request(host, 'cut' if late > 1 else 'off', now)
        elif service.get('state') == 'down' and self._database.write(db.mark_asleep, host.id):
            LOG.info('%s is powered off', host.name)

    def _cancel(self, conn: Connection, host: PowerHost, service: _Service) -> None:
        """Leave a host on that has something on it."""
        lane_providers.release_host(conn, host.provider_id)
        _enable(conn, service)
        self._database.write(db.cancel_sleep, host.id)
        LOG.info('%s stays on: it is in use', host.name)

    def _watch(
        self,
        _conn: Connection,
        host: PowerHost,
        service: _Service,
        _now: datetime.datetime,
    ) -> None:
        """Leave a host on that an operator switched on."""
        is_on = domain_hosts.is_service_up(service) and self._is_on(host) is not False
        if is_on and self._database.write(db.mark_waking, host.id, kept_on=True):
            LOG.warning('%s was switched on outside of Climate, and is kept on', host.name)

    def _switch_on(
        self,
        conn: Connection,
        host: PowerHost,
        service: _Service,
        now: datetime.datetime,
    ) -> None:
        """Switch a host on, and have it take servers once its nova-compute is up."""
        is_on = self._is_on(host)
        if not is_on and self._driver.knows(host.name):
            # Also where nova-compute is up: the last request to a tool may be to switch it off.
            self._request(host, 'on', now)
        is_up = domain_hosts.is_service_up(service) and is_on is not False
        if is_up and placement.has_provider(conn, host.provider_id):
            lane_providers.release_host(conn, host.provider_id)
            _enable(conn, service)
            seconds = self._database.write(db.mark_awake, host.id)
            if seconds is not None:
                LOG.info('%s is on after %.0f seconds', host.name, seconds)

    def _is_on(self, host: PowerHost) -> bool | None:
        """Return whether a machine is on; None: unknown."""
        return self._driver.is_on(host.name) if self._driver.knows(host.name) else None

    def _request(self, host: PowerHost, action: str, now: datetime.datetime) -> None:
        """Switch a machine, unless the same was requested a moment ago.

        :param action: ``on``, ``off``, or ``cut``: off without a shutdown
        """
        before = self._requests.get(host.id)
        if before is not None and before[0] == action and now - before[1] < _REPEAT_AFTER:
            return
        if action == 'on':
            self._driver.switch_on(host.name)
        else:
            self._driver.switch_off(host.name, action == 'cut')
        self._requests[host.id] = action, now

    def _check_late(self, host: PowerHost, now: datetime.datetime) -> None:
        """Mark a host as failed that should be on by now and is not."""
        is_waking = host.state is PowerState.WAKING
        if host.failed or not is_waking or not self._terms.is_late(host, now):
            return
        assert host.since is not None  # nosec B101 # for mypy: it holds already
        reason = db.WAKE_TIMED_OUT.format(dates.sentence(host.since))
        try:
            failed = self._database.write(db.mark_wake_failed, host.id, reason)
        except DATABASE_ERRORS as exc:
            LOG.warning(
                'Could not record that %s failed; the next poll retries: %s', host.name, exc
            )
            return
        if failed:
            LOG.error('%s was not up in time. %s', host.name, reason)


def _is_ready(service: _Service | None) -> bool:
    """Return whether a nova-compute is up, and takes servers."""
    return (
        service is not None and domain_hosts.is_service_up(service) and not _is_disabled(service)
    )


def _is_disabled(service: _Service) -> bool:
    return service.get('status') == 'disabled'


def _is_disabled_for_power(service: _Service) -> bool:
    """Return whether a nova-compute is disabled because its host is powered off."""
    return _is_disabled(service) and service.get('disabled_reason') == states.DISABLED_REASON


def _enable(conn: Connection, service: _Service) -> None:
    """Enable a nova-compute that is disabled because its host is powered off."""
    if _is_disabled_for_power(service):
        nova.set_service_status(conn, service['id'], None)


def _labels(host: PowerHost) -> set[str]:
    """Return the first labels of the names of a host."""
    return {name.partition('.')[0] for name in (host.name, host.service_name)}


def _may_be_claimed(capacity: HostCapacity | None) -> bool:
    return capacity is not None and capacity.has_only_ordinary


def _is_empty(capacity: HostCapacity | None) -> bool:
    return capacity is not None and not any(capacity.used.values()) and not capacity.slots_used
