# SPDX-License-Identifier: Apache-2.0
"""Equal requests give one lease: by an Idempotency-Key, an id, or the resources."""

import dataclasses
import datetime

import pytest

from climate_common import resource_types
from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.lease import model, request
from climate_core.operations import idempotency
from climate_core.operations.draft import Draft, Item
from tests.support import leases
from tests.unit.lease import samples

NOON = datetime.datetime(2082, 12, 1, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
KEY = {'idempotency_key': 'k', 'name': 'lease1', 'webhook': {'url': 'u', 'secret': 's'}}


def read(now, **values):
    return request.read_lease_request({'name': 'lease1', **values}, now, request.RequestRules())


@pytest.mark.parametrize(
    'values',
    [
        {'end_date': '2082-12-02 12:00'},
        {'start_date': ' Now ', 'end_date': '+1d'},
        {'start_date': '+2h', 'duration': '1d'},
        {'start_date': '2082-12-01 13:00', 'end_date': '+PT3H'},
    ],
)
@pytest.mark.parametrize('later', [-MINUTE, datetime.timedelta(0), MINUTE, 60 * MINUTE])
def test_repeated_request_is_the_same_lease_though_now_is_another_time(values, later) -> None:
    first = read(NOON, **values)
    lease = dataclasses.replace(
        samples.lease(), name='lease1', start_date=first.start, end_date=first.end
    )
    assert idempotency.is_same_lease(read(NOON + later, **values), lease)


@pytest.mark.parametrize(
    'values',
    [
        {'start_date': '2082-12-01 13:00', 'end_date': '2082-12-02 12:00'},
        {'start_date': '+30m', 'duration': '1d'},
        {'start_date': '+2h', 'duration': '2d'},
        {'start_date': '+2h', 'end_date': '+1d'},
    ],
)
def test_request_for_another_time_is_another_lease(values) -> None:
    first = read(NOON, start_date='+2h', duration='1d')
    lease = dataclasses.replace(
        samples.lease(), name='lease1', start_date=first.start, end_date=first.end
    )
    assert not idempotency.is_same_lease(read(NOON, **values), lease)


def test_floating_ip_that_another_lease_has_is_refused_by_its_name_in_the_api() -> None:
    holder = samples.lease()
    asked = model.new_reservation('new', resource_types.HELD_FLOATING_IP, 'fip1', {}, NOON)
    draft = Draft(samples.lease(), (Item(asked, {}, 'reservations[0]'),), NOON)
    context = RequestContext(project_id=holder.project_id)
    with pytest.raises(exceptions.ResourceReserved) as caught:
        idempotency.check_unreserved(context, draft, {asked.key: holder})
    assert f'virtual:floatingip fip1 is already reserved by lease {holder.id}' in str(caught.value)
    assert caught.value.field == 'reservations[0].resource_id'


def test_lease_id_never_changes() -> None:
    # With another one the keys that users sent before would make new leases.
    assert idempotency.id_of_key('p', 'k') == '5f0aefa5-37fd-5ee6-b656-21bc44a2cc60'


@pytest.mark.parametrize(
    ('project_id', 'values', 'chosen'),
    [
        ('p', {'id': 'i'}, 'i'),
        ('p', {}, None),
        ('p', KEY, idempotency.id_of_key('p', 'k')),
    ],
)
def test_chosen_id_comes_from_the_request_or_its_key(project_id, values, chosen) -> None:
    assert idempotency.chosen_id(project_id, values) == chosen


def test_key_of_another_project_is_another_lease() -> None:
    assert idempotency.id_of_key('p', 'k') != idempotency.id_of_key('q', 'k')


@pytest.mark.parametrize(
    ('values', 'equal'),
    [
        ({**KEY, 'idempotency_key': 'other'}, True),
        ({**KEY, 'may_join': False}, True),
        ({'webhook': {'secret': 's', 'url': 'u'}, 'name': 'lease1', 'idempotency_key': 'k'}, True),
        ({**KEY, 'name': 'lease2'}, False),
        ({**KEY, 'end_date': 'now'}, False),
    ],
)
def test_digest_is_equal_for_equal_requests(values, equal) -> None:
    digests = [idempotency.request_digests(each, 'id', []) for each in (values, KEY)]
    assert (digests[0] == digests[1]) is equal


@pytest.mark.parametrize(
    ('fields', 'refused'),
    [
        ({'request_digest': 'd'}, False),
        ({'request_digest': 'other'}, True),
        ({'request_digest': None}, True),
        ({'request_digest': 'd', 'deleted_at': NOON}, True),
    ],
)
def test_check_repeated_refuses_another_request_and_deleted_lease(fields, refused) -> None:
    one = leases.lease(**fields)
    if not refused:
        idempotency.check_repeated_request(one, ['c', 'd'])
        return
    with pytest.raises(exceptions.IdempotencyConflict) as caught:
        idempotency.check_repeated_request(one, ['c', 'd'])
    assert caught.value.field == 'Idempotency-Key'
