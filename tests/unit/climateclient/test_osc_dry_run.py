# SPDX-License-Identifier: Apache-2.0
"""``openstack lease create --dry-run``."""

import json

import pytest

from tests.unit.climateclient import samples

LEASES = f'{samples.ENDPOINT}/leases'


@pytest.fixture
def checked(http):
    refusal = samples.error(409, 'Server vm1 is reserved.', 'reservation.resource_reserved')
    answer = {
        'granted': False,
        'refusals': [refusal | {'field': 'reservations[0]'}],
        'available_from': '2082-11-22T06:00:00.100000',
        'start_date': '2082-11-21T04:00:00.000000',
        'end_date': '2082-11-21T06:00:00.000000',
    }
    http.post(f'{LEASES}?dry_run=true', json={'dry_run': answer})
    return answer


def test_dry_run_shows_refusals(openstack, sent, checked):
    status, out, err = openstack('lease', 'create', 'lease1', '--for', '2h', '--dry-run')
    assert (status, err) == (1, '')
    assert 'reservations[0]: Server vm1 is reserved. (reservation.resource_reserved)' in out
    assert '2082-11-22 07:00:01+01:00' in out
    (body,) = sent('POST')
    assert body['name'] == 'lease1'


@pytest.mark.parametrize(
    'answer',
    [
        {'granted': True, 'refusals': [], 'available_from': None},
        # A lease that would wait is not refused.
        {'granted': False, 'waits': True},
    ],
)
def test_dry_run_shows_what_would_be_granted(run, checked, answer):
    checked |= answer
    out = run('lease', 'create', 'lease1', '--for', '2h', '--dry-run', '-f', 'json')
    shown = json.loads(out)
    assert {name: shown[name] for name in answer} == answer
    assert shown['end_date'] == '2082-11-21T06:00:00+00:00'


@pytest.mark.parametrize(
    ('granted', 'waits', 'kind', 'outcome'),
    [
        (True, False, 'immediate', 'be created.'),
        (True, True, 'immediate', 'be created, and queued until leases are preempted for it.'),
        (False, True, 'retry', 'be created, and queued until there is sufficient capacity.'),
        (False, True, 'best_effort', 'be created, and queued until shared hosts are drained.'),
        (False, False, 'retry', 'be rejected.'),
    ],
)
def test_dry_run_says_in_a_sentence_what_would_happen(
    openstack, checked, granted, waits, kind, outcome
):
    checked |= {'granted': granted, 'waits': waits}
    argv = ('lease', 'create', 'lease1', '--for', '2h', '--kind', kind, '--dry-run', '-f', 'json')
    status, out, _ = openstack(*argv)
    assert status == (not granted and not waits)
    assert json.loads(out)['outcome'].startswith(f'The lease would {outcome}')


def test_dry_run_does_not_wait(fail, checked):
    err = fail('lease', 'create', 'lease1', '--for', '2h', '--dry-run', '--wait')
    assert 'leave out --wait' in err
