# SPDX-License-Identifier: Apache-2.0
"""climate-manager as a list of parts: RPC server, engine, delivery and reconciliation.

It starts in any process: its own, that of ``climate-manage serve``, or that of a test.
"""

import threading
import time
from collections.abc import Iterator, Mapping

from oslo_config import cfg
from oslo_log import log

from climate_core import packages, rpc, threads
from climate_core.calendar.calendar import Calendar, CalendarWarmup
from climate_core.cloud import Cloud
from climate_core.cloud.trusts import Trusts
from climate_core.conf import delivery as usage_conf
from climate_core.db.engine import Database
from climate_core.db.sql import Clock
from climate_core.delivery import metrics, publisher, webhooks
from climate_core.delivery.usage import UsageReporter
from climate_core.engine.bulkhead import ServiceBulkhead, list_services
from climate_core.engine.claims import Claims
from climate_core.engine.event_pool import EventPool
from climate_core.engine.executor import EventExecutor
from climate_core.engine.fast_start import FastStarts
from climate_core.engine.plugin_calls import PluginCaller
from climate_core.engine.scheduler import Scheduler, Wakeups
from climate_core.engine.start_preparation import StartPreparation
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.services import Services
from climate_core.operations.wait_queue import QueueWorker
from climate_core.plugins import loading
from climate_core.plugins.base import ResourcePlugin
from climate_core.repair import listener
from climate_core.repair.cleanup import LeasePurger
from climate_core.repair.reconciliation import Reconciler
from climate_core.threads import Background, Backoff, MessageServer, Worker

LOG = log.getLogger(__name__)

#: Maximum seconds to close the connections to the message bus within the grace.
CLOSE_SECONDS = 2.0


class ManagerService:
    """One manager. Any number of them work on one database.

    :param conf: the whole configuration, see :func:`climate_core.conf.load`
    :param database: default: the one of ``[database]``
    :param cloud: default: the one of ``[cloud]``
    :param plugins: resource type -> plugin; default: those of ``[manager] plugins``
    :param trusts: default: the cloud's
    :param watch: whether to reconcile with the cloud and to listen to Nova, Cinder and Heat
    :raises climate_core.plugins.loading.PluginError: the plugins cannot be used
    :raises climate_core.packages.InvalidConfiguration: a package cannot use its options
    :raises climate_core.delivery.metrics.BadAddress: ``[metrics] listen`` is invalid
    :raises OSError: the address of ``[metrics] listen`` cannot be taken, or a file not be read
    :raises oslo_config.cfg.Error: ``[webhooks]`` names something that is no network
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database | None = None,
        cloud: Cloud | None = None,
        plugins: Mapping[str, ResourcePlugin] | None = None,
        trusts: Trusts | None = None,
        watch: bool = True,
    ) -> None:
        self.conf = conf
        self.database = database or Database(conf)
        self.cloud = cloud or Cloud(conf)
        self.plugins = loading.load_plugins(conf, self.cloud) if plugins is None else plugins
        self.clock = Clock(self.database)
        self.trusts = trusts or Trusts(self.cloud)
        self.cloud.database = self.database
        self.claims = Claims(self.database, conf.engine.claim_ttl)
        self.metrics = metrics.Metrics(
            self.database,
            conf.metrics.overdue_seconds,
            conf.metrics.database_seconds,
        )
        self._calendar = Calendar(self.database)
        self._transport = rpc.open_transport(conf)
        self._client = rpc.ManagerClient(conf, self._transport)
        operations = self._create_operations()
        self.scheduler = self._create_scheduler(operations)
        self.queue = QueueWorker(operations.queue)
        self.publisher = publisher.Publisher(
            self.database,
            self.clock,
            publisher.create_sender(conf),
            conf.engine.idle_seconds,
            conf.engine.claim_ttl,
        )
        self.webhooks = self._create_webhook_sender()
        senders: list[Worker] = [self.publisher, *filter(None, [self.webhooks])]
        #: The parts that finish work in progress, and those that start work; in order of start.
        self._finishers = [self.claims, *senders]
        self.preparation = self._create_preparation()
        self.wakeups = Wakeups(self.scheduler, self.preparation, senders, self._client)
        operations.creator.wakeups = self.wakeups
        self.rpc = self._create_rpc_server(operations)
        self._starters = [
            self.scheduler,
            self.queue,
            *filter(None, [self.preparation]),
            *self._create_watchers(watch),
        ]
        self._stopped = threading.Event()

    def _create_operations(self) -> LeaseOperations:
        shared = Services(
            self.conf,
            self.database,
            self.clock,
            self.plugins,
            self._calendar,
            self.trusts,
            self.cloud,
        )
        return LeaseOperations(shared)

    def _create_scheduler(self, operations: LeaseOperations) -> Scheduler:
        engine = self.conf.engine
        bulkhead = ServiceBulkhead(
            engine.workers,
            engine.service_share,
            list_services(self.plugins),
            self.metrics,
            # As many again are claimed before there is a thread for them.
            places=2 * engine.workers,
        )
        calls = PluginCaller(
            self.clock,
            self.plugins,
            bulkhead,
            operations,
            Backoff.of(self.conf),
            self.metrics,
        )
        self._fast_starts = FastStarts(self.database, self.clock, self.plugins, bulkhead)
        executor = EventExecutor(
            self.clock,
            self.claims,
            calls,
            self._calendar,
            self._fast_starts,
            self.metrics,
        )
        pool = EventPool(executor, engine.workers, bulkhead)
        self.metrics.watch_pool(pool)
        return Scheduler(self.database, self.clock, pool, engine.idle_seconds)

    def _create_preparation(self) -> StartPreparation | None:
        seconds = self.conf.engine.prepare_seconds
        types = [name for name, each in self.plugins.items() if each.wakes_as_owner]
        if not seconds or not types:
            return None
        idle = self.conf.engine.idle_seconds
        return StartPreparation(self.database, self.clock, self.cloud, types, seconds, idle)

    def _create_webhook_sender(self) -> webhooks.WebhookSender | None:
        if not self.conf.webhooks.enabled:
            return None
        rules = usage_conf.webhook_rules(self.conf)
        return webhooks.WebhookSender(self.conf, self.database, self.clock, rules, self.cloud)

    def _create_rpc_server(self, operations: LeaseOperations) -> MessageServer:
        served = [
            operations,
            operations.creator,
            FeedOperations(self.conf, self.database, self.trusts),
            *(
                operations_of_package
                for package in packages.list_packages()
                for operations_of_package in package.create_operations(
                    self.conf, self.database, self.cloud
                )
            ),
        ]
        local_types = loading.list_local_types(self.plugins.values())
        host = self.conf.manager.host
        made = rpc.create_server(self._transport, host, served, self.wakeups, local_types)
        return MessageServer('rpc', made)

    def _create_watchers(self, watch: bool) -> Iterator[Background]:
        conf = self.conf
        # An attribute does not find this section: oslo.config has its own "usage".
        period = conf[usage_conf.USAGE_GROUP].notify_every
        if period != usage_conf.OFF:
            yield UsageReporter(self.database, self.clock, period)
        if conf.manager.purge_days:
            yield LeasePurger(self.database, self.clock, conf.manager.purge_days)
        yield CalendarWarmup(self._calendar)
        yield self.rpc
        if watch:
            yield Reconciler(
                conf,
                self.database,
                self.plugins,
                Trusts(self.cloud),
                self.scheduler,
                self.metrics,
            )
            workers = self._create_package_workers()
            yield from workers
            checks = {
                name: listener.NotifiedChecks(self.database, plugin, self.scheduler)
                for name, plugin in self.plugins.items()
                if plugin.notifications is not None
            }
            yield from checks.values()
            yield from listener.create_listeners(
                conf, self.plugins, checks, self._fast_starts, self.scheduler, workers
            )
        if conf.metrics.listen:
            # It binds its address immediately: a manager that cannot bind it does not start.
            yield metrics.create_server(conf.metrics.listen, self.metrics.registry)

    def _create_package_workers(self) -> list[Background]:
        parts = packages.ManagerParts(
            conf=self.conf,
            database=self.database,
            cloud=self.cloud,
            plugins=self.plugins,
            calendar=self._calendar,
            registry=self.metrics.registry,
        )
        return [
            worker
            for package in packages.list_packages()
            for worker in package.create_workers(parts)
        ]

    def start(self) -> None:
        """Start all threads and return."""
        for each in (*self._finishers, *self._starters):
            each.start()
        LOG.info('The manager on %s is running', self.conf.manager.host)

    def stop(self) -> bool:
        """Start no more work, and let work in progress continue for ``[engine] grace_seconds``.

        The parts that start work stop first: until then the other parts renew its claims and send
        its notifications.

        :returns: whether all work was finished; unfinished work is resumed when its claim expires
        """
        deadline = time.monotonic() + self.conf.engine.grace_seconds
        if not self.rpc.is_connecting:
            # An RPC server that is idle would notice its stop only after up to 5 s.
            notify = self.wakeups.notify_managers
            threading.Thread(target=notify, name='wake rpc', daemon=True).start()
        late = threads.stop(self._starters[::-1], deadline)
        late += threads.stop(self._finishers[::-1], deadline)
        if late:
            LOG.warning('Not finished in time: %s', ', '.join(late))
        if not self.rpc.is_connecting:
            self._close_bus(deadline)
        self.database.dispose()
        self._stopped.set()
        return not late

    def _close_bus(self, deadline: float) -> None:
        def close() -> None:
            # The other managers may resume the unfinished work immediately.
            self.wakeups.notify_managers()
            self._transport.cleanup()

        # oslo.messaging waits for its heartbeat, which waits for a RabbitMQ that may be away.
        closing = threading.Thread(target=close, name='bus', daemon=True)
        closing.start()
        closing.join(min(CLOSE_SECONDS, threads.seconds_left(deadline)))
        if closing.is_alive():
            LOG.warning('The bus does not answer; its connections end with the process')

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until :meth:`stop` was called; return whether that happened in time."""
        return self._stopped.wait(timeout)
