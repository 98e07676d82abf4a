# SPDX-License-Identifier: Apache-2.0
"""What can be done with a lease, and what is told of it, on the real cloud."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloud.booking import Booking
from tests.cloud.hearing import Hearing
from tests.cloud.people import at, wait_for

SECRET = 'a secret of this test only'


class Receiver(http.server.ThreadingHTTPServer):
    """Takes what webhooks are told; refuses the first request, so that it must come again."""

    def __init__(self) -> None:
        super().__init__(('127.0.0.1', 0), _Handler)
        self.got: list[dict[str, Any]] = []
        self.refused: list[str] = []

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.server_port}/leases'


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers['Content-Length']))
        name = self.headers['webhook-id']
        signed = f'{name}.{self.headers["webhook-timestamp"]}.'.encode() + body
        mac = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
        genuine = self.headers['webhook-signature'] == 'v1,' + base64.b64encode(mac).decode()
        first = not self.server.refused
        if first:
            self.server.refused.append(name)
        else:
            self.server.got.append({'webhook-id': name, 'genuine': genuine, **json.loads(body)})
        self.send_response(503 if first else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Write no log of each request: tests are quiet."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.serve_forever, args=(0.05,))
    thread.start()
    yield receiver
    receiver.shutdown()
    thread.join()
    receiver.server_close()


def test_the_life_of_a_lease_is_told(booking: Booking, bus: Hearing, receiver: Receiver) -> None:
    """Heads-up, an event of the user's own, start, end: on the bus and by the webhook."""
    server = booking.reserve(
        start=at(seconds=90),
        end=at(hours=1),
        before_start=[45, 20],
        events=[{'event_type': 'half_time', 'time': at(seconds=95)}],
    )
    leases = booking.person.leases
    lease = booking.lease_of(server.id)
    leases.update(lease.id, webhook={'url': receiver.url, 'secret': SECRET})
    for event_type in (
        'lease.create',
        'lease.update',
        'lease.event.before_start_lease',
        'lease.event.start_lease',
        'lease.event.half_time',
    ):
        bus.wait_for(event_type, lease.id)
    notices = bus.all('lease.event.before_start_lease', lease.id)
    # A notice that is sent late has the time that is left.
    last, first = sorted(each['starts_in'] for each in notices)
    assert 0 < last <= 20 < first <= 45
    booking.wait_lease(lease.id, 'ACTIVE')
    leases.end(lease.id)
    bus.wait_for('lease.event.end_lease', lease.id)
    ours = lambda: {each['type']: each for each in receiver.got}  # noqa: E731
    wait_for(lambda: 'lease.event.end_lease' in ours(), 'the end at the webhook')
    assert {'lease.event.before_start_lease', 'lease.event.start_lease'} <= ours().keys()
    assert all(each['genuine'] for each in receiver.got)
    # What was refused came again under the same id.
    wait_for(
        lambda: receiver.refused[0] in [each['webhook-id'] for each in receiver.got],
        'the first delivery again',
    )
    booking.wait_gone(server.id)


def test_usage_and_limits_count_what_is_held(booking: Booking) -> None:
    client = booking.person.client

    def held() -> int:
        return booking.person.held()['reserved_servers'] or 0

    before = held()
    server = booking.reserve(start=at(hours=1))
    assert held() == before + 1
    [usage] = client.usage()
    assert usage.reserved['server_hours'] > 0
    client.leases.delete(booking.lease_of(server.id).id)
    booking.wait_gone(server.id)
    wait_for(lambda: held() == before, 'the server is counted off')
