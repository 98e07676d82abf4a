# SPDX-License-Identifier: Apache-2.0
import json

import pytest
import requests
from keystoneauth1 import exceptions as ksa

from climate_core import exceptions
from climate_core.cloud import errors


def answer(status, body=b'', reason='Because'):
    response = requests.Response()
    response.status_code = status
    response.reason = reason
    response._content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return response


@pytest.mark.parametrize('status', [200, 201, 202, 204, 300])
def test_an_answer_below_400_is_good(status):
    response = answer(status)
    assert errors.check(response, 'Nova') is response


@pytest.mark.parametrize(
    ('status', 'kind'),
    [
        (401, errors.Unaccepted),
        (408, exceptions.Transient),
        (413, exceptions.Transient),
        (429, exceptions.Transient),
        (500, exceptions.Transient),
        (503, exceptions.Transient),
        (409, errors.Busy),
        (404, errors.Gone),
        (403, errors.Refused),
        (400, exceptions.Permanent),
        (405, exceptions.Permanent),
    ],
)
def test_status_of_an_answer_raises_its_error(status, kind):
    with pytest.raises(kind) as caught:
        errors.check(answer(status, {'x': {'message': 'No way.'}}), 'Nova')
    assert str(caught.value) == f'Nova answered {status}: No way.'


@pytest.mark.parametrize(
    ('body', 'expected'),
    [
        ({'error': {'message': 'Deep.'}}, 'Deep.'),
        ({'message': 'Flat.'}, 'Flat.'),
        ({'a': 1, 'b': {'c': {'message': 'Deeper.'}}}, 'Deeper.'),
        ([1], 'Because'),
        (b'out of order', 'out of order'),
        (b'<html>\n <head>\n  <title>404 Not Found</title>', 'Because'),
        (b'', 'Because'),
    ],
)
def test_the_sentence_of_an_error(body, expected):
    assert errors.message(answer(500, body)) == expected


@pytest.mark.parametrize('body', [b'<html>', b'', {'other': 1}, [1], b'null'])
def test_answer_without_an_error_of_the_service_is_a_failure(body):
    with pytest.raises(exceptions.Transient, match='Nova answered without'):
        errors.read(answer(200, body), 'Nova', 'server')


@pytest.mark.parametrize('body', [b'<html>', b'', [1], b'null'])
def test_answer_that_is_no_object_is_a_failure(body):
    with pytest.raises(exceptions.Transient, match='Heat answered without'):
        errors.read(answer(200, body), 'Heat')
    assert errors.read(answer(200, {'a': 'text'}), 'Heat') == {'a': 'text'}


def test_answer_is_read_or_raises_its_error():
    assert errors.read(answer(200, {'server': {'id': 'x'}}), 'Nova', 'server') == {'id': 'x'}
    with pytest.raises(errors.Gone):
        errors.read(answer(404), 'Nova', 'server')


@pytest.mark.parametrize(
    'error',
    [
        ksa.ConnectFailure('x'),
        ksa.ConnectTimeout('x'),
        ksa.EndpointNotFound('x'),
        ksa.DiscoveryFailure('x'),
        ksa.Unauthorized('x'),
        ksa.NotFound('x'),
        ksa.InternalServerError('x'),
    ],
)
def test_the_way_to_a_service_can_be_repaired(error):
    with pytest.raises(exceptions.Transient, match='Nova'), errors.translated('Nova'):
        raise error


def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(KeyError), errors.translated('Nova'):
        raise KeyError('x')


@pytest.mark.parametrize(
    ('error', 'kind'),
    [
        (errors.Gone('x'), exceptions.ResourceNotFound),
        (errors.Refused('x'), exceptions.Forbidden),
        (errors.Unaccepted('x'), exceptions.Unauthorized),
        (exceptions.Permanent('x'), exceptions.BadRequest),
        (exceptions.Transient('x'), exceptions.ServiceUnavailable),
        (errors.Busy('x'), exceptions.ServiceUnavailable),
    ],
)
def test_error_of_a_service_is_turned_into_one_for_users(error, kind):
    with pytest.raises(kind), errors.for_user('resource_id'):
        raise error
