# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus: the work of the engine and the lengths of its queues.

Every manager has its own registry, so that several can run in one process. The counts from the
database are the same for all managers; the others are about the work of this manager.
"""

import abc
import collections
import contextlib
import datetime
import importlib.metadata
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import prometheus_client
from oslo_log import log
from oslo_utils import netutils
from prometheus_client import core
from prometheus_client.registry import Collector

from climate_core.db import monitoring
from climate_core.db.engine import DATABASE_ERRORS, Database, describe_error
from climate_core.db.events import DueEvent
from climate_core.lease import events, model, states
from climate_core.threads import HttpServer

LOG = log.getLogger(__name__)

T = TypeVar('T')


class CachedCollector(Collector, Generic[T]):
    """A collector of counts in the database.

    :param seconds: how long the counts are cached
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._last: tuple[float, T | None] | None = None

    @abc.abstractmethod
    def count(self) -> T:
        """Read the counts from the database."""

    def describe(self) -> list[core.Metric]:
        """Return nothing, so that registering the collector does not query the database."""
        return []

    def read(self) -> T | None:
        """Return the counts, from the cache if they are recent; None if the database fails."""
        with self._lock:
            now = time.monotonic()
            if self._last is None or now - self._last[0] >= self._seconds:
                self._last = (now, self._try())
            return self._last[1]

    def _try(self) -> T | None:
        try:
            return self.count()
        except DATABASE_ERRORS as exc:
            LOG.warning('The metrics lack the counts of the database: %s', describe_error(exc))
            return None


#: Seconds: from a start in time to a start that is an hour late.
BUCKETS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600)
#: Events whose first due time is remembered.
_MAX_REMEMBERED = 10_000


class Metrics:
    """The metrics of one manager: an observer of its engine.

    :param overdue_seconds: how long after its time an event is overdue
    :param database_seconds: how long counts from the database are cached
    """

    def __init__(
        self,
        database: Database,
        overdue_seconds: float,
        database_seconds: float,
    ) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._lock = threading.Lock()
        self._first = collections.OrderedDict[str, tuple[int, datetime.datetime]]()
        self._claimed = self._histogram(
            'climate_event_claim_lateness_seconds',
            'From the time an event was due to its claim by this manager.',
        )
        self._finished = self._histogram(
            'climate_event_finish_lateness_seconds',
            'From the time an event was due to the end of all work on it.',
        )
        self._retries = self._counter(
            'climate_event_retries', 'Failed attempts at an event that are retried.'
        )
        self._failures = self._counter('climate_event_failures', 'Events that failed permanently.')
        self._beaten = self._counter(
            'climate_claims_beaten', 'Events that another manager claimed first.'
        )
        self._lost = self._counter(
            'climate_claims_lost',
            'Claims that expired, or whose event was superseded, during the work.',
            labels=(),
        )
        self._repairs = self._counter(
            'climate_repairs',
            'Repairs of what Nova, Cinder or Heat had lost.',
            labels=('resource_type', 'repair'),
        )
        self._trusts_refused = self._counter(
            'climate_trust_refusals',
            'Trusts that no lease needs and that Keystone does not let the service delete.',
            labels=(),
        )
        self._threads = prometheus_client.Gauge(
            'climate_engine_threads',
            'Threads of this manager whose events call a service.',
            ['service'],
            registry=self.registry,
        )
        self._waiting = prometheus_client.Gauge(
            'climate_engine_waiting',
            'Events that this manager has claimed and that wait for a thread.',
            registry=self.registry,
        )
        prometheus_client.Info(
            'climate_build', 'The running release.', registry=self.registry
        ).info({'version': importlib.metadata.version('openstack-climate')})
        self.registry.register(_DatabaseCollector(database, overdue_seconds, database_seconds))

    def record_claim(self, due: DueEvent, now: datetime.datetime) -> None:
        """Count an event whose work starts; threads of the engine call these methods."""
        self._claimed.labels(_label(due.event_type)).observe(_seconds(now, due.next_at))
        with self._lock:
            generation, first = self._first.pop(due.id, (None, due.next_at))
            # Another manager claimed it since, or it was rescheduled.
            if generation != due.generation:
                first = due.next_at
            self._first[due.id] = (due.generation + 1, first)
            while len(self._first) > _MAX_REMEMBERED:
                self._first.popitem(last=False)

    def record_claim_beaten(self, due: DueEvent) -> None:
        """Count an event that another manager claimed first."""
        self._beaten.labels(_label(due.event_type)).inc()

    def record_claim_lost(self, event_id: str) -> None:
        """Count a claim that ended before the work did."""
        self._lost.inc()
        with self._lock:
            self._first.pop(event_id, None)

    def record_repair(self, resource_type: str, repair: str) -> None:
        """Count a repair of what a service lost."""
        self._repairs.labels(resource_type, repair).inc()

    def record_trust_refusal(self) -> None:
        """Count a trust that Keystone does not let the service delete."""
        self._trusts_refused.inc()

    def set_threads(self, service: str, count: int) -> None:
        """Set the number of threads whose events call a service."""
        self._threads.labels(service).set(count)

    def watch_pool(self, pool: Any) -> None:
        """Show the ``waiting`` events of the ``EventPool``: claimed, and without a thread."""
        self._waiting.set_function(lambda: float(pool.waiting))

    def record_result(self, event: model.Event, now: datetime.datetime) -> None:
        """Count the outcome of an event."""
        label = _label(event.event_type)
        if event.open:
            if event.status_reason is not None:
                self._retries.labels(label).inc()
            return
        if event.status == states.EventStatus.ERROR:
            self._failures.labels(label).inc()
        with self._lock:
            _, first = self._first.pop(event.id, (None, None))
        if first is not None:
            self._finished.labels(label).observe(_seconds(now, first))

    def _histogram(self, name: str, text: str) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            name, text, ['event_type'], buckets=BUCKETS, registry=self.registry
        )

    def _counter(
        self, name: str, text: str, labels: Sequence[str] = ('event_type',)
    ) -> prometheus_client.Counter:
        return prometheus_client.Counter(name, text, labels, registry=self.registry)


class _DatabaseCollector(CachedCollector[monitoring.Counts]):
    """Collect the counts of leases, events, notifications and deliveries in the database."""

    def __init__(
        self,
        database: Database,
        overdue_seconds: float,
        seconds: float,
    ) -> None:
        super().__init__(seconds)
        self._database = database
        self._overdue_seconds = overdue_seconds

    def count(self) -> monitoring.Counts:
        return self._database.read(monitoring.read_counts, self._overdue_seconds)

    def collect(self) -> Iterator[core.Metric]:
        counted = self.read()
        yield _gauge('climate_database_up', 'Whether the database answers.', counted is not None)
        if counted is None:
            return
        yield _gauge('climate_events_due', 'Events that are due and not claimed.', counted.due)
        yield _gauge('climate_events_overdue', 'Overdue events.', counted.overdue)
        yield _gauge('climate_outbox_length', 'Notifications to send.', counted.outbox)
        yield _gauge('climate_webhook_queue_length', 'Webhook calls to make.', counted.deliveries)
        leases = core.GaugeMetricFamily(
            'climate_leases', 'Leases that are not purged, by status.', labels=['status']
        )
        for status in states.LeaseStatus:
            leases.add_metric([status], counted.leases.get(status, 0))
        yield leases


def _gauge(name: str, text: str, value: float) -> core.Metric:
    return core.GaugeMetricFamily(name, text, value=value)


def _seconds(now: datetime.datetime, since: datetime.datetime) -> float:
    return max(0.0, (now - since).total_seconds())


def _label(event_type: str) -> str:
    """Return one label for all event types that users name: each would be a time series."""
    return events.get_handler(event_type).event_type


class BadAddress(Exception):
    """``[metrics] listen`` is not an address and a port."""


def create_server(listen: str, registry: prometheus_client.CollectorRegistry) -> HttpServer:
    """Create the server that answers GET /metrics.

    :param listen: ``host:port``; port 0 takes a free one
    :raises BadAddress: the address is invalid
    :raises OSError: the address cannot be taken
    """
    host, port = parse_address(listen)
    server = HttpServer('metrics', host, port, prometheus_client.make_wsgi_app(registry))
    LOG.info('Metrics are at http://%s:%d/metrics', netutils.escape_ipv6(host), server.port)
    return server


def parse_address(listen: str) -> tuple[str, int]:
    """Split an address and a port.

    :raises BadAddress: it has not the form ``host:port``
    """
    host = port = None
    with contextlib.suppress(ValueError):
        host, port = netutils.parse_host_port(listen)
    if host and port is not None and netutils.is_valid_port(port):
        return host, port
    raise BadAddress(f'[metrics] listen must be an address and a port (host:port), not {listen!r}')
