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
    assert errors.check_response(response, 'Nova') is response


@pytest.mark.parametrize(
    ('status', 'kind'),
    [
        (401, errors.Unauthorized),
        (408, exceptions.Transient),
        (413, exceptions.Transient),
        (429, exceptions.Transient),
        (500, exceptions.Transient),
        (503, exceptions.Transient),
        (409, errors.Busy),
        (404, errors.Gone),
        (403, errors.Forbidden),
        (400, exceptions.Permanent),
        (405, exceptions.Permanent),
    ],
)
def test_status_of_an_answer_raises_its_error(status, kind):
    with pytest.raises(kind) as caught:
        errors.check_response(answer(status, {'x': {'message': 'No way.'}}), 'Nova')
    shown = 'No way.' if status < 500 else 'Because'
    assert str(caught.value) == f'Nova answered {status}: {shown}'


DATE = 'Wed, 21 Oct 2026 07:28:00 GMT'


@pytest.mark.parametrize(
    ('headers', 'seconds'),
    [
        ({'retry-after': '17'}, 17),
        ({'Retry-After': ' 0 '}, 0),
        ({'Retry-After': 'Wed, 21 Oct 2026 07:29:30 GMT', 'Date': DATE}, 90),
        ({'Retry-After': 'Wed, 21 Oct 2026 07:27:00 GMT', 'Date': DATE}, 0),
        ({'Retry-After': 'Wed, 21 Oct 2026 07:29:30', 'Date': DATE}, 0),
        ({'Retry-After': DATE}, 0),
        ({'Retry-After': '-5', 'Date': DATE}, 0),
        ({'Retry-After': '9' * 400}, 0),
        ({'Retry-After': f'Wed, 21 Oct {"9" * 20} 07:29:30 GMT', 'Date': DATE}, 0),
        ({'Retry-After': f'Wed, 21 Oct 2026 07:29:30 +{"9" * 20}', 'Date': DATE}, 0),
        ({'Retry-After': 'soon', 'Date': 'now'}, 0),
        ({}, 0),
    ],
)
def test_retry_after_of_an_answer_is_kept(headers, seconds):
    response = answer(429)
    response.headers.update(headers)
    with pytest.raises(exceptions.Transient) as caught:
        errors.check_response(response, 'Nova')
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    ('body', 'expected'),
    [
        ({'error': {'message': 'Deep.'}}, 'Deep.'),
        ({'message': 'Flat.'}, 'Flat.'),
        ({'a': 1, 'b': {'c': {'message': 'Deeper.'}}}, 'Deeper.'),
        ([1], 'Because'),
        (b'out of order', 'Because'),
        (b'<html>\n <head>\n  <title>404 Not Found</title>', 'Because'),
        (b'', 'Because'),
    ],
)
def test_the_sentence_of_an_error(body, expected):
    assert errors.error_message(answer(500, body)) == expected


@pytest.mark.parametrize('body', [b'<html>', b'', {'other': 1}, [1], b'null'])
def test_answer_without_an_error_of_the_service_is_a_failure(body):
    with pytest.raises(exceptions.Transient, match='Nova answered without'):
        errors.read_response(answer(200, body), 'Nova', 'server')


@pytest.mark.parametrize('body', [b'<html>', b'', [1], b'null'])
def test_answer_that_is_no_object_is_a_failure(body):
    with pytest.raises(exceptions.Transient, match='Heat answered without'):
        errors.read_response(answer(200, body), 'Heat')
    assert errors.read_response(answer(200, {'a': 'text'}), 'Heat') == {'a': 'text'}


def test_answer_is_read_or_raises_its_error():
    assert errors.read_response(answer(200, {'server': {'id': 'x'}}), 'Nova', 'server') == {
        'id': 'x'
    }
    with pytest.raises(errors.Gone):
        errors.read_response(answer(404), 'Nova', 'server')


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


INSIDE = 'http://10.20.30.40:8774/v2.1?token=s3cr3t'
POOL = "HTTPConnectionPool(host='ctl-7.internal', port=8774): Max retries exceeded with url: /v2.1"
TOKEN = 'gAAAAABm' + 'k' * 40
PRIVATE = ('10.20.30.40', 'ctl-7', 's3cr3t', 'v2.1', 'kkkk')


def assert_public(text, caplog):
    """Check that a user reads nothing of the inside, and that the log has all of it."""
    assert [part for part in PRIVATE if part in text] == []
    assert 'ctl-7' in caplog.text


@pytest.mark.parametrize(
    'error',
    [
        ksa.ConnectFailure(f'Unable to establish connection to {INSIDE}: {POOL}'),
        ksa.ConnectTimeout(f'Request to {INSIDE} timed out: {POOL}'),
        ksa.SSLError(f'SSL exception connecting to {INSIDE}: {POOL}'),
        ksa.UnknownConnectionError(f'Unexpected exception for {INSIDE}: {POOL}', OSError()),
        ksa.DiscoveryFailure(f'Could not find versioned identity endpoints at {INSIDE} {POOL}'),
        ksa.EndpointNotFound(f'public endpoint {INSIDE} {POOL}'),
        ksa.Unauthorized(f'{INSIDE} {POOL}'),
        ksa.InternalServerError(f'{INSIDE} {POOL}'),
        ksa.MissingAuthPlugin(f'{INSIDE} {POOL}'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failed_connection_shows_the_service_and_no_url(error, caplog):
    with pytest.raises(exceptions.Transient) as caught, errors.translated('Nova'):
        raise error
    assert str(caught.value).startswith('Nova cannot be reached')
    assert_public(str(caught.value), caplog)


@pytest.mark.parametrize('status', [400, 409, 403, 404, 500, 503])
@pytest.mark.parametrize(
    'body',
    [
        {'error': {'message': f'It failed: {INSIDE} {TOKEN} {POOL}'}},
        f'<html>{INSIDE} {TOKEN} {POOL}'.encode(),
        f'{INSIDE} {TOKEN} {POOL}'.encode(),
    ],
    ids=['message', 'page', 'text'],
)
def test_answer_with_an_error_shows_nothing_of_the_inside(status, body, caplog):
    with pytest.raises(errors.EXPECTED) as caught:
        errors.check_response(answer(status, body), 'Cinder')
    assert str(caught.value).startswith(f'Cinder answered {status}: ')
    assert_public(str(caught.value), caplog)


def test_answer_without_the_expected_body_shows_nothing_of_it(caplog):
    with pytest.raises(exceptions.Transient) as caught:
        errors.read_response(answer(200, f'{INSIDE} {POOL}'.encode()), 'Heat', 'stack')
    assert str(caught.value) == 'Heat answered without an object.'
    assert_public(str(caught.value), caplog)


@pytest.mark.parametrize(
    'text',
    [
        'IP address 10.0.0.7 already allocated in subnet 5e7a.',
        'Quota exceeded for cores: Requested 4, but already used 18 of 20 cores',
        "Invalid input for field/attribute name. Value: 'a://'. '' is too short",
    ],
)
def test_sentence_for_the_sender_of_a_request_is_shown_whole(text):
    assert errors.redact(text) == text


def test_a_mistake_of_ours_is_not_hidden():
    with pytest.raises(KeyError), errors.translated('Nova'):
        raise KeyError('x')


@pytest.mark.parametrize(
    ('error', 'kind'),
    [
        (errors.Gone('x'), exceptions.ResourceNotFound),
        (errors.Forbidden('x'), exceptions.Forbidden),
        (errors.Unauthorized('x'), exceptions.Unauthorized),
        (exceptions.Permanent('x'), exceptions.BadRequest),
        (exceptions.Transient('x'), exceptions.ServiceUnavailable),
        (errors.Busy('x'), exceptions.ServiceUnavailable),
    ],
)
def test_error_of_a_service_is_turned_into_one_for_users(error, kind):
    with pytest.raises(kind), errors.for_user('resource_id'):
        raise error
