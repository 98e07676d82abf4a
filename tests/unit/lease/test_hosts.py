# SPDX-License-Identifier: Apache-2.0
"""Hosts of the pools: what is known of them, their states, and what an operator may give."""

import dataclasses

import pytest

from climate_core import exceptions
from climate_core.lease import hosts
from climate_core.lease.hosts import State
from tests.support.leases import NOON

HYPERVISOR = {
    'hypervisor_hostname': 'cn1',
    'hypervisor_type': 'QEMU',
    'hypervisor_version': 8002000,
    'vcpus': 16,
    'memory_mb': 4096,
    'local_gb': 100,
    'cpu_info': {'arch': 'x86_64', 'vendor': '', 'topology': {'cores': 8}},
    'state': 'up',
    'status': 'enabled',
    'service': {'host': 'compute1'},
}
KNOWN = hosts.describe(
    HYPERVISOR,
    {'zone': 'az1'},
    ['b', 'a'],
    {'VCPU': 32, 'MEMORY_MB': 3584, 'VGPU': 2},
    ['CUSTOM_B', 'CUSTOM_A'],
    units={'VCPU': [1, 16, 2]},
)


def host(**values) -> hosts.Host:
    known = {each.name: getattr(KNOWN, each.name) for each in dataclasses.fields(hosts.Known)}
    usual = {'id': 1, 'pool': 'default', 'available': True, 'provider_id': 'root'}
    lanes = {'lane_ids': ('lane',), 'extra': {}, 'created_at': NOON}
    return hosts.Host(**{**known, **usual, **lanes, **values})


def test_node_is_described_from_nova_and_placement() -> None:
    assert (KNOWN.hypervisor_hostname, KNOWN.service_name) == ('cn1', 'compute1')
    # What has no name of an amount keeps that of its resource class; what it lacks is 0.
    assert KNOWN.capacity == {'vcpus': 32, 'memory_mb': 3584, 'disk_gb': 0, 'VGPU': 2}
    details = dict(KNOWN.details)
    assert (details['cpu_arch'], details['availability_zone']) == ('x86_64', 'az1')
    assert 'cpu_vendor' not in details
    assert (details['traits'], details['aggregates']) == (['CUSTOM_A', 'CUSTOM_B'], ['a', 'b'])
    assert details['units'] == {'vcpus': [1, 16, 2]}
    assert hosts.with_units(KNOWN, {'VGPU': [1, 1, 1]}).details['units'] == {'VGPU': [1, 1, 1]}


def test_facts_are_not_replaced_by_extra_properties_and_numbers_are_numbers() -> None:
    found = KNOWN.properties({'rack': ' 7', 'weight': '1.50', 'vcpus': '99'})
    assert (found['rack'], found['weight'], found['vcpus']) == (7, 1.5, 16)
    assert (found['hypervisor_hostname'], found['service_name']) == ('cn1', 'compute1')
    # They are shown, and are no facts to compare.
    assert not {'cpu_info', 'state', 'status'} & found.keys()


@pytest.mark.parametrize(
    ('value', 'number'),
    [
        ('16', 16),
        ('-1', -1),
        ('+2.5', 2.5),
        (' 3 ', 3),
        (True, True),
        ('1e3', '1e3'),
        ('1' * 19, '1' * 19),
        ('\u0663', '\u0663'),
        ('', ''),
        (None, None),
    ],
)
def test_number_of_a_text_is_a_number(value, number) -> None:
    found = hosts.number(value)
    assert (found, type(found)) == (number, type(number))


def test_host_is_as_it_is_known_whatever_its_operator_gave_it() -> None:
    assert host(extra={'rack': '7'}, disabled_reason='disk').knows(KNOWN)
    assert not host().knows(dataclasses.replace(KNOWN, service_name='other'))


@pytest.mark.parametrize(
    ('values', 'reason', 'true'),
    [
        ({}, None, {'is_kept', 'is_enabled'}),
        ({'available': False, 'disabled_reason': 'disk'}, 'disk', {'is_kept'}),
        ({'available': False, 'state': State.ENROLLING}, 'being enrolled.', {'is_kept', 'is_new'}),
        ({'available': False, 'state': State.NOT_ENROLLED}, 'could not be enrolled.', {'is_new'}),
        (
            {'available': False, 'state': State.FAILED, 'disabled_reason': 'down'},
            'Failed: down',
            {'is_kept', 'failed'},
        ),
        (
            {'available': False, 'state': State.EMPTYING},
            'The host is being emptied.',
            {'is_kept', 'is_new', 'is_emptied'},
        ),
        (
            {'available': False, 'state': State.EMPTYING, 'disabled_reason': 'moved 1'},
            'emptied. moved 1',
            {'is_kept', 'is_new', 'is_emptied'},
        ),
        (
            {'state': State.EMPTYING, 'emptied_for': 'lease1', 'takes_ordinary': False},
            'being emptied for lease lease1',
            {'is_kept', 'is_enabled', 'is_shared'},
        ),
        (
            {'available': False, 'state': State.RETURNING, 'takes_ordinary': False},
            'given back to ordinary servers.',
            {'is_returning', 'is_shared'},
        ),
        ({'available': False, 'state': State.LEAVING}, 'taken out of its pool.', {'is_leaving'}),
        ({'available': False, 'takes_ordinary': True}, None, {'is_enabled', 'is_shared'}),
        (
            {'available': False, 'takes_ordinary': True, 'disabled_reason': 'disk'},
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


def test_host_that_is_emptied_for_a_lease_is_not_changed() -> None:
    hosts.check_not_emptied(host(state=State.EMPTYING))
    with pytest.raises(exceptions.HostChanging, match='cn1 is being emptied for lease lease1'):
        hosts.check_not_emptied(host(emptied_for='lease1'))


@pytest.mark.parametrize(
    ('extra', 'said'),
    [
        ({'vcpus': 1}, 'vcpus: comes from Nova or Placement'),
        ({'pool': 'x'}, 'pool: comes from Nova or Placement'),
        ({'7up': 1}, '7up: must begin with a letter'),
        ({'a b': 1}, 'a b: must begin with a letter'),
        ({'a' * 65: 1}, '64 characters at most'),
    ],
)
def test_extra_property_with_a_wrong_name_is_refused(extra, said) -> None:
    hosts.check_extra({'a' * 64: 1, 'gpu:model-2.x': 'y'})
    with pytest.raises(exceptions.BadRequest, match=said) as caught:
        hosts.check_extra(extra)
    assert caught.value.field == next(iter(extra))


def test_reason_for_a_host_that_is_not_disabled_is_refused() -> None:
    hosts.check_reason('disk', available=False)
    hosts.check_reason(None, available=True)
    with pytest.raises(exceptions.BadRequest, match='goes with disabled: true') as caught:
        hosts.check_reason('disk', available=True)
    assert caught.value.field == 'disabled_reason'
