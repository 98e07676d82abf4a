# SPDX-License-Identifier: Apache-2.0
"""One Idempotency-Key of a project is one request and one lease."""

import pytest

from climate_core import exceptions
from climate_core.lease import request
from tests.support.leases import NOON, lease

KEY = {'idempotency_key': 'k', 'name': 'lease1', 'webhook': {'url': 'u', 'secret': 's'}}


def test_lease_id_never_changes() -> None:
    # With another one the keys that users sent before would make new leases.
    assert request.id_of_key('p', 'k') == '5f0aefa5-37fd-5ee6-b656-21bc44a2cc60'


@pytest.mark.parametrize(
    ('project_id', 'values', 'chosen'),
    [
        ('p', {'id': 'i'}, 'i'),
        ('p', {}, None),
        ('p', KEY, request.id_of_key('p', 'k')),
    ],
)
def test_chosen_id_comes_from_the_request_or_its_key(project_id, values, chosen) -> None:
    assert request.chosen_id(project_id, values) == chosen


def test_key_of_another_project_is_another_lease() -> None:
    assert request.id_of_key('p', 'k') != request.id_of_key('q', 'k')


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
    digests = [request.request_digests(each, 'id', []) for each in (values, KEY)]
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
    one = lease(**fields)
    if not refused:
        request.check_repeated_request(one, ['c', 'd'])
        return
    with pytest.raises(exceptions.IdempotencyConflict) as caught:
        request.check_repeated_request(one, ['c', 'd'])
    assert caught.value.field == 'Idempotency-Key'
