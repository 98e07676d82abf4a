# SPDX-License-Identifier: Apache-2.0
import datetime
import subprocess
import sys
import uuid

import pytest
import requests
from keystoneauth1 import adapter, service_token, session, token_endpoint
from keystoneauth1 import exceptions as ksa

from climateclient import exceptions
from climateclient.client import Client
from tests.unit.climateclient import samples
from tests.unit.climateclient.samples import (
    ENDPOINT,
    LEASE_ID,
    OTHER_ID,
    RESERVATION_ID,
    SERVER_ID,
)

UTC = datetime.UTC
END = datetime.datetime(2082, 11, 21, 6, 0, tzinfo=UTC)
LEASES = f'{ENDPOINT}/leases'
LEASE = f'{ENDPOINT}/leases/{LEASE_ID}'


def test_create_sends_what_the_service_takes(client, http):
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})
    zone = datetime.timezone(datetime.timedelta(hours=2))

    lease = client.leases.create(
        'lease1',
        END.astimezone(zone),
        reservations=[{'resource_type': 'virtual:instance', 'resource_id': SERVER_ID}],
        events=iter([{'event_type': 'remind', 'time': END}]),
        before_end='2082-11-21 05:50',
        id=LEASE_ID,
    )

    assert http.last_request.json() == {
        'id': LEASE_ID,
        'name': 'lease1',
        'start_date': 'now',
        'end_date': '2082-11-21T06:00:00+00:00',
        'before_end_date': '2082-11-21 05:50',
        'reservations': [{'resource_type': 'virtual:instance', 'resource_id': SERVER_ID}],
        'events': [{'event_type': 'remind', 'time': '2082-11-21T06:00:00+00:00'}],
    }
    assert http.last_request.headers['X-Auth-Token'] == 'a-token'
    assert lease.id == LEASE_ID


def test_response_of_a_lease_is_read_as_values(client, http):
    answer = samples.lease(status='ERROR', status_reason='No host.', something_new={'a': 1})
    http.get(LEASE, json={'lease': answer})

    lease = client.leases.get(LEASE_ID)

    assert lease.start_date == datetime.datetime(2082, 11, 21, 4, tzinfo=UTC)
    assert lease.created_at == datetime.datetime(2082, 11, 21, 2, 59, 32, tzinfo=UTC)
    assert (lease.status, lease.status_reason) == ('ERROR', 'No host.')
    assert [event.event_type for event in lease.events] == [
        'start_lease',
        'before_end_lease',
        'end_lease',
    ]
    assert lease.before_end_date == datetime.datetime(2082, 11, 21, 5, 50, tzinfo=UTC)
    (reservation,) = lease.reservations
    assert (reservation.resource_id, reservation.status) == (SERVER_ID, 'pending')
    assert reservation.params == {'on_end': 'stop'}


def test_time_without_zone_is_refused(client, http):
    with pytest.raises(ValueError, match='no timezone'):
        client.leases.create('lease1', END.replace(tzinfo=None))
    assert http.call_count == 0


@pytest.fixture
def stubborn():
    """Return a client that tries again at once."""
    auth = token_endpoint.Token(ENDPOINT, 'a-token')
    return Client(
        session.Session(auth=auth),
        connect_retries=1,
        connect_retry_delay=0,
        status_code_retries=1,
        status_code_retry_delay=0,
    )


@pytest.fixture
def shaky(http):
    """Return a service whose first two answers to a create are lost."""
    http.post(
        LEASES,
        [
            {'exc': requests.exceptions.ConnectionError},
            {'status_code': 503},
            {'status_code': 201, 'json': {'lease': samples.lease()}},
        ],
    )
    return http


def test_create_is_retried_with_the_same_key(stubborn, shaky):
    stubborn.leases.create('lease1', END)
    stubborn.leases.create('lease1', END)

    *first, other = [each.headers['Idempotency-Key'] for each in shaky.request_history]
    assert len(first) == 3
    assert len(set(first)) == 1
    assert uuid.UUID(first[0])
    assert other != first[0]
    assert all('id' not in each.json() for each in shaky.request_history)


def test_create_with_id_needs_no_key(stubborn, shaky):
    stubborn.leases.create('lease1', END, id=LEASE_ID)

    assert [each.json()['id'] for each in shaky.request_history] == [LEASE_ID] * 3
    assert all('Idempotency-Key' not in each.headers for each in shaky.request_history)


def test_create_with_given_key_sends_it(client, http):
    http.post(LEASES, status_code=201, json={'lease': samples.lease()})
    client.leases.create('lease1', END, idempotency_key='order 66')
    assert http.last_request.headers['Idempotency-Key'] == 'order 66'
    with pytest.raises(ValueError, match='not both'):
        client.leases.create('lease1', END, id=LEASE_ID, idempotency_key='order 66')


@pytest.mark.parametrize('action', ['start', 'end'])
def test_start_and_end_send_the_generation(client, http, action):
    http.post(f'{LEASE}/{action}', status_code=202, json={'lease': samples.lease(generation=2)})
    assert getattr(client.leases, action)(LEASE_ID, generation=1).generation == 2
    assert http.last_request.headers['If-Match'] == '"1"'


@pytest.mark.parametrize(
    ('method', 'call', 'arguments', 'changes'),
    [
        ('POST', 'add_reservation', ('virtual:instance', SERVER_ID), {'on_end': 'shelve'}),
        ('PUT', 'update_reservation', (RESERVATION_ID,), {'on_end': 'shelve'}),
        ('DELETE', 'remove_reservation', (RESERVATION_ID,), {}),
    ],
)
def test_calls_for_a_reservation_send_the_generation(
    client, http, method, call, arguments, changes
):
    path = 'reservations' if method == 'POST' else f'reservations/{RESERVATION_ID}'
    answer = {'reservation': samples.reservation(on_end='shelve')}
    http.request(method, f'{LEASE}/{path}', json=answer)
    made = getattr(client.leases, call)(LEASE_ID, *arguments, generation=2, **changes)
    assert http.last_request.headers['If-Match'] == '"2"'
    if changes:
        assert http.last_request.json().items() >= changes.items()
        assert (made.lease_id, made.params) == (LEASE_ID, changes)


def test_delete_of_a_missing_lease_raises_unless_ignored(client, http):
    http.delete(LEASE, [{'status_code': 204}, {'status_code': 404}, {'status_code': 404}])

    client.leases.delete(LEASE_ID)
    client.leases.delete(LEASE_ID, ignore_missing=True)
    with pytest.raises(exceptions.NotFound):
        client.leases.delete(LEASE_ID)


@pytest.mark.parametrize(
    ('asked', 'url', 'answer'),
    [
        (LEASE_ID, LEASE, {'lease': samples.lease()}),
        ('lease1', f'{LEASES}?name=lease1', {'leases': [samples.lease()]}),
    ],
)
def test_find_by_id_or_name_asks_once(client, http, asked, url, answer):
    http.get(url, json=answer)
    assert client.leases.find(asked).id == LEASE_ID
    assert http.call_count == 1


def test_find_by_a_name_that_looks_like_an_id(client, http):
    http.get(LEASE, status_code=404)
    http.get(LEASES, json={'leases': [samples.lease(id=OTHER_ID, name=LEASE_ID)]})
    assert client.leases.find(LEASE_ID).id == OTHER_ID


def test_find_says_which_leases_share_a_name(client, http):
    both = [samples.lease(), samples.lease(id=OTHER_ID, status='ERROR')]
    http.get(LEASES, json={'leases': both})
    with pytest.raises(exceptions.AmbiguousName) as caught:
        client.leases.find('lease1')
    assert caught.value.ids == (LEASE_ID, OTHER_ID)
    assert f'{OTHER_ID} (ERROR)' in str(caught.value)


@pytest.mark.parametrize('status', ['PENDING', 'ACTIVE', 'TERMINATING', 'ERROR'])
def test_find_prefers_the_only_lease_of_a_name_that_is_not_over(client, http, status):
    over = samples.lease(id=OTHER_ID, status='TERMINATED')
    http.get(LEASES, json={'leases': [over, samples.lease(status=status), over]})
    assert client.leases.find('lease1').id == LEASE_ID


@pytest.mark.parametrize(
    ('status', 'kind', 'ksa_kind'),
    [
        (400, exceptions.BadRequest, ksa.BadRequest),
        (401, exceptions.Unauthorized, ksa.Unauthorized),
        (403, exceptions.Forbidden, ksa.Forbidden),
        (404, exceptions.NotFound, ksa.NotFound),
        (409, exceptions.Conflict, ksa.Conflict),
        (413, exceptions.ApiError, ksa.HttpError),
        (500, exceptions.ServerError, ksa.HttpServerError),
        (503, exceptions.ServiceUnavailable, ksa.ServiceUnavailable),
    ],
)
def test_error_has_the_message_of_the_service(client, http, status, kind, ksa_kind):
    http.get(
        LEASE,
        status_code=status,
        json=samples.error(status, 'It is wrong.', 'lease.wrong', field='end_date'),
        headers={'x-openstack-request-id': 'req-1', 'Content-Type': 'application/json'},
    )

    with pytest.raises(kind) as caught:
        client.leases.get(LEASE_ID)

    error = caught.value
    assert isinstance(error, ksa_kind)
    assert error.http_status == status
    assert error.message == 'It is wrong.'
    assert (error.code, error.field, error.request_id) == ('lease.wrong', 'end_date', 'req-1')
    assert str(error) == f'end_date: It is wrong. (HTTP {status}) (Request-ID: req-1)'


def test_error_shows_when_to_try_again(client, http):
    http.get(
        LEASE,
        status_code=429,
        json=samples.error(429, 'Too many requests.', 'request.too_many'),
        headers={'Content-Type': 'application/json', 'Retry-After': '30'},
    )
    with pytest.raises(exceptions.ApiError, match=r'\(Retry-After: 30 seconds\)$'):
        client.leases.get(LEASE_ID)


@pytest.mark.parametrize(
    'answer',
    [
        {'text': '<html>bad</html>'},
        {'json': ['?'], 'headers': {'Content-Type': 'application/json'}},
        {'json': {'error_name': 404}, 'headers': {'Content-Type': 'application/json'}},
    ],
)
def test_error_of_another_service_has_the_standard_message(client, http, answer):
    http.get(LEASE, status_code=404, **answer)
    with pytest.raises(exceptions.NotFound) as caught:
        client.leases.get(LEASE_ID)
    assert caught.value.message == 'Not Found'
    assert caught.value.code is None


@pytest.mark.parametrize('answer', [{'text': 'hello'}, {'json': {'versions': []}}, {'json': []}])
def test_response_of_another_service_is_unexpected(client, http, answer):
    http.get(LEASES, **answer)
    with pytest.raises(exceptions.UnexpectedAnswer, match='/v1 at its end'):
        next(client.leases.list())


def test_user_token_and_service_token_are_sent(http):
    """As nova calls: both tokens in one request, and the id of the request it serves."""
    auth = service_token.ServiceTokenAuthWrapper(
        user_auth=token_endpoint.Token(ENDPOINT, 'user-token'),
        service_auth=token_endpoint.Token(ENDPOINT, 'service-token'),
    )
    client = Client(session.Session(), auth=auth, global_request_id='req-g')
    http.get(LEASES, json={'leases': []})

    assert [*client.leases.list()] == []

    sent = http.last_request.headers
    assert sent['X-Auth-Token'] == 'user-token'
    assert sent['X-Service-Token'] == 'service-token'
    assert sent['X-OpenStack-Request-ID'] == 'req-g'


def test_client_imports_no_command_line_package():
    code = (
        'import sys, climateclient.client; '
        'bad = {"cliff", "osc_lib", "openstack", "rich"} & set(sys.modules); '
        'sys.exit(", ".join(bad) or 0)'
    )
    subprocess.run([sys.executable, '-c', code], check=True)


def test_configured_adapter_is_taken_as_session(http):
    """As a service calls that reads its adapter's options from its configuration."""
    auth = token_endpoint.Token('http://elsewhere.example.org', 'a-token')
    configured = adapter.Adapter(
        session.Session(auth=auth),
        endpoint_override=ENDPOINT,
        global_request_id='req-g',
        connect_retries=1,
        connect_retry_delay=0,
    )
    client = Client(configured)
    http.get(LEASES, [{'exc': requests.exceptions.ConnectionError}, {'json': {'leases': []}}])

    assert [*client.leases.list()] == []

    assert http.call_count == 2
    assert http.last_request.headers['X-OpenStack-Request-ID'] == 'req-g'


@pytest.mark.parametrize(
    ('field', 'message', 'said'),
    [
        (None, 'It is wrong.', 'It is wrong.'),
        ('a[0].max', 'a[0].max: must be 1.', 'a[0].max: must be 1.'),
        ('a[0].max', 'max: must be 1.', 'a[0].max: must be 1.'),
        ('a[0].max', 'max must be 1.', 'a[0].max must be 1.'),
        ('max', 'max must be 1.', 'max must be 1.'),
        ('a[0].max', 'It is wrong.', 'a[0].max: It is wrong.'),
    ],
)
def test_error_names_its_field_once(field, message, said):
    assert exceptions.blame(field, message) == said
