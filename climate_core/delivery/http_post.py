# SPDX-License-Identifier: Apache-2.0
"""One HTTP call to an address that a user chose, from inside of the cloud.

The name is resolved once; all its addresses are looked at, and one of those that were looked at
is connected to. TLS is verified against the name. Redirects are not followed, proxies of the
environment are not used. The whole call has one deadline and one maximum of received bytes.
"""

import contextlib
import dataclasses
import http.client
import io
import ipaddress
import socket
import ssl
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from climate_core.cloud import errors
from climate_core.delivery import name_resolution
from climate_core.lease import webhook

#: How many addresses of a name are tried.
_ADDRESSES = 4
#: How many bytes of an answer are read, so that its sender is not cut off.
_BODY = 4096
#: How many bytes are received in all. http.client alone bounds neither the answers 100 (Continue)
#: and trailers nor a chunk of the length -1, and 100 headers have up to 6.5 MB.
_RECEIVED = 128 * 1024


class CallFailed(Exception):
    """There was no answer. The message is for users and has no details of the control plane."""


class Answer(NamedTuple):
    """Hold the answer to a call.

    :param status: the HTTP status
    :param retry_after: seconds for which its sender wants no other call
    """

    status: int
    retry_after: float


class Caller:
    """Makes calls.

    :param rules: which addresses may be called
    :param timeout: seconds for one call
    :param resolver: resolves the names
    :param cloud_hosts: addresses that must not be called unless the rules allow them
    :param cafile: certificates in PEM to trust; None for those of the system
    :raises OSError: ``cafile`` cannot be read
    """

    def __init__(
        self,
        rules: webhook.WebhookRules,
        timeout: float,
        resolver: name_resolution.Resolver,
        cloud_hosts: name_resolution.CloudHosts,
        cafile: str | None = None,
    ) -> None:
        self._rules = rules
        self._timeout = timeout
        self._resolver = resolver
        self._cloud_hosts = cloud_hosts
        self._tls = ssl.create_default_context(cafile=cafile)

    def post(self, url: str, body: bytes, headers: Mapping[str, str], project_id: str) -> Answer:
        """Send a body.

        :param project_id: the project whose webhook it is
        :raises CallFailed: there was none
        """
        deadline = time.monotonic() + self._timeout
        try:
            inside = self._cloud_hosts.find_addresses(_left(deadline))
            rules = dataclasses.replace(self._rules, hosts=inside)
            parts = urllib.parse.urlsplit(url)
            found = self._resolver.resolve(
                parts.hostname or '', _port(parts), project_id, _left(deadline)
            )
            return self._post(parts, body, headers, _allowed(found, rules), deadline)
        except name_resolution.NotResolved as exc:
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
        found: Sequence[Any],
        deadline: float,
    ) -> Answer:
        host, port = url.hostname or '', _port(url)
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(_connect(found, deadline))
            connection = http.client.HTTPConnection(host, port)
            if url.scheme == 'https':
                raw.settimeout(_left(deadline))
                # Certificates have names without the dot of an absolute name (RFC 6066).
                name = host.rstrip('.')
                raw = stack.enter_context(self._tls.wrap_socket(raw, server_hostname=name))
                connection = http.client.HTTPSConnection(host, port, context=self._tls)
            # It opens none by itself when it has one.
            connection.sock = _Bounded(raw, deadline)
            target = urllib.parse.urlunsplit(('', '', url.path or '/', url.query, ''))
            connection.request('POST', target, body, {**headers, 'connection': 'close'})
            answer = connection.getresponse()
            # What it says beside the status does not matter, nor whether it breaks off.
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer.read(_BODY)
            return Answer(answer.status, errors.read_retry_after(answer.headers))


def _port(url: urllib.parse.SplitResult) -> int:
    return url.port or (443 if url.scheme == 'https' else 80)


def _allowed(found: Sequence[Any], rules: webhook.WebhookRules) -> Sequence[Any]:
    """Return what can be connected to; one address that is forbidden forbids them all."""
    for family, *_, sockaddr in found:
        address = ipaddress.ip_address(sockaddr[0])
        if _is_local(family, sockaddr):
            rules = dataclasses.replace(rules, hosts={*rules.hosts, address})
        if webhook.is_forbidden(address, rules):
            raise CallFailed('Its address is not allowed for webhooks.')
    return found[:_ADDRESSES]


def _is_local(family: int, sockaddr: Any) -> bool:
    """Return whether an address is one of this host; nothing is sent.

    The kernel chooses an own address as the source for itself.
    """
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(sockaddr)
        return bool(probe.getsockname()[0] == sockaddr[0])
    return False


def _connect(found: Sequence[Any], deadline: float) -> socket.socket:
    trouble: OSError = OSError('no address')
    for family, kind, protocol, _, sockaddr in found:
        one = socket.socket(family, kind, protocol)
        try:
            one.settimeout(_left(deadline))
            one.connect(sockaddr)
        except OSError as exc:
            one.close()
            trouble = exc
        else:
            return one
    raise trouble


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Bounded(io.RawIOBase):
    """A socket that keeps to a deadline and to the bytes that it receives, and then is at its end.

    A timeout of its own is for one packet only.
    """

    def __init__(self, raw: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._deadline = deadline
        self._remaining = _RECEIVED

    def sendall(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            self._raw.settimeout(_left(self._deadline))
            rest = rest[self._raw.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._raw.settimeout(_left(self._deadline))
        if not self._remaining:
            return 0
        count = self._raw.recv_into(buffer, min(len(buffer), self._remaining))
        self._remaining -= count
        return count

    def close(self) -> None:
        """Do nothing: http.client closes it before the answer is read, ``_post`` afterwards."""
