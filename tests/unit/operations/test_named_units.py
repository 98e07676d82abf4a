# SPDX-License-Identifier: Apache-2.0
"""The refusals of leases that name their addresses, or the number of their segment."""

import uuid
from typing import Any

import pytest

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_networks import db
from climate_networks.operations import NetworkOperations
from tests.support.mixed import NETWORK, Mixed, a_network, some_addresses
from tests.support.world import World, user

FIRST, SECOND, THIRD, ELSEWHERE, UNKNOWN = (f'203.0.113.{number}' for number in range(9, 14))
OTHER_NETWORK = str(uuid.uuid4())
NOW, ONE, TWO, THREE = 'now', *(f'2082-12-01 {hour}:00' for hour in (13, 14, 15))
LATER = 'Capacity is sufficient for the same duration from 2082-12-01 15:00 UTC on.'
PLACE = 'reservations[0].'


@pytest.fixture
def mixed(world: World) -> Mixed:
    made = Mixed(world)
    made.add_addresses(FIRST, SECOND, THIRD)
    world.database.write(db.insert_floatingips, OTHER_NETWORK, {ELSEWHERE: 'subnet'})
    made.add_segments(100, 101)
    return made


def addresses(*required: str) -> dict[str, Any]:
    return {**some_addresses(len(required)), 'required_floatingips': [*required]}


def segment(number: int, **values: Any) -> dict[str, Any]:
    return {**a_network(), 'segment_id': number, **values}


def refused(mixed: Mixed, *reservations: dict[str, Any], start: str = ONE) -> Any:
    with pytest.raises(exceptions.ClimateError) as caught:
        mixed.lease(start, THREE, reservations)
    return caught.value


@pytest.mark.parametrize(
    ('taken', 'asked', 'field', 'told'),
    [
        pytest.param(
            [addresses(SECOND)],
            addresses(FIRST, SECOND),
            'required_floatingips',
            f'{SECOND} is allocated to another reservation',
            id='an address',
        ),
        pytest.param(
            [addresses(SECOND), addresses(FIRST)],
            addresses(THIRD, SECOND, FIRST),
            'required_floatingips',
            f'{FIRST} and {SECOND} are allocated to other reservations',
            id='addresses',
        ),
        pytest.param(
            [segment(100)],
            segment(100),
            'segment_id',
            'VLAN 100 of physnet1 is allocated to another reservation',
            id='a segment',
        ),
    ],
)
def test_refusal_names_what_others_are_promised_and_nothing_of_them(
    mixed: Mixed, taken: Any, asked: Any, field: str, told: str
) -> None:
    others = [mixed.lease(TWO, THREE, [each]) for each in taken]
    error = refused(mixed, asked)
    times = 'between 2082-12-01 13:00 UTC and 2082-12-01 15:00 UTC'
    assert error.message == f'{told} {times}. {LATER}'
    assert isinstance(error, exceptions.NotEnough)
    assert error.field == PLACE + field
    assert not any(each.id in error.message for each in others)


@pytest.mark.parametrize(
    ('required', 'told'),
    [
        ([FIRST, UNKNOWN], f'{UNKNOWN} is not registered for leases in network {NETWORK}.'),
        (
            [FIRST, ELSEWHERE, UNKNOWN],
            f'{ELSEWHERE} and {UNKNOWN} are not registered for leases in network {NETWORK}; '
            f'{ELSEWHERE} is one of network {OTHER_NETWORK}.',
        ),
    ],
)
@pytest.mark.parametrize('taken', [False, True])
def test_refusal_names_addresses_that_are_not_set_apart_or_in_another_network(
    mixed: Mixed, required: list[str], told: str, taken: bool
) -> None:
    if taken:
        mixed.lease(TWO, THREE, [addresses(FIRST)])
    error = refused(mixed, addresses(*required))
    assert error.message == f'Capacity is insufficient at all times: {told}'
    assert (type(error), error.field) == (
        exceptions.NotEnough,
        f'{PLACE}required_floatingips',
    )


@pytest.mark.parametrize(
    ('asked', 'field', 'told'),
    [
        pytest.param(
            [addresses(FIRST, SECOND), addresses(THIRD), addresses(SECOND)],
            'required_floatingips',
            SECOND,
            id='an address',
        ),
        pytest.param(
            [segment(100), some_addresses(), segment(100)],
            'segment_id',
            'VLAN 100 of physnet1',
            id='a segment',
        ),
        pytest.param(
            [segment(100), some_addresses(), segment(100, physical_network='physnet1')],
            'segment_id',
            'VLAN 100 of physnet1',
            id='a segment in other words',
        ),
    ],
)
@pytest.mark.parametrize('kind', ['scheduled', 'retry'])
def test_request_that_names_something_twice_is_told_so(
    mixed: Mixed, asked: Any, field: str, told: str, kind: str
) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        mixed.lease(NOW if kind == 'retry' else ONE, THREE, asked, kind=kind)
    places = [f'reservations[{number}].{field}' for number in (2, 0)]
    assert caught.value.field in places
    here, there = places if caught.value.field == places[0] else places[::-1]
    assert caught.value.message == (
        f'{here}: the request names {told} twice, here and in {there}. Name each once.'
    )


def test_availability_of_what_is_named_twice_is_told_so(mixed: Mixed) -> None:
    values = {'duration': '1h', 'reservations': [segment(100), segment(100)]}
    with pytest.raises(exceptions.BadRequest, match='names VLAN 100 of physnet1 twice'):
        mixed.world.operations.find_windows(user(), values)


def test_number_of_a_segment_of_two_switches_can_be_named_twice(mixed: Mixed) -> None:
    mixed.add_segments(100, physical_network='physnet2')
    lease = mixed.lease(ONE, THREE, [segment(100), segment(100)])
    found = {e.unit['physical_network'] for r in lease.reservations for e in r.allocations}
    assert found == {'physnet1', 'physnet2'}
    error = refused(mixed, segment(100), segment(100), start=TWO)
    told = 'VLAN 100 of physnet1 and VLAN 100 of physnet2 are allocated to other reservations'
    assert error.message.startswith(told)


def test_addresses_of_two_networks_are_no_address_twice(mixed: Mixed) -> None:
    mixed.world.database.write(db.insert_floatingips, OTHER_NETWORK, {FIRST: 'subnet'})
    other = {**addresses(FIRST), 'network_id': OTHER_NETWORK}
    assert mixed.lease(ONE, THREE, [addresses(FIRST), other])


def test_refusal_says_that_a_segment_is_disabled(mixed: Mixed, world: World) -> None:
    operations = NetworkOperations(world.database, None)  # type: ignore[arg-type]
    number = mixed.add_segments(102)[0]
    operations.update_network(RequestContext(), number, {'available': False})
    error = refused(mixed, segment(102))
    told = 'Capacity is insufficient at all times: VLAN 102 of physnet1 is disabled.'
    assert (error.message, error.field) == (told, f'{PLACE}segment_id')


@pytest.mark.parametrize('start', [NOW, ONE])
def test_change_to_addresses_that_are_taken_names_them(mixed: Mixed, start: str) -> None:
    mixed.lease(NOW, TWO, [addresses(SECOND)])
    lease = mixed.lease(start, THREE, [addresses(FIRST)])
    mixed.world.run_until_idle()
    (mine,) = lease.reservations
    values = {'id': mine.id, 'amount': 2, 'required_floatingips': [FIRST, SECOND]}
    with pytest.raises(exceptions.NotEnough) as caught:
        mixed.change(lease, reservations=[values])
    assert caught.value.message.startswith(f'{SECOND} is allocated to another reservation between')
    assert caught.value.field == f'{PLACE}required_floatingips'
    assert caught.value.available_from == '2082-12-01T14:00:00.000000'
