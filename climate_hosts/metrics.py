# SPDX-License-Identifier: Apache-2.0
"""Metrics of the power states of hosts."""

from collections.abc import Iterator

import prometheus_client
from prometheus_client import core

from climate_core.db.engine import Database
from climate_core.delivery.metrics import CachedCollector
from climate_hosts.db import host_power
from climate_hosts.domain import power


class PowerCollector(CachedCollector[host_power.PowerCounts]):
    """Count the hosts by power state, and the time for which they were off."""

    def __init__(self, database: Database, seconds: float) -> None:
        super().__init__(seconds)
        self._database = database

    def count(self) -> host_power.PowerCounts:
        return self._database.read(host_power.count_states)

    def collect(self) -> Iterator[core.Metric]:
        found = self.read()
        if found is None:
            return
        hosts = core.GaugeMetricFamily(
            'climate_hosts_power', 'Hosts of the pools, by power state.', labels=['power']
        )
        for state in (power.AWAKE, *power.PowerState):
            hosts.add_metric([str(state)], found.hosts.get(str(state), 0))
        yield hosts
        yield core.CounterMetricFamily(
            'climate_host_asleep_seconds',
            'How long all hosts slept together.',
            value=found.asleep_seconds,
        )


class HostMetrics:
    """The metrics of the hosts of one manager.

    :param power_seconds: how long counts of power states from the database are cached; None:
        Climate powers no host off
    """

    def __init__(
        self,
        registry: prometheus_client.CollectorRegistry,
        database: Database,
        power_seconds: float | None,
    ) -> None:
        self._outage = prometheus_client.Gauge(
            'climate_hosts_outage',
            'Whether too many hosts are down at once to replace any.',
            registry=registry,
        )
        self._wake_failures: prometheus_client.Counter | None = None
        if power_seconds is not None:
            self._wake_failures = prometheus_client.Counter(
                'climate_host_wake_failures', 'Hosts that did not wake in time.', registry=registry
            )
            registry.register(PowerCollector(database, power_seconds))

    def set_outage(self, is_outage: bool) -> None:
        """Set whether too many hosts are down at once to replace any."""
        self._outage.set(is_outage)

    def count_wake_failure(self) -> None:
        """Count a host that was not powered on in time."""
        if self._wake_failures is not None:
            self._wake_failures.inc()
