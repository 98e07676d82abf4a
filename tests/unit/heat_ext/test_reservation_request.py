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


@pytest.mark.parametrize(
    ('own', 'defaults'),
    [
        *((each, {}) for each in (None, {}, {'group': 'x'}, {'reserved': False})),
        ({'reserved': 'no'}, FOR_ALL),
    ],
)
def test_resource_without_hints_or_left_out_is_not_reserved(own, defaults):
    assert reservation_request.parse(own, defaults) is None


@pytest.mark.parametrize(
    ('own', 'defaults', 'told'),
    [
        *(
            (None, {'climate_lease_id': each}, 'climate_lease_id: must be the id of a lease')
            for each in ('', None, 'x', 17, ['x'], {'a': 'b'})
        ),
        *(
            ({'reserved': False, each: LEASE}, {}, f'{each}: must be left out where reserved is')
            for each in ('lease_id', 'lease_params')
        ),
        ({'reserved': 'perhaps'}, {}, 'reserved'),
    ],
)
def test_wrong_hint_is_refused(own, defaults, told):
    with pytest.raises(hints.BadHint, match=told):
        reservation_request.parse(own, defaults)


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
    # The extensions of nova and cinder understand it as it is meant.
    assert hints.wants_reservation(request.to_hints(LEASE, ROOT))


@pytest.mark.parametrize(
    ('own', 'defaults', 'sent'),
    [
        ({'lease_id': [OTHER]}, {}, {'lease_id': OTHER, 'heat_root_stack_id': ROOT}),
        (
            {'lease_id': [OTHER]},
            {'climate_lease_id': OTHER},
            {'lease_id': OTHER, 'heat_root_stack_id': ROOT},
        ),
        # It is not woken by another lease than that of the stack.
        ({'lease_id': OTHER}, FOR_ALL, {'lease_id': OTHER}),
        ({'lease_params': {'id': OTHER}}, {}, {'lease_params': f'{{"id": "{OTHER}"}}'}),
        (
            {'lease_id': OTHER, 'lease_params': {'on_end': 'stop'}},
            {},
            {'lease_id': OTHER, 'lease_params': '{"on_end": "stop"}', 'heat_root_stack_id': ROOT},
        ),
    ],
)
def test_lease_of_a_resource_is_taken_before_that_of_the_stack(own, defaults, sent):
    request = reservation_request.parse(own, defaults)
    assert request.choose_lease_id() == OTHER
    assert request.to_hints(OTHER, ROOT) == {'reserved': 'True', **sent}


@pytest.mark.parametrize('params', [{'name': 'l', 'end': '1h'}, '{"name": "l", "end": "1h"}'])
def test_new_lease_gets_an_id_to_know_it_by(params):
    request = reservation_request.parse({'lease_params': params}, FOR_ALL)
    made = request.choose_lease_id()
    sent = request.to_hints(made, ROOT)
    assert set(sent) == {'reserved', 'lease_params'}
    assert json.loads(sent['lease_params']) == {'name': 'l', 'end': '1h', 'id': made}
    assert request.choose_lease_id() != made


def test_new_lease_without_a_word_about_it():
    request = reservation_request.parse({'reserved': True}, {})
    assert json.loads(request.to_hints(OTHER, ROOT)['lease_params']) == {'id': OTHER}


@pytest.mark.parametrize('params', ['{', '[1]', 'x'])
def test_what_is_no_object_is_left_to_nova(params):
    request = reservation_request.parse({'lease_params': params}, {})
    assert uuid.UUID(request.choose_lease_id())
    sent = request.to_hints(OTHER, ROOT)['lease_params']
    assert sent in (params, json.dumps(json.loads('[1]')))
