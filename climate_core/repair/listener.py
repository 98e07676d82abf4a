# SPDX-License-Identifier: Apache-2.0
"""Receive the notifications of other services about the resources of leases, and check them.

A notification decides nothing: any process on the bus can forge one. It causes one read of the
resource, with the rights of the service, and what its own service answers decides, by the rule of
the reconciliation. When an action of a start or an end completes, its resource is polled
immediately, and once more if this manager is polling it. Nothing depends on a notification:
:mod:`climate_core.repair.reconciliation` and the next poll make up for a lost one.

Checks run in a dedicated thread for each type of resource, so that neither the listener nor
another service waits for a slow service. Their number is bounded, so that a flood of messages
costs that service no more than :data:`_MAX_CHECKS`; the reconciliation does the rest.

The plugins declare which notifications they use: :class:`.base.NotificationSource`. Each service
has a dedicated pool of listeners. RabbitMQ distributes the messages of one pool to its listeners,
and a listener drops a message that it has no use for. Nova sends versioned notifications
``service.`` about a nova-compute that is enabled, disabled, forced down, new or deleted
(nova/objects/service.py).
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import oslo_messaging as messaging
from oslo_config import cfg
from oslo_log import log

from climate_core.cloud import errors
from climate_core.concurrency import RateLimit
from climate_core.conf import cloud
from climate_core.db import held_resources, store
from climate_core.db.engine import DATABASE_ERRORS, Database
from climate_core.engine.fast_start import FastStarts
from climate_core.engine.scheduler import Scheduler
from climate_core.lease.model import Reservation
from climate_core.plugins.base import Evacuable, HostBacked, NotificationSource, ResourcePlugin
from climate_core.repair import reconciliation
from climate_core.threads import Background, MessageServer, Worker

LOG = log.getLogger(__name__)

#: The errors after which a notification is dropped; the next reconciliation makes up for it.
_DATABASE_ERRORS: tuple[type[Exception], ...] = (store.Stale, *DATABASE_ERRORS)
#: The expected errors of a check; any other exception is an error of Climate.
_CHECK_ERRORS: tuple[type[Exception], ...] = (*errors.EXPECTED, *_DATABASE_ERRORS)
#: The form of the id of a resource; anything else is no resource of a lease.
_ID_PATTERN: Final = re.compile(r'[0-9A-Za-z_.:-]{1,255}', re.ASCII)
#: Maximum number of early polls of the lease of one resource within a period in seconds.
_MAX_EARLY_POLLS: Final = 20
#: Maximum number of checks of a type within a period in seconds.
_MAX_CHECKS: Final = 600
_PERIOD_SECONDS: Final = 60.0
#: Maximum number of queued checks.
_MAX_QUEUED: Final = 1000
#: Checks of one batch. So few resources are read one by one: none of them lists all.
_BATCH_SIZE: Final = 10
#: Seconds until a resource that exists is checked once more: cinder-scheduler notifies that a
#: volume has no backend before it stores that (cinder/scheduler/flows/create_volume.py), and a
#: replica of a database may lag.
_RECHECK_SECONDS: Final = 2.0
#: Its title, and the ids of resources.
_UNCHECKED: Final = 'Could not check %s %s after a notification; the reconciliation checks it'


class _CheckKey(NamedTuple):
    """A resource, and whether it is checked for a move, not for a loss."""

    resource_id: str
    is_move: bool = False


class _QueuedCheck(NamedTuple):
    """A queued check, due ``at`` by the monotonic clock."""

    at: float
    is_last: bool = False


class NotifiedChecks(Worker):
    """Check resources of one type that a lease holds.

    :param scheduler: of the engine, which is nudged when something was written
    """

    name = 'checks'

    def __init__(self, database: Database, plugin: ResourcePlugin, scheduler: Worker) -> None:
        super().__init__(_PERIOD_SECONDS)
        self._database = database
        self._plugin = plugin
        self._scheduler = scheduler
        self._limit = RateLimit(_MAX_CHECKS, _PERIOD_SECONDS)
        self._lock = threading.Lock()
        self._waiting: dict[_CheckKey, _QueuedCheck] = {}
        self._is_full = False

    def request(self, resource_id: str, is_move: bool = False) -> bool:
        """Have a resource checked soon; several requests before its check are one.

        :param is_move: check whether it was moved, not whether it is lost
        :returns: False if no lease holds the resource so that the check could change it
        """
        key = _CheckKey(resource_id, is_move)
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is not None:
                # Not earlier: a flood about one resource costs a check every few seconds.
                self._waiting[key] = waiting._replace(is_last=False)
                return True
        is_possible = reconciliation.can_be_moved if is_move else reconciliation.can_be_lost
        if not self._database.read(is_possible, self._plugin.resource_type, resource_id):
            return False
        with self._lock:
            if key not in self._waiting and len(self._waiting) >= _MAX_QUEUED:
                if not self._is_full:
                    message = (
                        'Too many notifications about a %s: the reconciliation checks the rest'
                    )
                    LOG.warning(message, self._plugin.title)
                self._is_full = True
                return True
            self._waiting[key] = _QueuedCheck(time.monotonic())
        self.nudge()
        return True

    def poll(self) -> float | None:
        """Check what is due, as far as the bound allows."""
        now = time.monotonic()
        taken: dict[bool, dict[str, _QueuedCheck]] = defaultdict(dict)
        with self._lock:
            due = [key for key, check in self._waiting.items() if check.at <= now]
            for key in due[:_BATCH_SIZE]:
                if not self._limit.take():
                    break
                taken[key.is_move][key.resource_id] = self._waiting.pop(key)
            self._is_full = self._is_full and len(self._waiting) >= _MAX_QUEUED // 2
        for is_move, checked in taken.items():
            self._check(is_move, checked)
        if due and not taken:
            # The bound is reached, and its period is longer.
            return _RECHECK_SECONDS
        with self._lock:
            first = min((check.at for check in self._waiting.values()), default=None)
        return None if first is None else max(0.0, first - time.monotonic())

    def _check(self, is_move: bool, checked: Mapping[str, _QueuedCheck]) -> None:
        """Check resources; what is found to be as before is checked once more."""
        changed: set[str] = set()
        try:
            reservations = self._database.read(
                held_resources.find_holding_reservations,
                self._plugin.resource_type,
                sorted(checked),
            )
            changed = self._record(is_move, reservations) if reservations else set()
        except _CHECK_ERRORS as exc:
            LOG.warning(_UNCHECKED + ': %s', self._plugin.title, ', '.join(checked), exc)
        except Exception:
            LOG.exception(_UNCHECKED, self._plugin.title, ', '.join(checked))
        again = _QueuedCheck(time.monotonic() + _RECHECK_SECONDS, is_last=True)
        with self._lock:
            for resource_id, waiting in checked.items():
                if resource_id not in changed and not waiting.is_last:
                    self._waiting.setdefault(_CheckKey(resource_id, is_move), again)

    def _record(self, is_move: bool, reservations: Sequence[Reservation]) -> set[str]:
        """Record what the service answers; return the ids of lost or moved resources."""
        losses: list[tuple[Reservation, str]] = []
        mark = reconciliation.mark_moved if is_move else reconciliation.mark_lost
        if not is_move:
            losses += self._plugin.reconcile([reservations])
        elif isinstance(self._plugin, Evacuable):
            reasons = self._plugin.find_moved(reservations)
            losses += [(each, reasons[each.id]) for each in reservations if each.id in reasons]
        for lease_id, by_reservation in reconciliation.group_by_lease(losses).items():
            if mark(self._database, lease_id, by_reservation):
                reason = ' '.join(sorted(set(by_reservation.values())))
                LOG.warning('Lease %s: %s', lease_id, reason)
                self._scheduler.nudge()
        return {reservation.resource_id for reservation, _ in losses}


class NotificationEndpoint:
    """Receive the notifications about one type of resource.

    :param checks: checks what may have happened to a resource of a lease
    :param fast_starts: finds the event that the engine should poll before its time
    :param scheduler: of the engine, which polls that event
    """

    def __init__(
        self,
        source: NotificationSource,
        resource_type: str,
        checks: NotifiedChecks,
        fast_starts: FastStarts,
        scheduler: Scheduler,
    ) -> None:
        types = '|'.join(map(re.escape, sorted({*source.lost, *source.moved, *source.done})))
        self.filter_rule = messaging.NotificationFilter(
            event_type=rf'^({re.escape(source.prefix)})?({types})$'
        )
        self._source, self._resource_type = source, resource_type
        self._checks = checks
        self._fast_starts = fast_starts
        self._scheduler = scheduler
        self._limit = RateLimit(_MAX_EARLY_POLLS, _PERIOD_SECONDS)

    def info(
        self,
        context: Mapping[str, Any],  # noqa: ARG002
        publisher_id: str,  # noqa: ARG002
        event_type: str,
        payload: Any,
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        source, action = self._source, event_type.removeprefix(self._source.prefix)
        data = _payload_data(payload)
        resource_id = next(filter(None, map(data.get, source.ids)), None)
        if not isinstance(resource_id, str) or not _ID_PATTERN.fullmatch(resource_id):
            return
        is_move = action in source.moved
        try:
            if (is_move or action in source.lost) and self._checks.request(resource_id, is_move):
                return
            if action in source.done:
                self._poll_early(resource_id)
        except _DATABASE_ERRORS as exc:
            LOG.warning('Could not process %s of %s: %s', event_type, resource_id, exc)

    #: cinder-scheduler notifies with this priority that a volume has no backend.
    error = info

    def _poll_early(self, resource_id: str) -> None:
        due = self._fast_starts.find_early_poll(self._resource_type, resource_id)
        if due is not None and self._limit.take(resource_id):
            self._scheduler.poll_early(due)


class ComputeEndpoint:
    """Check the hosts of the pools when Nova notifies of a nova-compute.

    :param workers: those that poll on such a change are nudged, also for a host of no pool
    """

    filter_rule = messaging.NotificationFilter(event_type=r'^service\.(create|update|delete)$')

    def __init__(self, workers: Iterable[Background]) -> None:
        self._workers = [
            each for each in workers if isinstance(each, Worker) and each.polls_on_compute_change
        ]

    def info(
        self,
        context: Mapping[str, Any],  # noqa: ARG002
        publisher_id: str,  # noqa: ARG002
        event_type: str,
        payload: Any,
        metadata: Mapping[str, Any],  # noqa: ARG002
    ) -> None:
        service = _payload_data(payload)
        if service.get('binary') == 'nova-compute':
            LOG.info('%s of nova-compute on %.255r', event_type, service.get('host'))
            for worker in self._workers:
                worker.nudge()


def _payload_data(payload: Any) -> Mapping[str, Any]:
    """Return what a payload has, versioned or not; nothing if it is malformed."""
    data = payload.get('nova_object.data', payload) if isinstance(payload, Mapping) else {}
    return data if isinstance(data, Mapping) else {}


def create_listeners(
    conf: cfg.ConfigOpts,
    plugins: Mapping[str, ResourcePlugin],
    checks: Mapping[str, NotifiedChecks],
    fast_starts: FastStarts,
    scheduler: Scheduler,
    workers: Sequence[Background],
) -> list[MessageServer]:
    """Create the listeners for these plugins; they receive nothing before their ``start``.

    :param checks: resource type -> what checks its resources
    :param fast_starts: finds an event that the engine should poll before its time
    :param scheduler: of the engine, which polls that event
    :param workers: those of the packages, which may poll when a nova-compute changes
    :returns: none for what is turned off
    """
    endpoints: dict[str, list[NotificationEndpoint | ComputeEndpoint]] = defaultdict(list)
    for resource_type, checked in checks.items():
        source = plugins[resource_type].notifications
        if source is not None:
            endpoints[source.group].append(
                NotificationEndpoint(source, resource_type, checked, fast_starts, scheduler)
            )
    if any(isinstance(plugin, HostBacked) for plugin in plugins.values()):
        endpoints[cloud.NOVA_NOTIFICATIONS.GROUP].append(ComputeEndpoint(workers))
    return [
        _listener(conf, group, endpoint)
        for group, endpoint in endpoints.items()
        if conf[group].enabled
    ]


def _listener(
    conf: cfg.ConfigOpts, group: str, endpoints: Sequence[NotificationEndpoint | ComputeEndpoint]
) -> MessageServer:
    options = conf[group]
    transport = messaging.get_notification_transport(conf, url=options.transport_url)
    targets = [
        messaging.Target(topic=topic, exchange=options.exchange) for topic in options.topics
    ]
    listener = messaging.get_notification_listener(
        transport, targets, endpoints, executor='threading', pool=options.pool
    )
    return MessageServer(group, listener, redelivers=True)
