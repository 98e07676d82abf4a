# SPDX-License-Identifier: Apache-2.0
"""What hints in a template and the line in an environment mean together."""

import json
import uuid

import pytest

from climateclient.extension import hints
from heat_ext.members import reservation_request

LEASE = str(uuid.uuid4())
OTHER = str(uuid.uuid4())
ROOT = str(uuid.uuid4())
FOR_ALL = {'climate_lease_id': LEASE, 'something': 'else'}


@pytest.mark.parametrize('own', [None, {}, {'group': 'x'}, {'reserved': False}])
def test_resource_without_hints_is_not_reserved(own):
    assert reservation_request.parse(own, {}) is None


@pytest.mark.parametrize('value', ['', None])
def test_an_empty_lease_of_the_stack_is_no_way_to_run_at_once(value):
    with pytest.raises(hints.BadHint, match='climate_lease_id: must be the id of a lease'):
        reservation_request.parse(None, {'climate_lease_id': value})


@pytest.mark.parametrize('value', ['x', 17, ['x'], {'a': 'b'}])
def test_what_is_no_lease_of_the_stack(value):
    with pytest.raises(hints.BadHint, match='climate_lease_id'):
        reservation_request.parse(None, {'climate_lease_id': value})


@pytest.mark.parametrize(
    'own', [None, {}, {'group': 'x'}, {'reserved': True}, {'reserved': 'yes'}]
)
def test_the_lease_of_the_stack(own):
    request = reservation_request.parse(own, FOR_ALL)
    assert request.choose_lease_id() == LEASE
    others = {'group': 'x'} if own and 'group' in own else {}
    assert request.to_hints(LEASE, ROOT) == {
        **others,
        'reserved': 'True',
        'lease_id': LEASE,
        'heat_root_stack_id': ROOT,
    }


@pytest.mark.parametrize('defaults', [{}, {'climate_lease_id': OTHER}])
def test_own_lease_wins(defaults):
    request = reservation_request.parse({'lease_id': [OTHER]}, defaults)
    assert request.choose_lease_id() == OTHER
    assert request.to_hints(OTHER, ROOT)['heat_root_stack_id'] == ROOT


def test_another_lease_than_that_of_the_stack_is_not_woken_by_it():
    request = reservation_request.parse({'lease_id': OTHER}, FOR_ALL)
    assert request.to_hints(OTHER, ROOT) == {'reserved': 'True', 'lease_id': OTHER}


def test_resource_that_is_left_out_is_not_reserved():
    assert reservation_request.parse({'reserved': 'no'}, FOR_ALL) is None


@pytest.mark.parametrize('name', ['lease_id', 'lease_params'])
def test_left_out_and_named_at_once(name):
    with pytest.raises(hints.BadHint, match=f'{name}: must be left out where reserved is False'):
        reservation_request.parse({'reserved': False, name: LEASE}, {})


def test_what_is_no_boolean():
    with pytest.raises(hints.BadHint, match='reserved'):
        reservation_request.parse({'reserved': 'perhaps'}, {})


@pytest.mark.parametrize('params', [{'name': 'l', 'end': '1h'}, '{"name": "l", "end": "1h"}'])
def test_new_lease_gets_an_id_to_know_it_by(params):
    request = reservation_request.parse({'lease_params': params}, FOR_ALL)
    made = request.choose_lease_id()
    sent = request.to_hints(made, ROOT)
    assert set(sent) == {'reserved', 'lease_params'}
    assert json.loads(sent['lease_params']) == {'name': 'l', 'end': '1h', 'id': made}
    assert request.choose_lease_id() != made


def test_id_of_a_new_lease_that_is_given():
    request = reservation_request.parse({'lease_params': {'id': OTHER}}, {})
    assert request.choose_lease_id() == OTHER


def test_new_lease_without_a_word_about_it():
    request = reservation_request.parse({'reserved': True}, {})
    assert json.loads(request.to_hints(OTHER, ROOT)['lease_params']) == {'id': OTHER}


@pytest.mark.parametrize('params', ['{', '[1]', 'x'])
def test_what_is_no_object_is_left_to_nova(params):
    request = reservation_request.parse({'lease_params': params}, {})
    assert uuid.UUID(request.choose_lease_id())
    sent = request.to_hints(OTHER, ROOT)['lease_params']
    assert sent in (params, json.dumps(json.loads('[1]')))


def test_what_happens_at_the_end_goes_along():
    request = reservation_request.parse(
        {'lease_id': LEASE, 'lease_params': {'on_end': 'stop'}}, {}
    )
    assert request.to_hints(LEASE, ROOT)['lease_params'] == '{"on_end": "stop"}'


def test_hints_read_what_is_sent():
    """The extensions of nova and cinder understand it as it is meant."""
    sent = reservation_request.parse({'reserved': True}, FOR_ALL).to_hints(LEASE, ROOT)
    assert hints.wants_reservation(sent)
