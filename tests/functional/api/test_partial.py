# SPDX-License-Identifier: Apache-2.0
"""A type of resource that grants between ``min`` and ``max`` says so in its own schema."""

import pathlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import webob

from climate_core import exceptions
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.plugins import base
from tests.functional.api import world

Post = Callable[..., webob.Response]


class Seats(world.Thing):
    """Three seats are free. One reservation is a row of as many of them as can be had."""

    resource_type = 'test:seats'
    schema = {
        'min': {'type': 'integer', 'minimum': 1},
        'max': {'type': 'integer', 'minimum': 1},
    }
    required = ('min', 'max')

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> base.ReservedResource:
        granted = min(3, values['max'])
        if granted < values['min']:
            raise exceptions.BadRequest('Only 3 seats are free.', field='min')
        params = {'min': values['min'], 'max': values['max'], 'granted': granted}
        return base.ReservedResource(str(uuid.uuid4()), params, {'seats': granted})


@pytest.fixture
def post(tmp_path: pathlib.Path) -> Iterator[Post]:
    conf = world.configure(tmp_path)
    with world.running(conf, Database(conf), Seats) as application:

        def send(query: str = '', **seats: Any) -> webob.Response:
            reservation = {'resource_type': 'test:seats', **seats}
            body = {'name': 'n', 'duration': '1h', 'reservations': [reservation]}
            return world.ask(application, 'POST', f'/v1/leases{query}', body)

        yield send


@pytest.mark.parametrize(('most', 'granted'), [(2, 2), (3, 3), (9, 3)])
def test_as_many_as_there_are(post: Post, most: int, granted: int) -> None:
    response = post(min=1, max=most)
    assert response.status_code == 201
    (reservation,) = response.json['lease']['reservations']
    assert (reservation['max'], reservation['granted']) == (most, granted)


def test_fewer_than_the_least_is_refused(post: Post) -> None:
    response = post(min=4, max=9)
    assert (response.status_code, response.json['field']) == (400, 'reservations[0].min')
    dry = post('?dry_run=true', min=4, max=9).json['dry_run']
    assert dry['refusals'] == [response.json]
    assert post('?dry_run=true', min=3, max=9).json['dry_run']['granted']


def test_a_type_whose_schema_has_neither_refuses_both(post: Post) -> None:
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    for name in ('min', 'max'):
        response = post(**thing, **{name: 1})
        assert (response.status_code, response.json['field']) == (400, f'reservations[0].{name}')
        assert 'is one resource' in response.json['error_message']
