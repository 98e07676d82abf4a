# SPDX-License-Identifier: Apache-2.0
"""Requests for stacks from templates that make none, or none more, with the real Heat."""

import uuid
from typing import Any

import pytest

from climateclient import exceptions
from tests.cloud.stacking import Stacking
from tests.cloud.templates import EMPTY, LARGE


@pytest.mark.parametrize(
    ('given', 'field', 'words'),
    [
        ({'template': 'resources: {}'}, 'template', 'version'),
        ({'template': 'a: [b'}, 'template', ''),
        ({'template': LARGE.replace('Nova::Server', 'Nova::Nothing')}, 'template', 'Nothing'),
        ({'parameters': {'secrets': 'x'}}, 'template', 'secrets'),
        ({'template': LARGE.replace(', "default": "none"', '')}, 'template', 'secret'),
        ({'template': LARGE.replace('cirros', 'nothing')}, 'template', 'nothing'),
        ({'environment': 'a: [b'}, 'environment', ''),
        (
            {'environment': {'parameter_defaults': {'climate_lease_id': 'x'}}},
            'environment',
            'must not have',
        ),
        ({'name': '9 lives'}, 'name', ''),
        ({'hold': 'later'}, 'hold', 'now, start'),
        ({'resource_id': str(uuid.uuid4())}, 'template', 'not both'),
        ({'name': None}, 'name', ''),
        ({'template': None}, 'name', 'template'),
    ],
)
def test_what_cannot_be_made_is_refused(
    stacks: Stacking, given: dict[str, Any], field: str, words: str
) -> None:
    wanted = {**stacks.wanted(LARGE), **given}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    before = {each.id for each in stacks.person.leases.list()}
    with pytest.raises(exceptions.BadRequest) as caught:
        stacks.lease(reservations=[wanted])
    assert (caught.value.field or '').startswith('reservations[0]'), caught.value
    assert field in str(caught.value), caught.value
    assert words in caught.value.message
    assert not stacks.is_named(wanted.get('name', 'none'))
    assert {each.id for each in stacks.person.leases.list()} <= before


def test_a_name_that_is_taken(stacks: Stacking) -> None:
    stack_id = stacks.create(EMPTY)
    name = stacks.look(stack_id)['stack_name']
    before = {each.id for each in stacks.person.leases.list()}
    with pytest.raises(exceptions.Conflict, match=name) as caught:
        stacks.lease(reservations=[{**stacks.wanted(LARGE), 'name': name}])
    assert caught.value.code == 'reservation.name_taken'
    assert caught.value.field == 'reservations[0].name'
    assert {each.id for each in stacks.person.leases.list()} <= before
    assert stacks.look(stack_id)['stack_status'] == 'CREATE_COMPLETE'
