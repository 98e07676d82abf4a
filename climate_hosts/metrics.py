# SPDX-License-Identifier: Apache-2.0
"""Metrics of the power states of hosts."""

from collections.abc import Iterator

import prometheus_client
from prometheus_client import core

from climate_core.db.engine import Database
from climate_core.delivery.metrics import CachedCollector
from climate_hosts.power import db, states


class PowerCollector(CachedCollector[db.PowerCounts]):
    """Count the hosts by power state, and the time for which they were off."""

    def __init__(self, database: Database, seconds: float) -> None:
        super().__init__(seconds)
        self._database = database

    def count(self) -> db.PowerCounts:
        return self._database.read(db.count_states)

    def collect(self) -> Iterator[core.Metric]:
        found = self.read()
        if found is None:
            return
        hosts = core.GaugeMetricFamily(
            'climate_hosts_power', 'Hosts of the pools, by power state.', labels=['power']
        )
        for state in (states.AWAKE, *states.PowerState):
            hosts.add_metric([str(state)], found.hosts.get(str(state), 0))
        yield hosts
        yield core.CounterMetricFamily(
            'climate_host_asleep_seconds',
            'Total time for which hosts were powered off.',
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
            'Whether too many hosts are down at the same time to replace any.',
            registry=registry,
        )
        if power_seconds is not None:
            wake_failures = prometheus_client.Counter(
                'climate_host_wake_failures',
                'Hosts that were not up in time after they were powered on.',
                registry=registry,
            )
            database.listen(states.WAKE_FAILED, wake_failures.inc)
            registry.register(PowerCollector(database, power_seconds))

    def set_outage(self, is_outage: bool) -> None:
        """Set whether too many hosts are down at the same time to replace any."""
        self._outage.set(is_outage)
