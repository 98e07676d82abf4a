# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import webob

from climate_core import exceptions
from climate_core.api.request import read_query

DECLARED: dict[str, Any] = {
    'limit': {'type': 'integer', 'minimum': 1, 'maximum': 2**63 - 1},
    'count': {'type': 'integer', 'minimum': 0, 'maximum': 9},
    'deleted': {'type': 'boolean'},
    'name': {'type': 'string', 'maxLength': 5},
    'status': {'type': 'array', 'items': {'type': 'string', 'enum': ['ON', 'OFF']}},
}


def read(text: str) -> dict[str, Any]:
    return read_query(webob.Request.blank('/x?' + text), DECLARED)


@pytest.mark.parametrize(
    ('text', 'values'),
    [
        ('', {}),
        ('limit=5', {'limit': 5}),
        ('deleted=true', {'deleted': True}),
        ('deleted=0', {'deleted': False}),
        ('deleted=False', {'deleted': False}),
        ('name=a%20b', {'name': 'a b'}),
        ('name=', {'name': ''}),
        ('status=ON', {'status': ['ON']}),
        ('status=ON,OFF', {'status': ['ON', 'OFF']}),
        ('status=ON&status=OFF', {'status': ['ON', 'OFF']}),
        ('status=on,Off', {'status': ['ON', 'OFF']}),
        ('marker=', {}),
    ],
)
def test_query_is_read_into_values(text: str, values: dict[str, Any]) -> None:
    assert read(text) == values


@pytest.mark.parametrize(
    ('text', 'field'),
    [
        ('limit=0', 'limit'),
        ('limit=-1', 'limit'),
        ('limit=x', 'limit'),
        ('limit=1_0', 'limit'),
        ('limit=%D9%A3', 'limit'),
        ('limit=' + '9' * 400, 'limit'),
        ('limit=', 'limit'),
        ('limit=1&limit=1', 'limit'),
        ('deleted=maybe', 'deleted'),
        ('name=abcdef', 'name'),
        ('status=', 'status'),
        ('status=ON,', 'status'),
        ('colour=red', 'colour'),
        ('Limit=1', 'Limit'),
        ('=1', None),
        ('name=%ff', None),
        ('%ff=1', None),
    ],
)
def test_wrong_query_is_refused_and_names_the_field(text: str, field: str | None) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        read(text)
    assert (caught.value.field or None) == field


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('limit=-1', "limit: must be an integer from 1 on, not '-1'."),
        ('limit=0', "limit: must be an integer from 1 on, not '0'."),
        ('limit=', "limit: must be an integer from 1 on, not ''."),
        ('count=ten', "count: must be an integer from 0 to 9, not 'ten'."),
        ('count=10', "count: must be an integer from 0 to 9, not '10'."),
    ],
)
def test_wrong_number_is_refused_with_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(exceptions.BadRequest) as caught:
        read(text)
    assert caught.value.message == said


def test_what_is_not_known_is_told_with_what_is() -> None:
    with pytest.raises(
        exceptions.BadRequest, match='Known are: count, deleted, limit, name, status'
    ):
        read('colour=red')
