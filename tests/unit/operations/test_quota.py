# SPDX-License-Identifier: Apache-2.0
"""Limits at create, join and change, against a database."""

import datetime
import threading
from typing import Any

import pytest
from oslo_db import exception as db_exc

from climate_core import exceptions
from climate_core.cloud.limits import Limits
from climate_core.db import tables
from climate_core.db.project_limits import count_used
from climate_core.lease import model
from tests.support.leases import NOON, lease
from tests.support.quotas import (
    LATER,
    Judge,
    judge,
    limit,
    nothing_is_left,
    used,
)
from tests.support.world import Time, World, at, user


@pytest.mark.parametrize(
    ('limit', 'start', 'end', 'error'),
    [
        ('max_lease_seconds', '2082-12-01 12:00', '2082-12-01 13:00', exceptions.LeaseTooLong),
        ('max_ahead_seconds', '2082-12-01 13:00', '2082-12-24 14:00', exceptions.LeaseTooFarAhead),
    ],
)
def test_how_long_and_how_far_ahead_a_lease_may_be(
    world: World, limit: str, start: str, end: str, error: type[Exception]
) -> None:
    world.conf.set_override(limit, 3600, group='limits')
    lease_id = world.create('a', start=start, end=end)
    minute_more = {'start': start[:-1] + '1', 'end': end[:-1] + '1'}
    if limit == 'max_lease_seconds':
        del minute_more['start']
    with pytest.raises(error):
        world.create('b', **{'start': start, 'end': end, **minute_more})
    before = world.lease(lease_id)
    with pytest.raises(error):
        world.update(lease_id, **{f'{name}_date': text for name, text in minute_more.items()})
    assert world.lease(lease_id) == before


@pytest.mark.parametrize(
    ('start', 'end', 'error', 'field', 'text'),
    [
        (0, 25, exceptions.LeaseTooLong, 'end_date', r'1:00:00 .*1 day, 1:00:00'),
        # A part of a second too long does not look like the limit.
        (0, 1.0001, exceptions.LeaseTooLong, 'end_date', r'1:00:00 long at most, not 1:00:01'),
        (2, 3, exceptions.LeaseTooFarAhead, 'start_date', r'1:00:00 from now'),
    ],
)
def test_error_names_the_limit_of_a_time_and_its_field(
    world: World, start: float, end: float, error: Any, field: str, text: str
) -> None:
    for option in ('max_lease_seconds', 'max_ahead_seconds'):
        world.conf.set_override(option, 3600, group='limits')
    hour = datetime.timedelta(hours=1)
    one = lease(start_date=NOON + start * hour, end_date=NOON + end * hour)
    with pytest.raises(error, match=text) as caught:
        world.operations.quota.check_time(one, NOON)
    assert (caught.value.field, caught.value.status) == (field, 403)


def test_exempt_project_may_exceed_the_lengths(world: World) -> None:
    world.conf.set_override('max_lease_seconds', 1, group='limits')
    world.conf.set_override('max_ahead_seconds', 1, group='limits')
    world.conf.set_override('exempt_projects', ['project1'], group='limits')
    world.create('a', start='2082-12-01 13:00')
    with pytest.raises(exceptions.LeaseTooLong):
        world.create('b', context=user('project2'))


@pytest.mark.parametrize(
    ('name', 'error'),
    [
        ('max_lease_seconds', exceptions.LeaseTooLong),
        ('max_ahead_seconds', exceptions.LeaseTooFarAhead),
    ],
)
def test_limits_of_times_in_keystone_replace_the_options(
    world: World, name: str, error: type[Exception]
) -> None:
    keystone = limit(world, **{name: 3600})
    world.conf.set_override(name, 60, group='limits')
    hour = {'start': '2082-12-01 13:00', 'end': '2082-12-01 14:00'}
    longer = {'start': '2082-12-01 13:01', 'end': '2082-12-01 15:00'}
    later = {f'{field}_date': time for field, time in longer.items()}
    lease_id = world.create('a', **hour)
    with pytest.raises(error):
        world.create('b', **longer)
    with pytest.raises(error):
        world.update(lease_id, **later)
    world.conf.set_override('exempt_projects', ['project1'], group='limits')
    world.create('c', **longer)
    world.conf.clear_override('exempt_projects', group='limits')
    # A raised limit applies immediately.
    keystone.remembered = keystone.most
    keystone.most = {**keystone.most, name: 7200}
    world.create('b', **longer)
    world.update(lease_id, **later)
    keystone.most = {**keystone.most, name: -1}
    world.create('d', start='2082-12-10 13:00', end='2082-12-12 14:00')


def test_maximum_of_zero_rejects_what_is_later(world: World) -> None:
    limit(world, max_ahead_seconds=0)
    world.create('a')
    with pytest.raises(exceptions.LeaseTooFarAhead):
        world.create('b', start='2082-12-01 13:00')
    limit(world, max_lease_seconds=0)
    with pytest.raises(exceptions.LeaseTooLong):
        world.create('b')


def test_only_a_longer_lease_needs_keystone(world: World) -> None:
    keystone = limit(world, max_lease_seconds=36_000)
    lease_id = world.create('a')

    def away(_project: str) -> dict[str, int]:
        raise exceptions.ServiceUnavailable('Try again.')

    keystone.read_limits = away  # type: ignore[method-assign]
    with pytest.raises(exceptions.ServiceUnavailable):
        world.update(lease_id, end_date=LATER)
    world.update(lease_id, end_date='2082-12-01 13:00')
    assert world.lease(lease_id).end_date == at('2082-12-01 13:00')


def test_a_lease_that_is_too_long_by_now_can_be_shortened_and_renamed(world: World) -> None:
    lease_id = world.create('a', end=LATER)
    world.conf.set_override('max_lease_seconds', 60, group='limits')
    world.update(lease_id, name='b')
    world.update(lease_id, end_date='2082-12-01 19:00')
    with pytest.raises(exceptions.LeaseTooLong):
        world.update(lease_id, end_date='2082-12-01 19:01')


def test_leases_of_a_project_are_counted_by_type(world: World) -> None:
    limit(world)
    world.create('a', 'b', end=LATER)
    world.create(end=LATER, name='empty')
    over = world.create('c')
    world.create('d', context=user('project2'))
    assert used(world) == {
        'leases': 3,
        'reserved_servers': 3,
        'reserved_vcpus': 6,
        'reserved_memory_mb': 1536,
    }
    assert used(world, 'project2')['reserved_vcpus'] == 2
    assert used(world, 'project3') == {}
    world.delete(over)
    world.run_until_idle()
    assert used(world)['reserved_servers'] == 2


def test_create_over_the_limit_is_refused(world: World) -> None:
    keystone = limit(world, reserved_vcpus=4)
    with pytest.raises(exceptions.LimitExceeded) as caught:
        world.create('a', 'b', 'c')
    assert caught.value.field == 'reserved_vcpus'
    assert nothing_is_left(world)
    world.create('a', 'b')
    with pytest.raises(exceptions.LimitExceeded):
        world.create('c')
    world.create('d', context=user('project2'))
    # Each of the two that are refused asks again before.
    assert keystone.asked == ['project1'] * 5 + ['project2']


def test_a_raised_limit_counts_at_once_and_a_lowered_one_later(world: World) -> None:
    keystone = limit(world, leases=2)
    keystone.remembered = keystone.most | {'leases': 0}
    world.create('a')
    keystone.remembered = keystone.most | {'leases': 3}
    world.create('b')
    keystone.most['leases'] = 1
    world.create('c')
    with pytest.raises(exceptions.LimitExceeded, match='limit of 1, 3 in use'):
        world.create('d')


def test_a_resource_joins_up_to_the_limit(world: World) -> None:
    limit(world, leases=1, reserved_servers=2)
    lease_id = world.create('a', end=LATER)
    joined = world.join(lease_id, 'b')
    with pytest.raises(exceptions.LimitExceeded):
        world.join(lease_id, 'c')
    assert world.join(lease_id, 'b') == joined


def test_lease_that_is_over_makes_room_in_the_quota(world: World, time: Time) -> None:
    limit(world, leases=1)
    world.create('a')
    time.forward(hours=2)
    with pytest.raises(exceptions.LimitExceeded):
        world.create('b', end=LATER)
    world.run_until_idle()
    world.create('b', end=LATER)


def test_a_repeated_request_at_the_limit_gets_its_lease(world: World) -> None:
    limit(world, leases=1)
    lease_id = world.create('a')
    assert world.create('a') == lease_id
    with pytest.raises(exceptions.LimitExceeded):
        world.create('b')


def test_an_empty_lease_may_be_changed_above_the_limit(world: World) -> None:
    keystone = limit(world, leases=1)
    lease_id = world.create('a')
    keystone.most['leases'] = 0
    world.update(lease_id, end_date=LATER)
    assert world.lease(lease_id).end_date == at(LATER)


def test_create_while_keystone_is_away_is_unavailable(world: World) -> None:
    keystone = limit(world)

    def away(_project: str) -> dict[str, int]:
        raise exceptions.ServiceUnavailable('Try again.')

    keystone.read_limits = away  # type: ignore[method-assign]
    with pytest.raises(exceptions.ServiceUnavailable):
        world.create('a')
    assert nothing_is_left(world)


def test_nothing_is_asked_while_it_is_off(world: World) -> None:
    external = Judge()
    external.on_create = external.on_update = external.on_end = False
    world.operations.quota.external = external
    # As in test_statements.py.
    assert len(world.statements(lambda: world.create('a'))) == 5
    assert not external.creates


def test_limits_cost_the_same_statements_for_any_number(world: World) -> None:
    limit(world)
    # One to count, and in the transaction one to lock, one to count again, and one for the row
    # that is locked from now on.
    assert len(world.statements(lambda: world.create('first'))) == 5 + 1 + 3
    # What the transaction before it has counted spares the first count.
    assert len(world.statements(lambda: world.create('a'))) == 5 + 2
    many = [f'x{number}' for number in range(50)]
    lease_id = world.create(*many, end=LATER)
    assert len(world.statements(lambda: world.create('b'))) == 5 + 2
    joins = len(world.statements(lambda: world.join(lease_id, 'c')))
    world.operations.quota.project_limits = Limits(world.conf, None)
    assert joins == len(world.statements(lambda: world.join(lease_id, 'd'))) + 1 + 2


def test_create_asks_keystone_again_before_it_is_refused_by_what_was_counted(
    world: World,
) -> None:
    keystone = limit(world, leases=2)
    world.create('a')
    # Another manager has created one since that was counted.
    quota = world.operations.quota
    noted = dict(world.database.read(count_used, 'project1'))
    world.create('b')
    quota.note('project1', noted)
    keystone.remembered, keystone.most = keystone.most, {**keystone.most, 'leases': 3}
    keystone.asked.clear()
    world.create('c')
    assert keystone.asked == ['project1']

    quota.note('project1', noted)
    with pytest.raises(exceptions.LimitExceeded) as refused:
        world.create('d')
    assert 'limit of 3, 3 in use' in str(refused.value)
    assert used(world)['leases'] == 3


def test_create_is_not_refused_by_what_was_counted_before_others_were_deleted(
    world: World,
) -> None:
    limit(world, leases=1)
    lease_id = world.create('a')
    world.delete(lease_id)
    world.run_until_idle()
    world.create('b')


def test_external_service_is_not_asked_about_what_the_limits_refuse(world: World) -> None:
    limit(world, leases=1)
    external = judge(world)
    world.create('a')
    external.creates.clear()
    world.operations.quota.note('project1', {})
    with pytest.raises(exceptions.LimitExceeded):
        world.create('b')
    assert not external.creates


def test_a_dry_run_says_when_there_is_room(world: World) -> None:
    limit(world, reserved_vcpus=4)
    world.create('a', end='2082-12-01 15:00')
    world.create('b', end='2082-12-01 14:00')
    body = {
        'name': 'c',
        'end_date': LATER,
        'reservations': [world.wanted(each) for each in 'cd'],
    }
    told = world.operations.check_lease(user(), body)
    assert told['granted'] is False
    assert told['refusals'][0]['error_name'] == 'limits.exceeded'
    assert told['available_from'] == '2082-12-01T15:00:00.000000'
    del body['reservations'][1]
    told = world.operations.check_lease(user(), body)
    assert told['available_from'] == '2082-12-01T14:00:00.000000'


def test_a_dry_run_finds_all_that_is_wrong(world: World) -> None:
    limit(world, leases=0)
    world.conf.set_override('max_lease_seconds', 60, group='limits')
    world.conf.set_override('max_ahead_seconds', 60, group='limits')
    judge(world).answer = exceptions.LeaseNotPermitted('No budget.')
    start = '2082-12-01 13:00'
    body = {'name': 'c', 'start_date': start, 'end_date': LATER, 'reservations': []}
    told = world.operations.check_lease(user(), body)
    assert [each['error_name'] for each in told['refusals']] == [
        'lease.too_long',
        'lease.too_far_ahead',
        'limits.exceeded',
        'lease.not_permitted',
    ]
    assert told['available_from'] is None
    assert nothing_is_left(world)


@pytest.mark.parametrize('ways', [('create', 'create'), ('join', 'join'), ('create', 'join')])
@pytest.mark.parametrize('first', [True, False])
def test_one_of_two_creates_at_once_gets_the_last_place(
    any_world: World, ways: tuple[str, str], first: bool
) -> None:
    """Both have found room before one of them writes; only one of them gets it."""
    limit(any_world, reserved_servers=2)
    other = any_world.create('first', end='2090-01-01 00:00', start='2089-01-01 00:00')
    if first:
        with any_world.database.engine.begin() as connection:
            connection.execute(tables.PROJECTS.delete())
    # Both wait for each other between the first look and the transaction.
    both = threading.Barrier(2, timeout=30)
    ask = any_world.operations.quota.external

    class Meet(Judge):
        def check_create(self, lease: model.Lease) -> None:
            both.wait()

        def check_update(self, before: model.Lease, after: model.Lease) -> None:
            both.wait()

    assert not ask.on_create
    any_world.operations.quota.external = Meet()
    results: list[str] = []

    def run(way: str, thing: str) -> None:
        try:
            if way == 'create':
                body = {'start': '2089-01-01 00:00', 'end': '2090-01-01 00:00', 'name': thing}
                any_world.create(thing, **body)
            else:
                any_world.join(other, thing)
            results.append('made')
        except exceptions.LimitExceeded:
            results.append('refused')

    threads = [threading.Thread(target=run, args=(way, f'thing{n}')) for n, way in enumerate(ways)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == ['made', 'refused']
    assert used(any_world)['reserved_servers'] == 2


def test_a_commit_whose_answer_was_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt after it counts what it wrote, and must not take the trust from it."""
    limit(world, leases=1)
    write = world.database.write

    def lost(function: Any, *args: Any, **kw: Any) -> Any:
        write(function, *args, **kw)
        if function == world.operations.creator.write_one:
            # What the next attempt of the retry does.
            return write(function, *args, **kw)
        raise db_exc.DBConnectionError

    monkeypatch.setattr(world.database, 'write', lost)
    lease_id = world.create('a')
    lease = world.lease(lease_id)
    assert lease.trust_id in world.trusts.present


def test_reservations_that_join_concurrently_are_limited(world: World) -> None:
    lease_id, operations = world.create('a'), world.operations
    operations.services.conf.set_override('reservations_per_lease', 2, group='limits')
    owner = world.owner(lease_id)
    drafts = [
        operations.creator.read_reservation(owner, lease_id, world.wanted(thing), None)
        for thing in 'bc'
    ]
    operations.creator.write_draft(owner, drafts[0])
    with pytest.raises(exceptions.BadRequest) as late:
        operations.creator.write_draft(owner, drafts[1])
    with pytest.raises(exceptions.BadRequest) as early:
        world.join(lease_id, 'd')
    assert late.value.body == early.value.body
    assert late.value.field == 'reservations'
    assert len(world.lease(lease_id).live) == 2
