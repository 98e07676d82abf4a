# SPDX-License-Identifier: Apache-2.0
"""A lease says before its start that this will fail, and that it will not any more."""

import dataclasses
from typing import Any

import pytest

from climate_core.lease import failures, model
from climate_core.lease.events.start import START_WARNING
from tests.support.leases import claimed, lease, reservation

TOLD = 'The start will fail: The trust is no more.'


def _told(**fields: Any) -> model.Lease:
    return lease(reservation(), status_reason=TOLD, **fields)


def test_what_will_fail_is_told() -> None:
    before = lease(reservation())
    change = failures.record_start_warning(before, 'The trust is no more.')
    assert change.lease == dataclasses.replace(before, status_reason=TOLD)
    assert change.notifications == {START_WARNING: TOLD}


def test_what_is_told_already_is_not_told_again() -> None:
    before = _told()
    change = failures.record_start_warning(before, 'It is disabled.')
    assert change.lease is before
    assert change.notifications == {}


def test_what_will_not_fail_any_more_is_told() -> None:
    change = failures.record_start_warning(_told(), None)
    assert change.lease.status_reason is None
    assert change.notifications == {'lease.update': failures.TRUST_ACCEPTED}


def test_nothing_is_told_where_nothing_was_wrong() -> None:
    before = lease(reservation(), status_reason='Something else.')
    assert failures.record_start_warning(before, None).lease is before


def test_what_else_is_wrong_stays_readable() -> None:
    lost = dataclasses.replace(reservation(reason='It is gone.'), missing_resources=True)
    told = failures.record_start_warning(lease(lost), 'The trust is no more.').lease
    assert told.status_reason == f'{TOLD} t thing: It is gone.'
    assert failures.record_start_warning(told, None).lease.status_reason == 't thing: It is gone.'


@pytest.mark.parametrize(
    'begun',
    [
        claimed(lease(reservation()), model.START)[0],
        lease(reservation(), status='STARTING'),
        lease(reservation(), status='DELETING'),
        lease(reservation(), start_policy='manual'),
    ],
)
def test_start_that_has_begun_or_does_not_come_says_itself_what_becomes_of_it(
    begun: model.Lease,
) -> None:
    assert failures.record_start_warning(begun, 'The trust is no more.').lease is begun
