# SPDX-License-Identifier: Apache-2.0
"""Three managers in processes of their own promise the same units: none is promised twice."""

import argparse
import datetime

import pytest
import sqlalchemy as sa

from climate_core.db import tables
from climate_core.db.engine import Database
from tests.bench import races
from tests.support.world import configure

ALLOCATION = tables.ALLOCATIONS


@pytest.mark.parametrize('of', races.DEMANDS)
def test_nothing_is_over_booked(database_url: str, of: str) -> None:
    options = argparse.Namespace(creates=300, managers=3, units=3)
    found, wrong = races.race(database_url, options, of)
    assert not wrong
    assert found['granted'] + found['refused'] == 300
    assert min(found['granted'], found['refused'], found['given back']) > 0
    database = Database(configure(database_url))
    query = sa.select(sa.func.count(ALLOCATION.c.reservation_id.distinct()))
    assert database.read(lambda session: session.scalar(query)) == (
        found['granted'] - found['given back']
    )
    # What looks for it finds it.
    first = sa.select(ALLOCATION).limit(1)
    row = database.read(lambda session: session.execute(first).mappings().one())
    again = {**row, 'unit_generation': 10**6, 'end': row['start'] + datetime.timedelta(hours=1)}
    with database.writer() as session:
        session.execute(sa.insert(ALLOCATION).values(again))
    assert list(races.over_booked(database))
    database.dispose()
