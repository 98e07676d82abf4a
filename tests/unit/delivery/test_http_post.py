# SPDX-License-Identifier: Apache-2.0
"""One call of a webhook: where it may go, how long it may take, whom it believes."""

import contextlib
import io
import ipaddress
import pathlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from climate_core import conf as configuration
from climate_core import exceptions, webhooks
from climate_core.delivery import http_post
from tests.security.cost import bounded
from tests.support.fakes import receiver as fake
from tests.support.fakes.receiver import Receiver

LOOPBACK = webhooks.WebhookRules(allowed=(ipaddress.ip_network('127.0.0.0/8'),))
#: The service catalog.
ENDPOINTS = ['https://[2001:db8::5]:5000/v3', 'http://203.0.113.7/']
REFUSED = 'Its address is not allowed for webhooks.'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with fake.running() as made:
        yield made


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Say what names mean; each look at one takes the next of its addresses for its only one."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def resolve(host: str, *args: Any, **kw: Any) -> Any:
        if host not in known:
            return real(host, *args, **kw)
        addresses = known[host].pop(0).split()
        return [each for address in addresses for each in real(address, *args, **kw)]

    monkeypatch.setattr(socket, 'getaddrinfo', resolve)
    return known


def _post(
    url: str,
    rules: webhooks.WebhookRules = LOOPBACK,
    timeout: float = 30,
    transport: str = 'rabbit://192.0.2.9',
    **kw: Any,
) -> int:
    caller = _caller(rules, timeout, transport, **kw)
    # A short timeout is for the call itself.
    caller._cloud_hosts.find_addresses(fake.PATIENCE)
    return caller.post(url, b'{}', {'content-type': 'text/plain'}, 'ours').status


def _caller(
    rules: webhooks.WebhookRules, timeout: float, transport: str, **kw: Any
) -> http_post.Caller:
    resolver = http_post.Resolver(4, 2)
    conf = configuration.load([], [])
    conf.set_override('transport_url', transport)
    hosts = http_post.CloudHosts(conf, mock.Mock(catalog_urls=lambda: ENDPOINTS), resolver)
    return http_post.Caller(rules, timeout, resolver, hosts, **kw)


def _reason(url: str, *args: Any, **kw: Any) -> str:
    with pytest.raises(http_post.CallFailed) as failed:
        _post(url, *args, **kw)
    return str(failed.value)


def test_post_arrives_with_its_body_and_headers(receiver: Receiver) -> None:
    assert _post(receiver.url()) == 204
    (got,) = receiver.got
    assert (got.path, got.body) == ('/hook?who=me', b'{}')
    assert got.headers['host'] == f'127.0.0.1:{receiver.port}'
    assert got.headers['content-type'] == 'text/plain'
    assert got.headers['connection'] == 'close'


# Which addresses are forbidden is tested with climate_core.webhooks.
@pytest.mark.parametrize(
    'host', ['127.0.0.1', '[64:ff9b::7f00:1]', 'localhost', '2130706433', '0x7f.1']
)
def test_address_inside_of_the_cloud_is_refused_by_default(receiver: Receiver, host: str) -> None:
    assert _reason(f'http://{host}:{receiver.port}/', webhooks.DEFAULT_RULES) == REFUSED
    assert receiver.got == []


@pytest.mark.parametrize('addresses', ['::ffff:127.0.0.1', '192.0.2.1 127.0.0.1'])
def test_a_name_is_refused_if_any_of_its_addresses_is(
    receiver: Receiver, names: dict[str, list[str]], addresses: str
) -> None:
    names['hook.example'] = [addresses]
    assert _reason(f'http://hook.example:{receiver.port}/', webhooks.DEFAULT_RULES) == REFUSED
    assert receiver.got == []


def test_what_was_looked_at_is_what_is_connected_to(
    receiver: Receiver, names: dict[str, list[str]]
) -> None:
    # Who is asked twice says something else the second time.
    names['hook.example'] = ['127.0.0.1', '127.0.0.2']
    assert _post(f'http://hook.example:{receiver.port}/') == 204
    assert names['hook.example'] == ['127.0.0.2']
    assert receiver.got[0].headers['host'] == f'hook.example:{receiver.port}'


def test_the_next_address_is_tried(receiver: Receiver, names: dict[str, list[str]]) -> None:
    names['hook.example'] = ['127.0.0.3 127.0.0.1']
    assert _post(f'http://hook.example:{receiver.port}/') == 204


@pytest.mark.parametrize('status', [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    def redirect(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header('location', f'http://127.0.0.1:{receiver.port}/inside')
        handler.end_headers()

    receiver.answers = [redirect]
    assert _post(receiver.url()) == status
    assert len(receiver.got) == 1


def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('http_proxy', 'HTTP_PROXY', 'all_proxy'):
        monkeypatch.setenv(name, 'http://127.0.0.9:1')
    assert _post(receiver.url()) == 204


def test_an_answer_without_an_end_is_not_read(receiver: Receiver) -> None:
    stop = threading.Event()

    def endless(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        sent = 0
        while not stop.is_set() and sent < 100 * 2**20:
            try:
                sent += handler.wfile.write(b'x' * 65536)
            except OSError:
                stop.set()

    receiver.answers = [endless]
    assert _post(receiver.url()) == 200
    assert stop.wait(fake.PATIENCE)


@pytest.mark.parametrize(
    ('head', 'flood'),
    [
        # http.client reads a chunk of the length -1 to the end of the stream.
        (b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n', b'x' * 65536),
        (b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n', b'x: y\r\n' * 8192),
        (b'', b'HTTP/1.1 100 Continue\r\n\r\n' * 2048),
    ],
    ids=['chunk', 'trailers', 'continue'],
)
def test_received_bytes_of_an_answer_are_bounded(
    receiver: Receiver, head: bytes, flood: bytes
) -> None:
    most = 200 * 2**20
    sent: queue.Queue[int] = queue.Queue()

    def talk(handler: Any) -> None:
        count = 0
        with contextlib.suppress(OSError):
            handler.wfile.write(head)
            while count < most:
                count += handler.wfile.write(flood)
        sent.put(count)

    receiver.answers = [talk]
    with bounded(5.0, 64.0), contextlib.suppress(http_post.CallFailed):
        _post(receiver.url())
    # The buffers of both sockets take some MiB more than what was received.
    assert sent.get(timeout=fake.PATIENCE) < most


def test_an_answer_is_read_before_it_is_hung_up(receiver: Receiver) -> None:
    ends: queue.Queue[bytes | OSError] = queue.Queue()
    head = b'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\nx-long: '
    # The body does not come along with what is read for the head.
    head = head.ljust(io.DEFAULT_BUFFER_SIZE - 4, b'x') + b'\r\n\r\n'

    def talk(handler: Any) -> None:
        handler.wfile.write(head + b'fine')
        try:
            ends.put(handler.rfile.read(1))
        except OSError as exc:
            ends.put(exc)

    receiver.answers = [talk]
    assert _post(receiver.url()) == 200
    # What is closed before it is read to the end is reset.
    assert ends.get(timeout=fake.PATIENCE) == b''


def test_one_deadline_for_the_whole_call(receiver: Receiver) -> None:
    gone = threading.Event()

    def drip(handler: Any) -> None:
        # Each byte comes well in time, the answer never does.
        while not gone.wait(0.02):
            try:
                handler.wfile.write(b'H')
            except OSError:
                gone.set()

    receiver.answers = [drip]
    assert _reason(receiver.url(), timeout=0.3) == 'It did not answer within 0.3 seconds.'
    assert gone.wait(fake.PATIENCE)


def test_call_without_a_listener_fails_with_the_reason(
    receiver: Receiver, names: dict[str, list[str]]
) -> None:
    receiver.shutdown()
    receiver.server_close()
    assert _reason(receiver.url()) == 'It could not be reached by HTTP.'
    names['hook.example'] = ['nowhere.invalid']
    assert _reason('http://hook.example/') == 'Its host name is not known.'
    assert _reason(f'http://{"x" * 70}.example/') == 'Its host name is not known.'


def test_answer_that_is_no_http_fails(receiver: Receiver) -> None:
    receiver.answers = [lambda handler: handler.wfile.write(b'220 mail.example ESMTP\r\n')]
    assert _reason(receiver.url()) == 'It could not be reached by HTTP.'


def test_the_certificate_is_verified_by_the_name_or_address(
    tmp_path: pathlib.Path, names: dict[str, list[str]]
) -> None:
    tls, trusted = fake.certificate(tmp_path, 'hook.example')
    with fake.running(tls) as secure:
        names['hook.example'] = names['other.example'] = ['127.0.0.1', '127.0.0.1']
        assert _post(secure.url('hook.example'), cafile=trusted) == 204
        assert secure.got[0].headers['host'] == f'hook.example:{secure.port}'
        names['other.example'] = ['127.0.0.1']
        bad = 'Its certificate is not valid.'
        assert _reason(secure.url('other.example'), cafile=trusted) == bad
        assert _reason(secure.url('127.0.0.1'), cafile=trusted) == bad
        names['hook.example'] = ['127.0.0.1']
        assert _reason(secure.url('hook.example')) == bad
        assert len(secure.got) == 1
        names['hook.example.'] = ['127.0.0.1']
        assert _post(secure.url('hook.example.'), cafile=trusted) == 204
    tls, trusted = fake.certificate(tmp_path, '127.0.0.1')
    with fake.running(tls) as secure:
        assert _post(secure.url(), cafile=trusted) == 204


PRIVATE = ('10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.9', '[fd00::1]', '198.18.0.1')


@pytest.mark.parametrize('host', PRIVATE)
def test_private_networks_are_closed_by_default(host: str) -> None:
    assert _reason(f'http://{host}/', webhooks.DEFAULT_RULES) == REFUSED
    with pytest.raises(exceptions.InvalidWebhook):
        webhooks.read_url(f'http://{host}/')


@pytest.mark.parametrize(
    'address',
    ['::ffff:10.1.2.3', '64:ff9b::a01:203', '2002:a01:203::1', '64:ff9b:1:a01:2:300::', 'fd00::1'],
)
def test_name_cannot_lead_to_a_private_network(names: dict[str, list[str]], address: str) -> None:
    names['hook.example'] = [address]
    assert _reason('http://hook.example/', webhooks.DEFAULT_RULES) == REFUSED


@pytest.mark.parametrize(
    'address',
    ['203.0.113.7', '2001:db8::5', '::ffff:203.0.113.7', '64:ff9b::cb00:7107', '198.51.100.4'],
)
def test_endpoints_and_hosts_of_the_cloud_are_closed(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    # As if the networks for documentation were public.
    monkeypatch.setattr(webhooks, '_SPECIAL', ())
    names['hook.example'] = [address]
    # That of the message bus, in the middle of the configuration.
    names['mq.example'] = ['198.51.100.4'] * 9
    transport = 'rabbit://u:p@192.0.2.9:5672,u:p@mq.example:5672/vhost'
    assert _reason('http://hook.example/', webhooks.DEFAULT_RULES, transport=transport) == REFUSED


def test_addresses_of_this_host_are_closed(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if 127.0.0.1 were a public address of this host.
    monkeypatch.setattr(webhooks, 'is_forbidden', lambda address, rules: address in rules.hosts)
    assert _reason(receiver.url(), webhooks.DEFAULT_RULES) == REFUSED
    assert receiver.got == []


def test_allowed_network_opens_hosts_of_the_cloud(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('tests.unit.delivery.test_http_post.ENDPOINTS', [receiver.url()])
    assert _post(receiver.url()) == 204


@contextlib.contextmanager
def _stuck(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the resolution of a name without an end until the block ends."""
    ends, real = threading.Event(), socket.getaddrinfo

    def resolve(host: str, *args: Any, **kw: Any) -> Any:
        return ends.wait() and [] if host == name else real(host, *args, **kw)

    monkeypatch.setattr(socket, 'getaddrinfo', resolve)
    try:
        yield
    finally:
        ends.set()


def test_resolution_without_an_end_keeps_to_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with _stuck('hook.example', monkeypatch):
        told = _reason('http://hook.example/', timeout=0.2)
    assert told == 'It did not answer within 0.2 seconds.'


def test_cloud_host_that_is_not_resolved_keeps_to_the_deadline(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = _caller(LOOPBACK, 0.2, 'rabbit://mq.example')
    with _stuck('mq.example', monkeypatch):
        with pytest.raises(http_post.CallFailed, match='could not be checked in time'):
            caller.post(receiver.url(), b'{}', {}, 'ours')
        assert receiver.got == []
    # The resolution was not abandoned with the call, which does not know less the next time.
    assert caller._cloud_hosts.find_addresses(fake.PATIENCE)
    caller._timeout = fake.PATIENCE
    assert caller.post(receiver.url(), b'{}', {}, 'ours').status == 204


def test_resolutions_without_an_end_are_bounded_for_a_project(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolver = http_post.Resolver(4, 2)
    before = threading.active_count()
    with _stuck('stuck.example', monkeypatch):
        for _ in range(2):
            with pytest.raises(TimeoutError):
                resolver.resolve('stuck.example', 80, 'theirs', 0.01)
        for _ in range(5):
            with pytest.raises(http_post.NotResolved, match='too many are in progress'):
                resolver.resolve('stuck.example', 80, 'theirs', 0.01)
        assert threading.active_count() <= before + 2
        assert resolver.resolve('127.0.0.1', 80, 'ours', 30)
        for project_id in ('third', 'fourth'):
            with pytest.raises(TimeoutError):
                resolver.resolve('stuck.example', 80, project_id, 0.01)
        with pytest.raises(http_post.NotResolved, match='too many are in progress'):
            resolver.resolve('127.0.0.1', 80, 'ours', 30)
        # The process does not wait for them at its end.
        name = 'webhook name resolution'
        found = [each.daemon for each in threading.enumerate() if each.name == name]
        assert found == [True] * 4


def test_catalog_that_cannot_be_read_leaves_what_was_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [['http://203.0.113.7/'], exceptions.Transient('Keystone is away.')]

    def urls() -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    resolver = http_post.Resolver(4, 2)
    hosts = http_post.CloudHosts(
        configuration.load([], []), mock.Mock(catalog_urls=urls), resolver
    )
    first = hosts.find_addresses(fake.PATIENCE)
    assert ipaddress.ip_address('203.0.113.7') in first
    hosts._until = 0.0
    assert hosts.find_addresses(fake.PATIENCE) == first
    assert answers == []
    # It is read again soon.
    assert hosts._until < time.monotonic() + 60
