# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools and their states."""

import dataclasses

import pytest

from climate_hosts import hosts
from climate_hosts.hosts import State
from tests.unit.lease.samples import NODE, host


def test_host_is_as_it_is_known_whatever_its_operator_gave_it() -> None:
    assert host(extra={'rack': '7'}, disabled_reason='disk').knows(NODE)
    assert not host().knows(dataclasses.replace(NODE, service_name='other'))


@pytest.mark.parametrize(
    ('values', 'reason', 'true'),
    [
        ({}, None, {'is_isolated', 'is_enabled'}),
        ({'available': False, 'disabled_reason': 'disk'}, 'disk', {'is_isolated'}),
        (
            {'available': False, 'state': State.ENROLLING},
            'being added to its pool.',
            {'is_isolated', 'is_new', 'is_half_enrolled'},
        ),
        (
            {'available': False, 'state': State.NOT_ENROLLED},
            'could not be added to its pool.',
            {'is_new', 'is_half_enrolled'},
        ),
        (
            {'available': False, 'state': State.FAILED, 'disabled_reason': 'down'},
            'Failed: down',
            {'is_isolated', 'failed'},
        ),
        (
            {'available': False, 'state': State.EMPTYING},
            'The host is being drained.',
            {'is_isolated', 'is_new', 'is_draining'},
        ),
        (
            {'available': False, 'state': State.EMPTYING, 'disabled_reason': 'moved 1'},
            'drained. moved 1',
            {'is_isolated', 'is_new', 'is_draining'},
        ),
        (
            {'state': State.EMPTYING, 'emptied_for': 'lease1', 'open_to_unreserved': False},
            'being drained for lease lease1',
            {'is_isolated', 'is_enabled', 'is_shared'},
        ),
        (
            {'available': False, 'state': State.RETURNING, 'open_to_unreserved': False},
            'returned to ordinary servers.',
            {'is_returning', 'is_shared'},
        ),
        ({'available': False, 'state': State.LEAVING}, 'removed from its pool.', {'is_leaving'}),
        ({'available': False, 'open_to_unreserved': True}, None, {'is_enabled', 'is_shared'}),
        (
            {'available': False, 'open_to_unreserved': True, 'disabled_reason': 'disk'},
            'disk',
            {'is_shared'},
        ),
    ],
)
def test_state_says_why_it_takes_no_promises_and_who_may_be_there(values, reason, true) -> None:
    one = host(**values)
    names = [name for name in vars(hosts.Host) if name.startswith('is_')]
    assert {name for name in (*names, 'failed') if getattr(one, name)} == true
    assert one.reason is None if reason is None else one.reason.endswith(reason)
