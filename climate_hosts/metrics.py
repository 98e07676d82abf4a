# SPDX-License-Identifier: Apache-2.0
"""Metrics of the power states of hosts."""

from collections.abc import Iterator

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
