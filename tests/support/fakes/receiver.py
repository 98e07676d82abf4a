# SPDX-License-Identifier: Apache-2.0
"""A receiver of webhooks on 127.0.0.1, with HTTP or HTTPS, that answers as it is told."""

import contextlib
import dataclasses
import datetime
import http.server
import ipaddress
import pathlib
import ssl
import threading
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.fakes import serving

PATIENCE = 60


@dataclasses.dataclass(frozen=True)
class Got:
    """A request; the names of headers are in small letters."""

    path: str
    headers: dict[str, str]
    body: bytes


class _Handler(http.server.BaseHTTPRequestHandler):
    server: 'Receiver'

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers['content-length']))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.take(Got(self.path, headers, body))
        if callable(answer):
            answer(self)
            return
        self.send_response(answer)
        self.send_header('content-length', '0')
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Receiver(serving.Server):
    """Keeps what it got.

    :param answers: what the next requests get: a status, or a function that is called with the
        handler; 204 when there are no more
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(_Handler)
        self.got: list[Got] = []
        self.answers: list[int | Callable[[Any], None]] = []
        self._changed = threading.Condition()
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.port = self.server_port
        self._scheme = 'https' if tls else 'http'

    def url(self, host: str = '127.0.0.1') -> str:
        return f'{self._scheme}://{host}:{self.port}/hook?who=me'

    def wait(self, count: int) -> None:
        """Wait for so many requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, PATIENCE), self.got

    def take(self, got: Got) -> int | Callable[[Any], None]:
        """Keep a request; return its answer."""
        with self._changed:
            self.got.append(got)
            self._changed.notify_all()
            return self.answers.pop(0) if self.answers else 204


def running(
    tls: ssl.SSLContext | None = None,
) -> contextlib.AbstractContextManager[Receiver]:
    """Run a receiver."""
    return serving.running(Receiver(tls))


def certificate(directory: pathlib.Path, name: str) -> tuple[ssl.SSLContext, str]:
    """Make a certificate that signs itself.

    :param name: of a host, or an address
    :returns: what a server wants, and the file that a client has to trust
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = directory / f'{name}.pem'
    pem = signed.public_bytes(serialization.Encoding.PEM)
    file.write_bytes(
        pem
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    trusted = directory / f'{name}.crt'
    trusted.write_bytes(pem)
    return context, str(trusted)
