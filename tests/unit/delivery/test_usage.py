# SPDX-License-Identifier: Apache-2.0
"""Usage is told once for each lease and period, whichever managers run."""

import datetime
import threading
from typing import Any

import jsonschema
import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from climate_common.resource_types import UNIT_HOURS
from climate_core import exceptions
from climate_core.db import outbox, project_limits, tables
from climate_core.db import usage as db
from climate_core.delivery import usage
from climate_core.delivery import usage as engine
from climate_core.delivery.publisher import Publisher
from climate_core.delivery.usage import UsageReporter
from climate_core.notifications import schemas
from tests.support.stopping import stop
from tests.support.world import NOON, Time, World

HOUR = datetime.timedelta(hours=1)


def teller(world: World, every: str = 'hour') -> UsageReporter:
    return UsageReporter(world.database, world.clock, every)


@pytest.fixture
def one(world: World) -> UsageReporter:
    """Return a teller that told what was over when its test began."""
    made = teller(world)
    all_of_it(made)
    return made


def told(world: World) -> list[dict[str, Any]]:
    """Send what is in the outbox; return the payloads about usage."""
    world.sent.clear()
    world.told()
    return [dict(payload) for kind, payload in world.sent if kind == 'lease.usage']


def all_of_it(one: UsageReporter) -> float:
    """Tell what is due; return the seconds until something is."""
    while not (seconds := one.report_period()):
        pass
    return seconds


def amounts(world: World, **units: int) -> None:
    with world.database.engine.begin() as connection:
        connection.execute(tables.RESERVATIONS.update().values(amounts=units))


def test_nothing_was_ever_told(world: World, time: Time) -> None:
    one = teller(world)
    # The last complete hour, once the grace is over.
    time.forward(seconds=usage.GRACE.total_seconds())
    assert one.report_period() == 0
    assert one.report_period() == pytest.approx(3600)
    assert world.database.read(db.reported_until) == NOON


def test_usage_is_read_from_each_database(any_world: World) -> None:
    """With what was lost, which is looked up apart."""
    lease_id = any_world.create('a')
    amounts(any_world, servers=1)
    now = any_world.clock.now()
    period = usage.Span(now - HOUR, now + HOUR)
    for found in (
        any_world.database.read(lambda session: list(db.read_uses(session, period))),
        any_world.database.read(lambda session: list(db.read_uses(session, period, planned=True))),
        any_world.database.read(lambda session: list(db.read_uses_by_lease(session, period))),
    ):
        assert [(each.lease_id, each.amounts, each.lost_until) for each in found] == [
            (lease_id, {'servers': 1}, None)
        ]
    ends = any_world.lease(lease_id).end_date
    ended = {'status': 'deleted', 'hold': None, 'freed_at': now - HOUR}
    for given_up in (True, False):
        with any_world.database.engine.begin() as connection:
            values = {**ended, 'given_up': given_up}
            connection.execute(tables.RESERVATIONS.update().values(**values))
            connection.execute(tables.LEASES.update().values(preemptible=True))
        found = any_world.database.read(lambda session: list(db.read_uses(session, period)))
        told = [(e.freed_at, e.lost_until, e.reserved(period), e.preempted(period)) for e in found]
        assert told == [(now - HOUR, ends, None, period)] * given_up


def test_usage_is_told_after_each_hour(world: World, time: Time) -> None:
    one = teller(world)
    time.forward(minutes=15)
    lease_id = world.create('a', end='2082-12-01 18:00')
    amounts(world, servers=1, vcpus=4, memory_mb=2048)
    all_of_it(one)
    assert told(world) == []
    time.forward(minutes=15)
    world.run_until_idle()
    time.forward(hours=1)
    all_of_it(one)
    (payload,) = told(world)
    jsonschema.validate(payload, schemas.get_type('lease.usage').schema)
    assert (payload['lease_id'], payload['project_id']) == (lease_id, 'project1')
    assert (payload['begin'][:16], payload['end'][:16]) == ('2082-12-01T12:00', '2082-12-01T13:00')
    hours = {'server_hours': 0.75, 'vcpu_hours': 3, 'memory_gib_hours': 1.5}
    assert payload['reserved'] == {**dict.fromkeys(UNIT_HOURS, 0), **hours}
    assert payload['used']['vcpu_hours'] == 2
    (resource,) = payload['resources']
    assert resource['units'] == {'servers': 1, 'vcpus': 4, 'memory_mb': 2048}
    assert resource['reserved']['begin'] == '2082-12-01T12:15:00.000000'
    assert resource['used'] == {
        'begin': '2082-12-01T12:30:00.000000',
        'end': '2082-12-01T13:00:00.000000',
        'hours': 0.5,
    }


def test_the_end_of_a_period_is_waited_for(world: World, time: Time) -> None:
    one = teller(world)
    time.forward(minutes=5)
    all_of_it(one)
    world.create('a', end='2082-12-01 18:00')
    time.forward(minutes=55)
    assert one.report_period() == usage.GRACE.total_seconds()
    time.forward(seconds=usage.GRACE.total_seconds() - 1)
    assert one.report_period() == 1
    time.forward(seconds=1)
    assert one.report_period() == 0
    assert len(told(world)) == 1


def test_a_lease_that_is_over_or_deleted_is_told_in_its_last_period(
    world: World, time: Time, one: UsageReporter
) -> None:
    gone = world.create('a')
    world.create('b', end='2082-12-01 12:30')
    time.forward(minutes=10)
    world.delete(gone)
    world.run_until_idle()
    time.forward(minutes=20)
    world.run_until_idle()
    time.forward(hours=3)
    all_of_it(one)
    assert len(told(world)) == 2


def test_a_promise_counts_from_the_start_of_its_lease_but_in_limits_at_once(
    world: World, time: Time, one: UsageReporter
) -> None:
    kept, given_up = (
        world.create(each, start='2082-12-01 14:30', end='2082-12-01 18:00') for each in 'ab'
    )
    amounts(world, hosts=2)
    assert world.database.read(project_limits.count_used, 'project1')['reserved_hosts'] == 4
    world.delete(given_up)
    world.run_until_idle(hours=2, minutes=10)
    with world.database.engine.begin() as connection:
        # What was given up was promised, too.
        connection.execute(tables.RESERVATIONS.update().values(unit_kind='host'))
    all_of_it(one)
    assert told(world) == []
    time.forward(hours=1)
    all_of_it(one)
    (payload,) = told(world)
    assert (payload['lease_id'], payload['reserved']['host_hours']) == (kept, 1)
    assert payload['resources'][0]['reserved']['begin'] == '2082-12-01T14:30:00.000000'


def test_a_free_that_fails_takes_nothing_from_what_was_used(
    world: World, time: Time, one: UsageReporter
) -> None:
    world.create('a', end='2082-12-01 12:15')
    amounts(world, servers=1)
    world.run_until_idle()
    world.things.answers['end', 'a'] = [exceptions.Transient('Nova is away')] * 2
    for _ in range(3):
        time.forward(minutes=15)
        world.run_until_idle()
    time.forward(hours=1)
    all_of_it(one)
    (payload,) = told(world)
    assert payload['used']['server_hours'] == payload['reserved']['server_hours'] == 0.75


@pytest.mark.usefixtures('one')
def test_periods_without_a_manager_are_told_in_order(world: World, time: Time) -> None:
    world.create('a', end='2082-12-03 12:00')
    time.forward(hours=5, minutes=30)
    all_of_it(teller(world))
    begins = [payload['begin'][11:13] for payload in told(world)]
    assert begins == ['12', '13', '14', '15', '16']


def test_usage_is_told_after_each_day(world: World, time: Time) -> None:
    one = teller(world, 'day')
    all_of_it(one)
    world.create('a', end='2082-12-09 12:00')
    time.forward(hours=11)
    assert all_of_it(one) == 3600 + usage.GRACE.total_seconds()
    assert told(world) == []
    time.forward(hours=2)
    all_of_it(one)
    (payload,) = told(world)
    assert payload['resources'][0]['reserved']['hours'] == 12


def test_the_length_is_changed(world: World, time: Time, one: UsageReporter) -> None:
    world.create('a', end='2082-12-09 12:00')
    time.forward(hours=2, minutes=30)
    all_of_it(one)
    time.forward(hours=48)
    all_of_it(teller(world, 'day'))
    spans = [(payload['begin'][8:13], payload['end'][8:13]) for payload in told(world)]
    assert spans == [
        ('01T12', '01T13'),
        ('01T13', '01T14'),
        ('01T14', '02T00'),
        ('02T00', '03T00'),
    ]


def test_many_leases_are_told_in_batches(
    world: World, time: Time, one: UsageReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, '_ROWS_PER_READ', 7)
    monkeypatch.setattr(engine, '_LEASES_PER_TRANSACTION', 4)
    for number in range(12):
        things = [f'{number}-{each}' for each in range(3)]
        world.create(*things, name=f'lease{number}', end='2082-12-01 18:00')
    time.forward(hours=1, minutes=5)
    all_of_it(one)
    payloads = told(world)
    assert {payload['name'] for payload in payloads} == {f'lease{n}' for n in range(12)}
    assert len(payloads) == 12
    assert all(len(payload['resources']) == 3 for payload in payloads)


def test_usage_of_many_leases_is_left_to_any_manager(
    world: World, time: Time, one: UsageReporter
) -> None:
    for number in range(3):
        world.create(f'a{number}', end='2082-12-01 18:00')
    time.forward(hours=1, minutes=5)
    # This one would keep it all in its memory.
    world.database.info[outbox.SENDER] = Publisher(
        world.database, world.clock, lambda *_: None, 600, 60
    )
    all_of_it(one)
    assert len(told(world)) == 3


def test_usage_of_many_leases_costs_the_same_statements(world: World, time: Time) -> None:
    one = teller(world)
    time.forward(minutes=5)
    all_of_it(one)
    for number in range(30):
        world.create(f'a{number}', end='2082-12-01 18:00')
    time.forward(hours=1, minutes=5)
    # The last period; its row, the old ones; the reservations, and that there are no more; the
    # outbox.
    assert len(world.statements(one.report_period)) == 6
    assert len(world.statements(one.report_period)) == 1


def test_it_is_told_with_its_row_or_not_at_all(
    world: World, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = teller(world)
    time.forward(minutes=5)
    all_of_it(one)
    world.create('a', end='2082-12-01 18:00')
    time.forward(hours=1)

    def broken(*_: Any, **__: Any) -> None:
        raise db_exc.DBError('away')

    with monkeypatch.context() as patch:
        patch.setattr(outbox, 'add_notifications', broken)
        with pytest.raises(db_exc.DBError):
            one.report_period()
    assert world.database.read(db.reported_until) == NOON
    all_of_it(one)
    assert len(told(world)) == 1


def test_rows_are_kept_for_a_while_only(world: World, time: Time) -> None:
    all_of_it(teller(world, 'day'))
    time.forward(days=100)
    all_of_it(teller(world, 'day'))
    with world.database.engine.connect() as connection:
        count = connection.scalar(sa.select(sa.func.count()).select_from(tables.USAGE_PERIODS))
    assert count == 33


def test_period_is_told_by_one_of_two_managers(any_world: World) -> None:
    """Both look at the same moment; the period is told by one of them."""
    any_world.create('a', start='2089-01-01 00:00', end='2090-01-01 00:00')
    with any_world.database.engine.begin() as connection:
        early = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        connection.execute(tables.RESERVATIONS.update().values(created_at=early))
    both = threading.Barrier(2, timeout=30)
    until = db.reported_until
    waited = threading.local()

    def meet(session: Any) -> datetime.datetime | None:
        found = until(session)
        if not getattr(waited, 'once', False) and any_world.database.engine.name != 'sqlite':
            # SQLite lets only one of them in.
            waited.once = True
            both.wait()
        return found

    def run() -> None:
        all_of_it(teller(any_world))

    patch = pytest.MonkeyPatch()
    patch.setattr(db, 'reported_until', meet)
    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    patch.undo()
    assert len(told(any_world)) == 1


def test_thread_tells_usage_until_it_is_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, '_JITTER', 0.0)
    done = threading.Event()
    made = teller(world)
    tell = made.report_period

    def noted() -> float:
        seconds = tell()
        if seconds:
            done.set()
        return seconds

    monkeypatch.setattr(made, 'report_period', noted)
    made.start()
    assert done.wait(30)
    assert stop(made)
    assert world.database.read(db.reported_until) == NOON - HOUR
