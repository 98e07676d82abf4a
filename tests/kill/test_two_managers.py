# SPDX-License-Identifier: Apache-2.0
"""Two managers at the same work: each thing is done once."""

import pytest
import sqlalchemy as sa

from climate_core.db import tables
from tests.support.databases import ENGINES
from tests.support.fakes import leases

pytestmark = pytest.mark.parametrize('stage', ENGINES, indirect=True)


def statuses(stage):
    """Status of the leases -> how many have it."""
    column = tables.LEASES.c.status
    query = sa.select(column, sa.func.count()).group_by(column)
    with stage.database.reader() as session:
        return dict(session.execute(query).tuples().all())


def events(stage):
    column = tables.EVENTS.c.status
    with stage.database.reader() as session:
        return set(session.scalars(sa.select(column).distinct()))


def due_at_once(stage, count):
    """Leases that all start now, each with a server and a trust."""
    servers = stage.cloud.servers(count)
    for server in servers:
        lease = leases.make(stage.database, [server], stage.cloud.trust())
        leases.write(stage.database, lease)
    return servers


def test_200_leases_in_the_same_second(stage):
    servers = due_at_once(stage, 200)
    stage.manager()
    stage.manager()
    stage.until(lambda: statuses(stage) == {'ACTIVE': 200})

    effects = stage.cloud.effects()
    assert [effects[server] for server in servers] == [['wake_up']] * 200
    assert 'ERROR' not in events(stage)


def test_one_of_two_dies_on_the_way(stage):
    servers = due_at_once(stage, 40)
    dying = stage.manager('remote.after:start_lease:10')
    # The other one must not have done all of it before this one has begun.
    stage.until(lambda: ['wake_up'] in stage.cloud.effects().values())
    stage.manager()
    dying.dies()
    stage.until(lambda: statuses(stage) == {'ACTIVE': 40})

    effects = stage.cloud.effects()
    assert [effects[server] for server in servers] == [['wake_up']] * 40
    assert 'ERROR' not in events(stage)
