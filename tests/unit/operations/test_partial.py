# SPDX-License-Identifier: Apache-2.0
"""An extension of which the calendar has not all: what is said, and ``partial``."""

import contextlib
import itertools
from collections.abc import Callable, Sequence

import pytest

from climate_common import dates
from climate_core import exceptions
from climate_core.lease import model, views
from tests.support.mixed import Mixed, a_network, some_addresses, some_hosts, thing
from tests.support.world import World, at, user

ADDRESS = '203.0.113.20'
FIP, HOST, SERVER = 'virtual:floatingip', 'physical:host', 'virtual:instance'
ONE, TWO, FOUR, FIVE = (f'2082-12-01 {hour}:00' for hour in (13, 14, 16, 17))


@pytest.fixture
def mixed(world: World) -> Mixed:
    made = Mixed(world)
    made.add_hosts(1)
    made.add_addresses(ADDRESS)
    return made


@pytest.fixture(params=['now', ONE], ids=['runs', 'later'])
def lease(mixed: Mixed, request: pytest.FixtureRequest) -> model.Lease:
    """Return a lease until two, whose address is somebody else's from then on."""
    made = mixed.lease(request.param, TWO, [some_hosts(), some_addresses(), thing('instance')])
    mixed.world.run_until_idle()
    return made


@pytest.fixture
def other(mixed: Mixed, lease: model.Lease) -> model.Lease:
    return mixed.lease(TWO, FOUR, [some_addresses()])


def early(mixed: Mixed, lease: model.Lease) -> dict[str, str]:
    """Return the end dates that reservations of a lease show of their own, by their types."""
    shown = views.lease_view(mixed.world.lease(lease.id))['reservations']
    return {e['resource_type']: e['end_date'][11:16] for e in shown if 'end_date' in e}


def test_refusal_names_the_part_and_says_what_would_do(
    mixed: Mixed, lease: model.Lease, other: model.Lease
) -> None:
    before = mixed.world.lease(lease.id)
    with pytest.raises(exceptions.NotEnough) as caught:
        mixed.change(lease, end_date=FOUR)
    assert caught.value.field == 'end_date'
    (address,) = (e.id for e in lease.reservations if e.resource_type == FIP)
    begun = lease.start_date < at(ONE)
    later = '' if begun else f' With its new length it could start at {FOUR} UTC.'
    # Others have it from that moment on.
    assert caught.value.message == (
        f'This lease cannot be extended until {FOUR} UTC: floating IP {ADDRESS} (reservation '
        f'{address}) could not be kept any longer.{later} With partial (--partial on the command '
        f'line) all other reservations are extended until {FOUR} UTC, and this part ends at '
        f'{TWO} UTC, as before.'
    )
    assert caught.value.available_from == (None if begun else dates.serialize(at(FOUR)))
    assert mixed.world.lease(lease.id) == before


@pytest.mark.parametrize('start', ['now', ONE])
def test_refusal_says_of_each_part_until_when_it_could_be_extended(
    mixed: Mixed, start: str
) -> None:
    mixed.add_segments(100)
    parts = [thing('instance'), some_hosts(), {**a_network(), 'segment_id': 100}, some_addresses()]
    lease = mixed.lease(start, TWO, parts)
    mixed.world.run_until_idle()
    mixed.lease('2082-12-01 14:30', FIVE, [some_addresses()])
    mixed.lease('2082-12-01 15:00', FIVE, [some_hosts()])
    ids = {each.resource_type: each.id for each in lease.reservations}

    def refused(end: str, partial: bool = False) -> exceptions.NotEnough:
        with pytest.raises(exceptions.NotEnough) as caught:
            mixed.change(lease, end_date=end, partial=partial)
        return caught.value

    def told(end: str, *parts: str) -> str:
        return f'This lease cannot be extended until {end} UTC: {"; ".join(sorted(parts))}. '

    address = (
        f'floating IP {ADDRESS} (reservation {ids[FIP]}) could be kept until 2082-12-01 14:30 UTC'
    )
    hosts = f'hosts (reservation {ids[HOST]}) could be kept until 2082-12-01 15:00 UTC'
    whole = 'This lease could be extended until 2082-12-01 14:30 UTC.'
    partial = (
        'With partial (--partial on the command line) all other reservations are extended until'
    )
    error = refused('2082-12-01 14:45')
    assert error.message.startswith(told('2082-12-01 14:45', address) + whole)
    assert error.message.endswith(
        f'{partial} 2082-12-01 14:45 UTC, and this part ends at {TWO} UTC, as before.'
    )
    error = refused(FOUR)
    assert sorted_parts(error.message) == told(FOUR, address, hosts)
    assert whole in error.message
    assert error.message.endswith(
        f'{partial} {FOUR} UTC, and these parts end at {TWO} UTC, as before.'
    )
    assert ('it could start at' in error.message) is (start == ONE)
    mixed.change(lease, end_date=FOUR, partial=True)
    assert early(mixed, lease) == {FIP: '14:00', HOST: '14:00'}


def sorted_parts(message: str) -> str:
    """Return the first sentence of a refusal with its parts in their alphabetical order."""
    head, parts = message.split('. ')[0].split(' UTC: ', 1)
    return f'{head} UTC: {"; ".join(sorted(parts.split("; ")))}. '


def test_partial_extends_the_rest_and_ends_that_part_at_its_old_end(
    mixed: Mixed, lease: model.Lease, other: model.Lease
) -> None:
    mixed.change(lease, end_date=FOUR, partial=True)
    assert early(mixed, lease) == {FIP: '14:00'}
    with pytest.raises(exceptions.NotEnough):
        mixed.lease(TWO, FOUR, [some_hosts()])
    mixed.world.run_until_idle(hours=1, minutes=30)
    assert mixed.statuses(lease) == {HOST: 'active', FIP: 'active', SERVER: 'active'}
    mixed.world.run_until_idle(hours=1)
    assert mixed.statuses(lease) == {HOST: 'active', FIP: 'deleted', SERVER: 'active'}
    assert mixed.world.lease(other.id).status == 'ACTIVE'
    assert mixed.done('end') == [FIP]
    assert early(mixed, lease) == {}
    ended = mixed.world.lease(lease.id)
    assert (ended.status, ended.degraded, ended.status_reason) == ('ACTIVE', False, None)
    mixed.world.run_until_idle(hours=2)
    ended = mixed.world.lease(lease.id)
    assert (ended.status, ended.status_reason) == ('TERMINATED', None)


def test_partial_of_what_is_free_extends_all(mixed: Mixed, lease: model.Lease) -> None:
    mixed.change(lease, end_date=FOUR, partial=True)
    assert early(mixed, lease) == {}
    with pytest.raises(exceptions.NotEnough):
        mixed.lease(TWO, FOUR, [some_addresses()])


def test_part_that_ends_early_stays_so_until_partial_asks_for_it_again(
    mixed: Mixed, lease: model.Lease, other: model.Lease
) -> None:
    mixed.change(lease, end_date=FOUR, partial=True)
    mixed.change(lease, end_date=FIVE)
    assert early(mixed, lease) == {FIP: '14:00'}
    mixed.change(lease, end_date=FOUR)
    assert early(mixed, lease) == {FIP: '14:00'}
    mixed.change(lease, end_date=FIVE, partial=True)
    assert early(mixed, lease) == {FIP: '14:00'}
    mixed.change(lease, end_date=FIVE, partial=True)
    mixed.world.delete(other.id)
    mixed.world.run_until_idle()
    mixed.change(lease, end_date=FIVE, partial=True)
    assert early(mixed, lease) == {}
    mixed.world.run_until_idle(hours=4)
    assert mixed.statuses(lease)[FIP] == 'active'
    mixed.world.run_until_idle(hours=1)
    assert mixed.world.lease(lease.id).status == 'TERMINATED'


def test_lease_that_ends_earlier_than_its_part_takes_it_along(
    mixed: Mixed, lease: model.Lease, other: model.Lease
) -> None:
    mixed.change(lease, end_date=FOUR, partial=True)
    mixed.change(lease, end_date='2082-12-01 13:30')
    assert early(mixed, lease) == {}
    assert mixed.lease('2082-12-01 13:30', TWO, [some_addresses()])


def test_part_that_ends_early_can_be_taken_out_at_once(
    mixed: Mixed, lease: model.Lease, other: model.Lease
) -> None:
    mixed.change(lease, end_date=FOUR, partial=True)
    mixed.world.operations.remove_reservation(user(), lease.id, lease.reservations[1].id)
    mixed.world.run_until_idle()
    assert mixed.statuses(lease)[FIP] == 'deleted'
    mixed.world.run_until_idle(hours=2)
    assert mixed.done('end') == [FIP]


def test_lease_of_which_nothing_can_be_extended_is_refused(mixed: Mixed) -> None:
    lease = mixed.lease(ONE, TWO, [some_addresses()])
    mixed.lease(TWO, FOUR, [some_addresses()])
    with pytest.raises(exceptions.NotEnough) as caught:
        mixed.change(lease, end_date=FOUR, partial=True)
    assert caught.value.message.startswith(f'This lease cannot be extended until {FOUR} UTC: ')
    assert 'partial' not in str(caught.value)
    assert mixed.world.lease(lease.id) == lease


def test_several_parts_are_left_out_as_long_as_one_is_extended(
    mixed: Mixed, lease: model.Lease, other: model.Lease
) -> None:
    mixed.lease(TWO, FOUR, [some_hosts()])
    mixed.change(lease, end_date=FOUR, partial=True)
    assert early(mixed, lease) == {FIP: '14:00', HOST: '14:00'}


@pytest.mark.parametrize(
    'values',
    [
        {},
        {'name': 'other'},
        {'end_date': '2082-12-01 13:30'},
        {'start_date': ONE, 'end_date': FIVE},
    ],
)
def test_partial_without_a_later_end_is_refused(
    mixed: Mixed, lease: model.Lease, values: dict[str, str]
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        mixed.change(lease, partial=True, **values)
    assert caught.value.field == 'partial'


def extend_again(mixed: Mixed, lease: model.Lease) -> None:
    mixed.change(lease, end_date=FIVE, partial=True)


def shorten(mixed: Mixed, lease: model.Lease) -> None:
    mixed.change(lease, end_date='2082-12-01 15:00')


def give_the_address_back(mixed: Mixed, lease: model.Lease) -> None:
    (address,) = (each.id for each in lease.reservations if each.resource_type == FIP)
    mixed.world.operations.remove_reservation(user(), lease.id, address)


def pass_an_hour(mixed: Mixed, lease: model.Lease) -> None:
    mixed.world.run_until_idle(hours=1)


def pass_the_early_end(mixed: Mixed, lease: model.Lease) -> None:
    mixed.world.run_until_idle(hours=2, minutes=30)


def end(mixed: Mixed, lease: model.Lease) -> None:
    mixed.world.operations.end_lease(user(), lease.id)


Step = Callable[[Mixed, model.Lease], None]
STEPS = (
    extend_again,
    shorten,
    give_the_address_back,
    pass_an_hour,
    pass_the_early_end,
    end,
)


@pytest.mark.parametrize(
    'steps',
    itertools.permutations(STEPS, 2),
    ids=lambda steps: ' '.join(each.__name__ for each in steps),
)
def test_whatever_follows_a_partial_extension_ends_each_resource_once(
    mixed: Mixed, lease: model.Lease, other: model.Lease, steps: Sequence[Step]
) -> None:
    mixed.change(lease, end_date=FOUR, partial=True)
    for step in steps:
        # What is over cannot be changed any more.
        with contextlib.suppress(exceptions.ClimateError):
            step(mixed, lease)
        found = mixed.world.lease(lease.id)
        assert all(each < str(found.end_date)[11:16] for each in early(mixed, lease).values())
    mixed.world.run_until_idle(hours=6)
    assert {each.status for each in mixed.world.lease(lease.id).reservations} == {'deleted'}
    assert mixed.world.lease(lease.id).status == 'TERMINATED'
    # The other lease has had an address, too.
    ended = mixed.done('end')
    assert ended.count(HOST) <= 1
    assert (ended.count(SERVER), ended.count(FIP) <= 2) == (1, True)
    assert mixed.world.lease(other.id).status == 'TERMINATED'
