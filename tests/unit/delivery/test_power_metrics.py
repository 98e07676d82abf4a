# SPDX-License-Identifier: Apache-2.0
"""How many hosts sleep, and for how long they did."""

import datetime
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry

from climate_core.db.engine import Database, signal
from climate_core.delivery import usage
from climate_hosts.db import hosts as host_tables
from climate_hosts.metrics import HostMetrics
from climate_hosts.power import db, states
from tests.support.databases import ENGINES, mariadb, new_database, postgresql
from tests.support.fakes import leases
from tests.support.leases import NOON

__all__ = ('mariadb', 'new_database', 'postgresql')

HOUR = datetime.timedelta(hours=1)


@pytest.fixture(params=ENGINES)
def database(
    request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> Iterator[Database]:
    """Return a database in which it is noon, with two hosts that slept; one of them still does."""
    made = leases.create(new_database(request.param))
    made.clock = lambda: NOON
    rows = [
        ('cn1', 1, -10 * HOUR, -8 * HOUR),
        ('cn1', 1, -HOUR, None),
        ('cn2', 2, -3 * HOUR, -2.5 * HOUR),
    ]
    with made.writer() as session:
        for name, unit_id, start, end in rows:
            row = {
                'hypervisor_hostname': name,
                'unit_id': unit_id,
                'start': NOON + start,
                'end': None if end is None else NOON + end,
            }
            session.execute(sa.insert(host_tables.HOST_SLEEPS).values(row))
    yield made
    made.dispose()


@pytest.mark.parametrize(
    ('begin', 'end', 'hours'),
    [
        (-24, 0, {'cn1': 3.0, 'cn2': 0.5}),
        (-9, -2.75, {'cn1': 1.0, 'cn2': 0.25}),
        (-8, -3, {}),
        (-0.5, 0, {'cn1': 0.5}),
    ],
)
def test_hours_asleep_in_a_period(
    database: Database, begin: float, end: float, hours: dict[str, float]
) -> None:
    period = usage.Span(NOON + begin * HOUR, NOON + end * HOUR)
    assert database.read(db.read_sleep_hours, period) == pytest.approx(hours)


def test_metrics_have_the_hours_asleep_where_hosts_sleep(database: Database) -> None:
    registry = CollectorRegistry()
    HostMetrics(registry, database, 0.0)
    database.write(signal, states.WAKE_FAILED)
    read = registry.get_sample_value
    assert read('climate_host_asleep_seconds_total') == 3.5 * 3600
    assert read('climate_host_wake_failures_total') == 1
    assert read('climate_hosts_power', {'power': 'asleep'}) == 0
    without = CollectorRegistry()
    HostMetrics(without, database, None)
    assert without.get_sample_value('climate_host_asleep_seconds_total') is None
    assert without.get_sample_value('climate_host_wake_failures_total') is None


@pytest.mark.parametrize(('watts', 'kwh'), [(None, None), (0.0, 0.0), (150.0, 0.375)])
def test_energy_is_known_where_the_watts_are(watts: float | None, kwh: float | None) -> None:
    assert states.saved_kwh(2.5, watts) == kwh
