# SPDX-License-Identifier: Apache-2.0
"""One HTTP call to an address that a user chose, from inside of the cloud.

The name is resolved once; all its addresses are checked, and the call connects to one of them.
TLS is verified against the name. Redirects are not followed, proxies of the environment are not
used. The whole call has one deadline and one maximum of received bytes. ``getaddrinfo`` knows no
deadline: a resolution runs in a daemon thread, which neither a worker nor the stop of a manager
waits for, and only a bounded number of them run for one project.
"""

import collections
import contextlib
import dataclasses
import http.client
import io
import ipaddress
import queue
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent import futures
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_log import log

from climate_core import exceptions, webhooks
from climate_core.cloud import Cloud, errors

LOG = log.getLogger(__name__)

#: Seconds for which the addresses of the cloud's own hosts are cached.
_FRESH_SECONDS = 600.0
#: Seconds for which they are cached if the service catalog could not be read.
_INCOMPLETE_SECONDS = 10.0
#: Seconds for the resolution of each host of the cloud.
_HOST_SECONDS = 5.0


class NotResolved(Exception):
    """A name has no address. The message is for users and has no details of the control plane."""


class Resolver:
    """Resolve names, a bounded number of them at the same time.

    :param max_concurrent: resolutions in progress at the same time
    :param share: resolutions in progress for one project
    """

    def __init__(self, max_concurrent: int, share: int) -> None:
        self._max_concurrent = max_concurrent
        self._share = share
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()

    def resolve(self, host: str, port: int, project_id: str, seconds: float) -> list[Any]:
        """Resolve a name; return what ``socket.getaddrinfo`` does.

        :param project_id: the project for which the name is resolved
        :param seconds: how long to wait
        :raises NotResolved: there is no such name, or too many resolutions are in progress
        :raises TimeoutError: there is no answer yet
        """
        with self._lock:
            if (
                self._counts[project_id] >= self._share
                or self._counts.total() >= self._max_concurrent
            ):
                raise NotResolved('Its host name was not resolved: too many are in progress.')
            self._counts[project_id] += 1
        answers: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()

        def run() -> None:
            found = None
            try:
                with contextlib.suppress(OSError, UnicodeError):
                    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            finally:
                with self._lock:
                    self._counts[project_id] -= 1
                answers.put(found)

        threading.Thread(target=run, name='webhook name resolution', daemon=True).start()
        try:
            found = answers.get(timeout=max(0.0, seconds))
        except queue.Empty:
            raise TimeoutError from None
        if found is None:
            raise NotResolved('Its host name is not known.')
        return found


class CloudHosts:
    """Find the addresses of the services of this cloud, which webhooks must not reach.

    They are the hosts of every URL in the configuration (database, message bus, Keystone,
    endpoints, the external service) and of every endpoint in the service catalog.

    :param conf: the whole configuration
    :param cloud: gives the endpoints in the service catalog
    :param resolver: resolves their names
    """

    def __init__(self, conf: cfg.ConfigOpts, cloud: Cloud, resolver: Resolver) -> None:
        self._conf = conf
        self._cloud = cloud
        self._resolver = resolver
        self._lock = threading.Lock()
        self._refresh: futures.Future[Set[webhooks.Address]] | None = None
        self._addresses: frozenset[webhooks.Address] = frozenset()
        self._seconds = _FRESH_SECONDS
        self._until = 0.0

    def find_addresses(self, seconds: float) -> Set[webhooks.Address]:
        """Return the addresses. They are resolved again every ten minutes.

        After ten seconds if the service catalog could not be read: a manager that starts while
        Keystone is away does not know the endpoints. The resolution continues when a caller stops
        waiting for it, so that slow names delay a few calls and do not fail all of them.

        :param seconds: how long to wait
        :raises NotResolved: the addresses are not known yet
        """
        with self._lock:
            refresh = self._refresh
            if refresh is None or (refresh.done() and time.monotonic() >= self._until):
                refresh = self._refresh = futures.Future()
                name = 'cloud host name resolution'
                threading.Thread(
                    target=self._run_refresh, args=(refresh,), name=name, daemon=True
                ).start()
        try:
            return refresh.result(max(0.0, seconds))
        except TimeoutError:
            raise NotResolved('Its address could not be checked in time.') from None

    def _run_refresh(self, refresh: futures.Future[Set[webhooks.Address]]) -> None:
        self._seconds = _FRESH_SECONDS
        try:
            self._addresses = frozenset(self._resolve_hosts())
        except Exception:
            LOG.exception('Could not resolve the hosts of the cloud; webhooks are called later')
            self._until = time.monotonic() + _INCOMPLETE_SECONDS
            refresh.set_exception(NotResolved('Its address could not be checked.'))
        else:
            self._until = time.monotonic() + self._seconds
            refresh.set_result(self._addresses)

    def _resolve_hosts(self) -> Iterator[webhooks.Address]:
        urls = set(configured_urls(self._conf))
        try:
            urls.update(self._cloud.catalog_urls())
        except exceptions.Transient as exc:
            LOG.warning(
                'Could not read the service catalog, webhooks may reach new endpoints: %s',
                exc,
            )
            self._seconds = _INCOMPLETE_SECONDS
            yield from self._addresses
        for host in sorted({host for url in urls for host in hosts_of(url)}):
            try:
                resolved = self._resolver.resolve(host, 0, '', _HOST_SECONDS)
            except (NotResolved, TimeoutError):
                # The addresses that are known already stay.
                yield from self._addresses
                continue
            for *_, sockaddr in resolved:
                yield ipaddress.ip_address(sockaddr[0])


def configured_urls(section: Mapping[str, Any]) -> Iterator[str]:
    """Yield every URL in the configuration, whatever its option is called."""
    for name in section:
        try:
            value = section[name]
        except cfg.Error:
            continue
        if isinstance(value, Mapping):
            yield from configured_urls(value)
        else:
            values = value if isinstance(value, list) else [value]
            yield from (text for text in values if isinstance(text, str) and '://' in text)


def hosts_of(url: str) -> Iterator[str]:
    """Yield the host names of a URL: that of a message bus may have several."""
    with contextlib.suppress(ValueError):
        for part in urllib.parse.urlsplit(url).netloc.split(','):
            host = urllib.parse.urlsplit(f'//{part}').hostname
            if host:
                yield host


#: Maximum number of addresses of a name that are tried.
_MAX_ADDRESSES = 4
#: Bytes of an answer that are read, so that its sender is not cut off.
_MAX_BODY = 4096
#: Maximum number of bytes that are received. http.client bounds neither answers 100 (Continue) and
#: trailers nor a chunk of the length -1, and 100 headers have up to 6.5 MB.
_MAX_RECEIVED = 128 * 1024


class CallFailed(Exception):
    """The call has no answer. The message is for users, without details of the control plane."""


class Answer(NamedTuple):
    """The answer to a call.

    :param status: the HTTP status
    :param retry_after: seconds after which its sender accepts another call
    """

    status: int
    retry_after: float


class Caller:
    """Send POST requests to webhooks.

    :param rules: the addresses that may be called
    :param timeout: seconds for one call
    :param resolver: resolves the names
    :param cloud_hosts: addresses that must not be called unless the rules allow them
    :param cafile: certificates in PEM to trust; None for those of the system
    :raises OSError: ``cafile`` cannot be read
    """

    def __init__(
        self,
        rules: webhooks.WebhookRules,
        timeout: float,
        resolver: Resolver,
        cloud_hosts: CloudHosts,
        cafile: str | None = None,
    ) -> None:
        self._rules = rules
        self._timeout = timeout
        self._resolver = resolver
        self._cloud_hosts = cloud_hosts
        self._tls = ssl.create_default_context(cafile=cafile)

    def post(self, url: str, body: bytes, headers: Mapping[str, str], project_id: str) -> Answer:
        """Send a POST request.

        :param project_id: the project whose webhook it is
        :raises CallFailed: there is no answer
        """
        deadline = time.monotonic() + self._timeout
        try:
            inside = self._cloud_hosts.find_addresses(_seconds_left(deadline))
            rules = dataclasses.replace(self._rules, hosts=inside)
            parts = urllib.parse.urlsplit(url)
            resolved = self._resolver.resolve(
                parts.hostname or '', _port(parts), project_id, _seconds_left(deadline)
            )
            return self._post(parts, body, headers, _check_addresses(resolved, rules), deadline)
        except NotResolved as exc:
            raise CallFailed(str(exc)) from None
        except TimeoutError:
            raise CallFailed(f'It did not answer within {self._timeout:g} seconds.') from None
        except ssl.SSLCertVerificationError:
            raise CallFailed('Its certificate is not valid.') from None
        except (OSError, http.client.HTTPException, ValueError):
            raise CallFailed('It could not be reached by HTTP.') from None

    def _post(
        self,
        url: urllib.parse.SplitResult,
        body: bytes,
        headers: Mapping[str, str],
        addresses: Sequence[Any],
        deadline: float,
    ) -> Answer:
        host, port = url.hostname or '', _port(url)
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(_connect(addresses, deadline))
            connection = http.client.HTTPConnection(host, port)
            if url.scheme == 'https':
                raw.settimeout(_seconds_left(deadline))
                # Certificates have names without the dot of an absolute name (RFC 6066).
                name = host.rstrip('.')
                raw = stack.enter_context(self._tls.wrap_socket(raw, server_hostname=name))
                connection = http.client.HTTPSConnection(host, port, context=self._tls)
            # With this the connection opens no socket by itself.
            connection.sock = _BoundedSocket(raw, deadline)
            target = urllib.parse.urlunsplit(('', '', url.path or '/', url.query, ''))
            connection.request('POST', target, body, {**headers, 'connection': 'close'})
            answer = connection.getresponse()
            # Only the status matters: a body that breaks off is no failure.
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer.read(_MAX_BODY)
            return Answer(answer.status, errors.read_retry_after(answer.headers))


def _port(url: urllib.parse.SplitResult) -> int:
    return url.port or (443 if url.scheme == 'https' else 80)


def _check_addresses(addresses: Sequence[Any], rules: webhooks.WebhookRules) -> Sequence[Any]:
    """Return the addresses to connect to; one forbidden address rejects all of them."""
    for family, *_, sockaddr in addresses:
        address = ipaddress.ip_address(sockaddr[0])
        if _is_local(family, sockaddr):
            rules = dataclasses.replace(rules, hosts={*rules.hosts, address})
        if webhooks.is_forbidden(address, rules):
            raise CallFailed('Its address is not allowed for webhooks.')
    return addresses[:_MAX_ADDRESSES]


def _is_local(family: int, sockaddr: Any) -> bool:
    """Return whether an address is one of this host; nothing is sent.

    The kernel chooses an own address as the source for itself.
    """
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(sockaddr)
        return bool(probe.getsockname()[0] == sockaddr[0])
    return False


def _connect(addresses: Sequence[Any], deadline: float) -> socket.socket:
    error: OSError = OSError('no address')
    for family, kind, protocol, _, sockaddr in addresses:
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(_seconds_left(deadline))
            raw.connect(sockaddr)
        except OSError as exc:
            raw.close()
            error = exc
        else:
            return raw
    raise error


def _seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _BoundedSocket(io.RawIOBase):
    """A socket with one deadline and one maximum of received bytes, after which it is at its end.

    The timeout of a socket applies to each packet.
    """

    def __init__(self, raw: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._deadline = deadline
        self._remaining = _MAX_RECEIVED

    def sendall(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            self._raw.settimeout(_seconds_left(self._deadline))
            rest = rest[self._raw.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._raw.settimeout(_seconds_left(self._deadline))
        if not self._remaining:
            return 0
        count = self._raw.recv_into(buffer, min(len(buffer), self._remaining))
        self._remaining -= count
        return count

    def close(self) -> None:
        """Do nothing: http.client closes it before the answer is read, ``_post`` afterwards."""
