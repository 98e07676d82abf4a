# SPDX-License-Identifier: Apache-2.0
"""Whatever is asked, the dry run grants what is made, and nothing else."""

import pathlib
import uuid
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from climate_core import exceptions
from tests.support.world import TYPE, Time, World, user

ID = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'

_GOOD = {'end_date': '2082-12-01 15:00'}
_TIMES = [
    *(_GOOD, _GOOD, _GOOD, {'duration': '2h'}, {'start_date': '2082-12-01 13:00', **_GOOD}),
    *({}, {'duration': 60, **_GOOD}, {'start_date': '2082-12-01 10:00', **_GOOD}),
    *({'duration': '0'}, {'end_date': '2082-12-01 11:00'}, {'start_date': 'x', **_GOOD}),
]
_OPTIONS = [{}, {}, {}, {}, {'start_policy': 'manual'}, {'before_start': [0]}, {'name': ''}]
_NAMES = [{'name': 'n'}, {'name': 'n'}, {'name': 'n', 'id': ID}, {'name': 'other'}]
_THINGS = [['a'], ['a'], ['a', 'b'], ['b'], ['unknown'], ['a', 'a'], []]
_REQUESTS = st.tuples(*(st.sampled_from(each) for each in (_NAMES, _TIMES, _OPTIONS, _THINGS)))
_KEYS = st.sampled_from(['k', None, None])


def _dry(world: World, project: str, body: dict[str, Any]) -> tuple[bool, str]:
    try:
        answer = world.operations.check_lease(user(project), body)
    except exceptions.ClimateError as error:
        return False, error.code
    refusals = answer['refusals']
    assert answer['granted'] == (not refusals)
    return answer['granted'], refusals[0]['error_name'] if refusals else ''


def _real(world: World, project: str, body: dict[str, Any]) -> tuple[bool, str]:
    try:
        world.operations.creator.create_lease(user(project), body)
    except exceptions.ClimateError as error:
        return False, error.code
    return True, ''


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(['project1', 'project1', 'project2']), _REQUESTS, _KEYS),
        min_size=1,
        max_size=6,
    )
)
def test_the_dry_run_agrees(
    tmp_path: pathlib.Path, requests: list[tuple[str, tuple[Any, ...], str | None]]
) -> None:
    world = World(f'sqlite:///{tmp_path}/{uuid.uuid4()}.sqlite', Time())
    try:
        for project, (names, times, options, things), key in requests:
            body = {**names, **times, **options}
            body['reservations'] = [{'resource_type': TYPE, 'resource_id': t} for t in things]
            if key is not None and 'id' not in body:
                body = body | {'idempotency_key': key}
            said, real = _dry(world, project, body), _real(world, project, body)
            # Where a lease is joined, what is asked first is another question.
            assert said == real or ('id' in body and said[0] == real[0])
    finally:
        world.database.dispose()
