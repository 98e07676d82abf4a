# SPDX-License-Identifier: Apache-2.0
"""The external service, by HTTP."""

import contextlib
import dataclasses
import datetime
import http.server
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from climate_core import conf as configuration
from climate_core import exceptions
from climate_core.cloud.external_service import ExternalService
from climate_core.lease import model
from tests.support import leases
from tests.support.fakes import serving

NOON = datetime.datetime(2082, 12, 1, 12, 0, 0, 250000, tzinfo=datetime.UTC)
LEASE = leases.lease(
    dataclasses.replace(
        model.new_reservation('some-id', 'virtual:instance', 'vm1', {'on_end': 'stop'}, NOON),
        id='reservation-id',
        amounts={'servers': 1, 'vcpus': 2},
    ),
    lease_id='some-id',
    start=NOON,
    now=NOON,
    name='lease1',
    project_id='demo-id',
    user_id='alice-id',
    webhook={'url': 'https://example.org', 'secret': 'whsec_c2VjcmV0'},
    events=(),
)
SHOWN = {
    'id': 'some-id',
    'name': 'lease1',
    'project_id': 'demo-id',
    'user_id': 'alice-id',
    'start_date': '2082-12-01T12:00:00',
    'end_date': '2082-12-01T14:00:00',
    'before_end_date': None,
    'reservations': [
        {
            'id': 'reservation-id',
            'resource_type': 'virtual:instance',
            'resource_id': 'vm1',
            'on_end': 'stop',
            'amounts': {'servers': 1, 'vcpus': 2},
            'allocations': [],
            'amount': 1,
            'vcpus': 2,
            'memory_mb': 0,
            'disk_gb': 0,
            'affinity': '',
            'resource_properties': None,
        }
    ],
    'resource_requests': {'VCPU': 2},
}
CONTEXT = {
    'user_id': 'alice-id',
    'project_id': 'demo-id',
    'auth_url': 'https://keystone.example.org/v3',
    'region_name': 'RegionOne',
}


class Cloud:
    def __init__(self) -> None:
        self.trouble: Exception | None = None

    def service_token(self) -> str:
        if self.trouble:
            raise self.trouble
        return 'service token'

    def auth_url(self) -> str:
        return CONTEXT['auth_url']


class Service(serving.Server):
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(Asked)
        self.url = self.base
        self.asked: list[tuple[str, str | None, Any]] = []
        self.bearers: list[str | None] = []
        self.answer: tuple[int, Any] = (204, None)


class Asked(http.server.BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        assert self.headers['Content-Type'] == 'application/json'
        self.server.asked.append((self.path, self.headers['X-Auth-Token'], body))
        self.server.bearers.append(self.headers['Authorization'])
        status, said = self.server.answer
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        if status in (301, 302, 307):
            self.send_header('Location', f'{self.server.url}/elsewhere')
        self.send_header('Content-Length', '0' if said is None else str(len(data)))
        self.end_headers()
        if said is not None:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def service() -> Iterator[Service]:
    with serving.running(Service()) as server:
        yield server


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def external(cloud: Cloud, **options: Any) -> ExternalService:
    conf = configuration.load([], [])
    conf.set_override('region_name', 'RegionOne', group='cloud')
    for name, value in options.items():
        conf.set_override(f'external_{name}', value, group='limits')
    return ExternalService(conf, cloud)  # type: ignore[arg-type]


def test_no_service_is_asked_without_an_endpoint(cloud: Cloud) -> None:
    asked = external(cloud)
    assert (asked.on_create, asked.on_update, asked.on_end) == (False, False, False)
    asked.check_create(LEASE)
    asked.check_update(LEASE, LEASE)
    asked.notify_end(LEASE)


@pytest.mark.parametrize('slash', ['', '/'])
def test_service_is_asked_about_a_new_lease(service: Service, cloud: Cloud, slash: str) -> None:
    asked = external(cloud, endpoint=f'{service.url}/usage{slash}')
    assert (asked.on_create, asked.on_update, asked.on_end) == (True, True, True)
    asked.check_create(LEASE)
    assert service.asked == [('/usage/check-create', None, {'context': CONTEXT, 'lease': SHOWN})]


def test_tokens_are_sent_as_configured(service: Service, cloud: Cloud) -> None:
    keystone: dict[str, Any] = {'keystone_token': True}
    for options in ({}, keystone, {**keystone, 'token': 'own'}):
        external(cloud, endpoint=service.url, **options).check_create(LEASE)
    assert [token for _, token, _ in service.asked] == [None, 'service token', 'own']
    assert service.bearers == [None] * 3
    for options in ({**keystone, 'bearer_token': 'b'}, {'bearer_token': 'b', 'token': 'own'}):
        external(cloud, endpoint=service.url, **options).check_create(LEASE)
    assert [token for _, token, _ in service.asked[3:]] == [None, 'own']
    assert service.bearers[3:] == ['Bearer b', None]


def test_leases_of_other_types_are_not_sent(service: Service, cloud: Cloud) -> None:
    (reservation,) = (server := LEASE).reservations
    volume = dataclasses.replace(
        server, reservations=(dataclasses.replace(reservation, resource_type='virtual:volume'),)
    )
    asked = external(cloud, endpoint=service.url, resource_types=['virtual:instance'])
    for lease in (volume, server):
        asked.check_create(lease)
        asked.check_update(lease, server)
        asked.notify_end(lease)
    paths = ['/check-create', '/check-create', '/check-update', '/on-end']
    assert [path for path, *_ in service.asked] == paths


def test_update_with_a_token_of_its_own(service: Service, cloud: Cloud) -> None:
    cloud.trouble = AssertionError('not needed')
    after = dataclasses.replace(LEASE, end_date=NOON + datetime.timedelta(hours=5))
    external(cloud, endpoint=service.url, token='own').check_update(LEASE, after)
    body = {
        'context': CONTEXT,
        'current_lease': SHOWN,
        'lease': {**SHOWN, 'end_date': '2082-12-01T17:00:00'},
    }
    assert service.asked == [('/check-update', 'own', body)]


def test_only_the_configured_check_is_sent(service: Service, cloud: Cloud) -> None:
    asked = external(cloud, check_update=f'{service.url}/may-it-change')
    assert (asked.on_create, asked.on_update, asked.on_end) == (False, True, False)
    asked.check_create(LEASE)
    asked.check_update(LEASE, LEASE)
    assert [path for path, *_ in service.asked] == ['/may-it-change']


@pytest.mark.parametrize(
    ('answer', 'message'),
    [
        ({'message': 'The project has no budget left.', 'error': 'x'}, 'has no budget left.'),
        ({'error': 'Insufficient VCPU credits available.'}, 'VCPU credits available.'),
        ({'message': None, 'error': 'no \x1b[31m\n credits\x9b'}, r'^no \\x1b\[31m credits\\x9b$'),
        ({'error': 'y' * 3000}, '^y{1000}$'),
    ],
)
def test_rejection_of_the_external_service_rejects_the_lease(
    service: Service, cloud: Cloud, answer: Any, message: str
) -> None:
    service.answer = 403, answer
    with pytest.raises(exceptions.LeaseNotPermitted, match=message) as caught:
        external(cloud, endpoint=service.url).check_create(LEASE)
    assert (caught.value.status, caught.value.code) == (403, 'lease.not_permitted')


@pytest.mark.parametrize(
    'answer',
    [
        (200, {'message': 'fine'}),
        (302, None),
        (307, None),
        (400, {'message': 'what?'}),
        (403, b'<html>'),
        (403, {'error': {'text': 'no'}, 'message': ' '}),
        (403, ['no']),
        (403, {'message': 'x' * 70_000}),
        (500, None),
    ],
)
def test_anything_else_is_no_answer(
    service: Service, cloud: Cloud, answer: tuple[int, Any]
) -> None:
    service.answer = answer
    with pytest.raises(exceptions.ServiceUnavailable):
        external(cloud, endpoint=service.url).check_create(LEASE)
    assert len(service.asked) == 1


def test_external_service_that_is_away_refuses_the_lease(cloud: Cloud) -> None:
    asked = external(cloud, endpoint='http://127.0.0.1:1')
    with pytest.raises(exceptions.ServiceUnavailable):
        asked.check_create(LEASE)
    with pytest.raises(exceptions.Transient):
        asked.notify_end(LEASE)


def test_external_service_without_an_answer_is_unavailable(cloud: Cloud) -> None:
    with socket.create_server(('127.0.0.1', 0)) as silent:
        url = f'http://127.0.0.1:{silent.getsockname()[1]}'
        asked = external(cloud, endpoint=url, timeout=0.1)
        with pytest.raises(exceptions.ServiceUnavailable):
            asked.check_create(LEASE)


def test_external_check_while_keystone_is_away_is_unavailable(
    service: Service, cloud: Cloud
) -> None:
    cloud.trouble = exceptions.Transient('Keystone cannot be reached.')
    asked = external(cloud, endpoint=service.url, keystone_token=True)
    with pytest.raises(exceptions.ServiceUnavailable):
        asked.check_create(LEASE)
    with pytest.raises(exceptions.Transient):
        asked.notify_end(LEASE)


def test_service_is_told_the_end_without_allocations(service: Service, cloud: Cloud) -> None:
    over = dataclasses.replace(
        LEASE, reservations=(dataclasses.replace(LEASE.reservations[0], status='deleted'),)
    )
    external(cloud, endpoint=service.url).notify_end(over)
    ((path, _, body),) = service.asked
    assert path == '/on-end'
    assert body['lease']['reservations'][0]['allocations'] == []
    # It still has the amounts that the service counts.
    assert body['lease']['resource_requests'] == {'VCPU': 2}


@pytest.mark.parametrize(
    ('statuses', 'error'),
    [
        ([200, 202, 204], None),
        ([302, 307, 401, 408, 409, 429, 500, 503], exceptions.Transient),
        ([400, 403, 404, 405], exceptions.Permanent),
    ],
)
def test_answer_to_the_end(
    service: Service, cloud: Cloud, statuses: list[int], error: type[Exception] | None
) -> None:
    for status in statuses:
        service.asked.clear()
        service.answer = status, {'message': 'said'} if error else None
        with pytest.raises(error) if error else contextlib.nullcontext():
            external(cloud, endpoint=service.url).notify_end(LEASE)
        assert len(service.asked) == 1
