# SPDX-License-Identifier: Apache-2.0
"""The leases that the bench writes straight into the tables."""

import datetime

import pytest
import sqlalchemy as sa

from climate_core.db import store, tables
from tests.bench import climate_rows
from tests.support.fakes import leases

START = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def database(tmp_path):
    made = leases.sqlite(tmp_path / 'climate.sqlite')
    yield made
    made.dispose()


@pytest.mark.parametrize('count', [0, 3])
def test_seed_writes_as_many_leases_as_asked_and_returns_a_server_of_theirs(
    database, tmp_path, count
):
    server = climate_rows.seed(f'sqlite:///{tmp_path}/climate.sqlite', count, START, 1)
    with database.reader() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(tables.LEASES)) == count
        held = session.scalars(sa.select(tables.RESERVATIONS.c.resource_id)).all()
    assert (server in held) if count else server is None


def test_seeded_leases_that_are_over_hold_nothing_and_are_purged(database, tmp_path):
    url = f'sqlite:///{tmp_path}/climate.sqlite'
    over = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    climate_rows.seed(url, 2, START, 1)
    climate_rows.seed(url, 3, START, 2, over)
    with database.reader() as session:
        held = sa.select(sa.func.count(tables.RESERVATIONS.c.hold))
        assert session.scalar(held) == 2
    assert store.purge(database, over) == 0
    assert store.purge(database, over + datetime.timedelta(1)) == 3
