# SPDX-License-Identifier: Apache-2.0
"""The URL of a feed, which anybody who has it can read as often as they like."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.db import store
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from tests.functional.api import world
from tests.security.cost import bounded
from tests.support import leases
from tests.support.world import Trusts

READS = 200


class CountedTrusts(Trusts):
    """Count how often Keystone is asked for the roles of a feed."""

    asked = 0

    def roles(self, trust_id: str) -> Any:
        self.asked += 1
        return super().roles(trust_id)


@pytest.fixture
def trusts(monkeypatch: pytest.MonkeyPatch) -> CountedTrusts:
    made = CountedTrusts()
    monkeypatch.setattr(world, 'Trusts', lambda: made)
    return made


@pytest.fixture
def conf(tmp_path: Any) -> cfg.ConfigOpts:
    return world.configure(tmp_path)


@pytest.fixture
def database(conf: cfg.ConfigOpts) -> Database:
    return Database(conf)


@pytest.fixture
def application(conf: cfg.ConfigOpts, database: Database, trusts: CountedTrusts) -> Iterator[Any]:
    with world.running(conf, database) as made:
        yield made


def create(application: Any) -> str:
    made = world.ask(application, 'POST', '/v1/feeds', {'name': 'phone'}, status=201)
    return str(made.json['feed']['token'])


def test_feed_that_is_read_all_the_time_costs_one_query_each(
    application: Any, database: Database, trusts: CountedTrusts
) -> None:
    """Rendering these leases takes about 0.2 s, and Keystone issues a token for each time."""
    now = datetime.datetime.now(datetime.UTC)
    for number in range(300):
        start = now + datetime.timedelta(days=1, hours=number)
        lease = leases.lease(lease_id=f'lease{number}', start=start, now=now)
        database.write(store.create, lease, now, Cause('lease.create'))
    path = f'/v1/leases.ics?token={create(application)}'
    tag = world.ask(application, 'GET', path, status=200).headers['ETag']
    with bounded(cpu_seconds=3, mebibytes=30), world.selects(database) as statements:
        for _ in range(READS):
            assert world.ask(application, 'GET', path, status=200).headers['ETag'] == tag
        world.ask(application, 'GET', path, None, {'If-None-Match': tag}, status=304)
    assert len(statements) == READS + 1
    assert trusts.asked == 1


def test_wrong_token_costs_one_indexed_query_at_most(
    application: Any, database: Database, trusts: CountedTrusts
) -> None:
    token = create(application)
    wrong = token[:-1] + ('A' if token[-1] != 'A' else 'B')
    for text, most in ((wrong, 1), ('0' * 75, 1), ('x', 0), ('', 0)):
        with world.selects(database) as statements:
            world.ask(application, 'GET', f'/v1/leases.ics?token={text}', status=404)
        assert len(statements) == most
        assert all('WHERE feeds.id = ' in each for each in statements)
    assert trusts.asked == 0
