# SPDX-License-Identifier: Apache-2.0
"""Keystone, Nova, Placement, Glance, Neutron, Cinder and Heat as Climate uses them: one server.

In a process of its own, with :func:`serve`, or in a thread, with :func:`running`. Tests steer it
through a ``Remote``, or in the same process through its
:class:`~tests.support.fakes.state.State`.
"""

import contextlib
import http.server
import json
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from tests.support.fakes import (
    cinder,
    flavors,
    glance,
    heat,
    hypervisors,
    keystone,
    limits,
    neutron,
    neutron_networks,
    nova,
    placement,
    serving,
)
from tests.support.fakes.state import Record, Refusal, State


class Handler(http.server.BaseHTTPRequestHandler):
    """One request; what it means is decided by :meth:`_route`."""

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    server: 'Server'

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing: the journal is the log."""

    def _answer(self) -> None:
        length = int(self.headers.get('Content-Length') or 0)
        self.body = json.loads(self.rfile.read(length) or b'null')
        state = self.server.state
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        self.queries = urllib.parse.parse_qs(url.query)
        with state.lock:
            fault = _fault(state, self.command, url.path)
            try:
                if fault and not fault.get('after'):
                    raise Refusal(fault['status'], 'A fault that the test ordered.')
                status, headers, body = self._route(url.path.rstrip('/'))
                if fault:
                    raise Refusal(fault['status'], 'A fault that the test ordered.')
            except Refusal as exc:
                error = {'code': exc.status, 'message': exc.message, 'type': exc.kind}
                name = 'NeutronError' if exc.kind else 'error'
                status, headers, body = exc.status, {}, {name: error}
            if not url.path.startswith('/fake'):
                state.requests.append((self.command, url.path, status))
                state.queries.append((url.path, self.queries))
                state.request_ids.append(self.headers.get('X-OpenStack-Request-ID'))
        self._send(status, headers, body)

    def _send(self, status: int, headers: dict[str, str], body: Any) -> None:
        if status == 0:
            self.close_connection = True
            return
        data = b'' if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _route(self, path: str) -> tuple[int, dict[str, str], Any]:
        for method, pattern, function in self.server.routes:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                found = function(self, *match.groups())
                if isinstance(found, tuple):
                    return found
                return 200 if found is not None else 202, {}, found
        raise Refusal(404, f'Nothing at {self.command} {path}.')

    @property
    def base(self) -> str:
        return self.server.base

    def caller(self) -> Record:
        """Return the caller that the two tokens name."""
        tokens = self.server.state.tokens
        token = tokens.get(self.headers.get('X-Auth-Token', ''))
        if not token:
            raise Refusal(401, 'The request you have made requires authentication.')
        service = tokens.get(self.headers.get('X-Service-Token', ''), {})
        return {**token, 'service_roles': service.get('roles', [])}


def _fault(state: State, method: str, path: str) -> Record | None:
    for fault in state.faults:
        if fault['method'] == method and re.search(fault['path'], path):
            fault['count'] -= 1
            if not fault['count']:
                state.faults.remove(fault)
            return fault
    return None


def _order_fault(request: Handler) -> None:
    request.server.state.faults.append(request.body)


def _order(add: Callable[..., Record]) -> Callable[[Handler], list[Record]]:
    """Make the handler that puts a list of records into the cloud."""
    return lambda request: [add(request.server.state, **fields) for fields in request.body]


ROUTES: Sequence[tuple[str, str, Callable[..., Any]]] = (
    *keystone.ROUTES,
    *limits.ROUTES,
    *nova.ROUTES,
    *flavors.ROUTES,
    *hypervisors.ROUTES,
    *placement.ROUTES,
    *glance.ROUTES,
    *neutron.ROUTES,
    *cinder.ROUTES,
    ('GET', '/volume/v3/([^/]+)/os-availability-zone', lambda r, _: nova.zones(r)),
    *heat.ROUTES,
    ('POST', '/fake/faults', _order_fault),
    ('POST', '/fake/servers', _order(nova.add)),
    ('POST', '/fake/flavors', _order(flavors.add)),
    ('POST', '/fake/hypervisors', _order(hypervisors.add)),
    ('POST', '/fake/silences', _order(hypervisors.silence)),
    ('POST', '/fake/power', lambda r: hypervisors.switch(r.server.state, **r.body)),
    ('POST', '/fake/claims', _order(placement.add_server)),
    ('POST', '/fake/volumes', _order(cinder.add)),
    ('POST', '/fake/attachments', _order(cinder.attach)),
    ('POST', '/fake/stacks', _order(heat.add)),
    ('POST', '/fake/floatingips', _order(neutron.add)),
    ('POST', '/fake/network_ports', _order(neutron_networks.add_port)),
    ('POST', '/fake/interfaces', _order(neutron_networks.add_interface)),
    ('POST', '/fake/trunks', _order(neutron_networks.add_trunk)),
    ('POST', '/fake/trusts', _order(keystone.add_trust)),
    ('GET', '/fake/journal', lambda r: r.server.state.journal()),
    ('GET', '/fake/requests', lambda r: r.server.state.requests),
)


class Server(serving.Server):
    """The cloud."""

    routes = ROUTES

    def __init__(self, state: State, port: int = 0) -> None:
        super().__init__(Handler, port)
        self.state = state
        self.url = self.base
        state.limits = limits.Limits()


@contextlib.contextmanager
def running(journal: pathlib.Path) -> Iterator[Server]:
    """Run the cloud in a thread."""
    with serving.running(Server(State(journal))) as server:
        yield server
    server.state.close()


def serve(journal: pathlib.Path, tell: Connection) -> None:
    """Serve a cloud until the end of the process, and tell its port."""
    server = Server(State(journal))
    tell.send(server.server_port)
    tell.close()
    server.serve_forever()
