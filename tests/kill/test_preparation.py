# SPDX-License-Identifier: Apache-2.0
"""A manager dies while it tells that a start will fail: that is told once, and it is tried."""

import datetime

import pytest
import sqlalchemy as sa

from climate_core.cloud.trusts import Trusts
from climate_core.db import listing, sql, tables
from climate_core.lease.events.start import START_FAILED, START_WARNING
from tests.kill.deaths import OUTBOX
from tests.support.fakes import leases

#: The first transaction of the thread retires the trust, the second one tells.
KILLS = (
    'commit.before:preparation:1',
    'preparation.before:start_lease:1',
    'commit.before:preparation:2',
    'preparation.after:start_lease:1',
    *(f'{point}:{START_WARNING}:1' for point in OUTBOX),
)


def let_it_start(stage, lease):
    """Have the time of the start come."""
    event = tables.EVENTS.c
    with stage.database.writer() as session:
        mine = sa.and_(event.lease_id == lease.id, event.event_type == 'start_lease')
        session.execute(sa.update(tables.EVENTS).where(mine).values(next_at=sql.now(session)))


@pytest.mark.parametrize('kill', KILLS)
def test_killed_telling_of_a_refused_trust_tells_it_once(stage, kill):
    (server,) = stage.cloud.servers(1)
    trust_id = stage.cloud.trust()
    lease = leases.make(
        stage.database, [server], trust_id, starts_in=datetime.timedelta(seconds=59)
    )
    leases.write(stage.database, lease)
    _, cloud = stage.own()
    Trusts(cloud).delete(trust_id)

    stage.survive(kill)
    stage.until(lambda: stage.told(START_WARNING))
    waiting = stage.lease(lease)
    assert waiting.status == 'PENDING'
    assert waiting.status_reason.startswith('The start will fail: ')
    assert waiting.events == lease.events

    stage.kill_all()
    let_it_start(stage, lease)
    stage.manager()
    stage.until(lambda: stage.lease(lease).status == 'ERROR')
    stage.until(lambda: stage.told(START_FAILED))
    # A manager that is killed may have sent what it has not deleted: that is the same one again.
    assert len({payload['event_id'] for payload in stage.told(START_WARNING)}) == 1
    entries = [each for _, each in stage.database.read(listing.read_history_page, lease.id)[0]]
    assert [each.action for each in entries].count('trust.refused') == 1
    assert stage.cloud.effects().get(server, []) == []
