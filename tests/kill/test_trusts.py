# SPDX-License-Identifier: Apache-2.0
"""A process dies on the way of a trust that leases of an owner share."""

import datetime
import uuid

import pytest
import sqlalchemy as sa

from climate_core.cloud.trusts import Trusts
from climate_core.db import tables, trusts
from tests.kill.deaths import EVENT
from tests.support.fakes import leases

#: Before the first, or only, transaction of a process that has no other threads.
COMMIT = 'commit.before:MainThread:1'
GRACE = datetime.timedelta(seconds=trusts.GRACE_SECONDS)


def wanted(stage):
    """Return the request for a lease of a server that runs, with an id."""
    (server,) = stage.cloud.servers(1)
    reservation = {'resource_type': 'virtual:instance', 'resource_id': server}
    dates = {'start_date': '2098-01-01 10:00', 'end_date': '2099-01-01 10:00'}
    return {'id': str(uuid.uuid4()), 'name': 'n', **dates, 'reservations': [reservation]}


def make(stage, count):
    """Return leases of alice, each asked for by a process of its own."""
    made = []
    for _ in range(count):
        values = wanted(stage)
        stage.request(values).ends()
        made.append(leases.read(stage.database, values['id']))
    return made


def rows(stage):
    """Return the ids of trusts that are shared, and whether each is live."""
    with stage.database.reader() as session:
        found = session.execute(sa.select(tables.OWNER_TRUSTS)).all()
    return {row.trust_id: row.retired_at is None for row in found}


def let_time_pass(stage):
    """Have trusts that no lease needs be kept no more."""
    with stage.database.writer() as session:
        session.execute(sa.update(tables.OWNER_TRUSTS).values(next_at=None))


def let_grace_pass(stage):
    """Have trusts that are retired be so for as long as it takes until they are deleted."""
    table = tables.OWNER_TRUSTS
    with stage.database.writer() as session:
        for row in session.execute(sa.select(table).where(table.c.retired_at.is_not(None))).all():
            where = table.c.trust_id == row.trust_id
            session.execute(
                sa.update(table).where(where).values(retired_at=row.retired_at - GRACE)
            )


def test_between_the_trust_and_the_lease(stage):
    """The trust that is left is found as one that no lease has; the lease has another one."""
    values = wanted(stage)
    stage.request(values, COMMIT).dies()
    _, cloud = stage.own()
    (left,) = Trusts(cloud).list_own()
    assert rows(stage) == {}
    stage.request(values).ends()

    lease = leases.read(stage.database, values['id'])
    assert rows(stage) == {lease.trust_id: True}
    assert set(Trusts(cloud).list_own()) - stage.database.read(trusts.find_used) == {left}
    # What comes later has that of the lease.
    (later,) = make(stage, 1)
    assert later.trust_id == lease.trust_id


def test_before_the_lease_that_shares_a_trust(stage):
    (first,) = make(stage, 1)
    values = wanted(stage)
    stage.request(values, COMMIT).dies()
    stage.request(values).ends()
    assert leases.read(stage.database, values['id']).trust_id == first.trust_id
    assert stage.made('trust create') == 1


@pytest.mark.parametrize('kill', [f'{point}:release_trust:2' for point in EVENT])
def test_release_of_the_last_of_two(stage, kill):
    both = make(stage, 2)
    trust_id = both[0].trust_id
    assert both[1].trust_id == trust_id
    for lease in both:
        stage.ask('end_lease', lease.id).ends()

    stage.survive(kill)
    stage.until(lambda: all(stage.is_over(lease) for lease in both))

    stage.delete_retired_trusts().ends()
    assert rows(stage) == {trust_id: True}
    let_time_pass(stage)
    stage.delete_retired_trusts().ends()
    assert rows(stage) == {trust_id: False}
    assert stage.made('trust delete') == 0
    let_grace_pass(stage)
    stage.delete_retired_trusts().ends()
    assert rows(stage) == {}
    assert stage.cloud.effects()[trust_id] == ['trust delete']


def over(stage):
    """Return the trust of a lease that is over: it is retired."""
    (lease,) = make(stage, 1)
    stage.ask('end_lease', lease.id).ends()
    manager = stage.manager()
    stage.until(lambda: stage.is_over(lease))
    manager.kill()
    let_time_pass(stage)
    stage.delete_retired_trusts().ends()
    assert rows(stage) == {lease.trust_id: False}
    return lease.trust_id


def test_before_what_nobody_retired_is_retired(stage):
    trust_id = over(stage)
    with stage.database.writer() as session:
        session.execute(sa.update(tables.OWNER_TRUSTS).values(retired_at=None))
    stage.delete_retired_trusts(COMMIT).dies()
    assert rows(stage) == {trust_id: True}
    stage.delete_retired_trusts().ends()
    assert (rows(stage), stage.made('trust delete')) == ({trust_id: False}, 0)


def test_between_the_deletion_and_its_row(stage):
    trust_id = over(stage)
    let_grace_pass(stage)
    stage.delete_retired_trusts(COMMIT).dies()
    assert stage.cloud.effects()[trust_id] == ['trust delete']
    assert rows(stage) == {trust_id: False}
    # It is taken by nobody, and the next look finds it gone.
    (lease,) = make(stage, 1)
    assert lease.trust_id != trust_id
    stage.delete_retired_trusts().ends()
    assert rows(stage) == {lease.trust_id: True}
    assert stage.cloud.effects()[trust_id] == ['trust delete']
