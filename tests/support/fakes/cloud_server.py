# SPDX-License-Identifier: Apache-2.0
"""Keystone, Nova, Glance, Cinder and Heat as far as Climate uses them, in one HTTP server.

As a process::

    python -m tests.support.fakes.cloud_server --journal FILE --port-file FILE

or in a thread, with :func:`running`. Tests steer it through :class:`Remote`, or in the same
process through its :class:`~tests.support.fakes.state.State`.
"""

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import re
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

from tests.support.fakes import cinder, heat, keystone, limits, nova
from tests.support.fakes.state import Record, Refusal, State

_IMAGE = 'climate_reservation_id'


class Handler(http.server.BaseHTTPRequestHandler):
    """One request; what it means is decided by :meth:`_route`."""

    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    server: 'Server'

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """The journal is the log."""

    def _answer(self) -> None:
        length = int(self.headers.get('Content-Length') or 0)
        self.body = json.loads(self.rfile.read(length) or b'null')
        state = self.server.state
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        with state.lock:
            fault = _fault(state, self.command, url.path)
            try:
                if fault and not fault.get('after'):
                    raise Refusal(fault['status'], 'A fault that the test ordered.')
                status, headers, body = self._route(url.path.rstrip('/'))
                if fault:
                    raise Refusal(fault['status'], 'A fault that the test ordered.')
            except Refusal as exc:
                error = {'code': exc.status, 'message': exc.message}
                status, headers, body = exc.status, {}, {'error': error}
            if not url.path.startswith('/fake'):
                state.requests.append((self.command, url.path, status))
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
        for method, pattern, function in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                found = function(self, *match.groups())
                if isinstance(found, tuple):
                    return found
                return 200 if found is not None else 202, {}, found
        raise Refusal(404, f'Nothing at {self.command} {path}.')

    @property
    def base(self) -> str:
        return f'http://127.0.0.1:{self.server.server_port}'

    def caller(self) -> Record:
        """Who asks, from the two tokens."""
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


def _issue(request: Handler) -> Any:
    value, body = keystone.issue(request.server.state, request.body, request.base)
    return 201, {'X-Subject-Token': value}, body


def _validate(request: Handler) -> Any:
    request.caller()
    value = request.headers.get('X-Subject-Token', '')
    return keystone.show(request.server.state, value, request.base)


def _create_trust(request: Handler) -> Any:
    state = request.server.state
    return 201, {}, keystone.create_trust(state, request.caller(), request.body)


def _delete_trust(request: Handler, trust_id: str) -> Any:
    keystone.delete_trust(request.server.state, request.caller(), trust_id)
    return 204, {}, None


def _list_trusts(request: Handler) -> Any:
    request.caller()
    return keystone.list_trusts(request.server.state, request.query['trustee_user_id'])


def _server(request: Handler, server_id: str) -> Any:
    microversion = request.headers.get('OpenStack-API-Version', '').removeprefix('compute ')
    return nova.look(request.server.state, request.caller(), server_id, microversion)


def _servers(request: Handler) -> Any:
    caller = request.caller()
    if request.query.get('all_tenants') and 'admin' not in caller['roles']:
        raise Refusal(403, "Policy doesn't allow index:get_all_tenants to be performed.")
    return nova.listing(request.server.state, caller, request.query)


def _action(request: Handler, server_id: str) -> Any:
    body = nova.act(request.server.state, request.caller(), server_id, request.body)
    return 202, {}, body


def _delete_server(request: Handler, server_id: str) -> Any:
    nova.delete(request.server.state, request.caller(), server_id)
    return 204, {}, None


def _attachments(request: Handler, server_id: str) -> Any:
    return nova.attachments(request.server.state, request.caller(), server_id)


def _detach(request: Handler, server_id: str, volume_id: str) -> None:
    nova.detach(request.server.state, request.caller(), server_id, volume_id)


def _keep_volume(request: Handler, server_id: str, volume_id: str) -> None:
    wanted = request.body['volumeAttachment']
    nova.keep_volume(request.server.state, request.caller(), server_id, volume_id, wanted)


def _images(request: Handler) -> Any:
    caller = request.caller()
    wanted, name = request.query.get(_IMAGE), request.query.get('name')
    return {
        'images': [
            {key: image.get(key) for key in ('id', 'name', 'status', 'size')}
            for image in request.server.state.images.values()
            if wanted in (None, image['metadata'].get(_IMAGE))
            and name in (None, image['name'])
            and ('admin' in caller['roles'] or image['project_id'] == caller['project_id'])
        ]
    }


def _delete_image(request: Handler, image_id: str) -> Any:
    request.caller()
    if image_id not in request.server.state.images:
        raise Refusal(404, f'No image found with ID {image_id}')
    entry = {'what': 'image delete', 'id': image_id}
    request.server.state.drop('images', image_id, entry)
    return 204, {}, None


def _image_versions(request: Handler) -> Any:
    link = [{'rel': 'self', 'href': f'{request.base}/image/v2/'}]
    return 300, {}, {'versions': [{'id': 'v2.16', 'status': 'CURRENT', 'links': link}]}


def _order_fault(request: Handler) -> None:
    request.server.state.faults.append(request.body)


def _order_servers(request: Handler) -> Any:
    state = request.server.state
    return [nova.add(state, **fields) for fields in request.body]


def _order_volumes(request: Handler) -> Any:
    state = request.server.state
    return [cinder.add(state, **fields) for fields in request.body]


def _order_attachments(request: Handler) -> Any:
    state = request.server.state
    return [cinder.attach(state, **fields) for fields in request.body]


def _order_stacks(request: Handler) -> Any:
    state = request.server.state
    return [heat.add(state, **fields) for fields in request.body]


def _order_trust(request: Handler) -> Any:
    trust = request.body
    request.server.state.put('trusts', trust, {'what': 'trust create', 'id': trust['id']})
    return trust


ROUTES = (
    ('GET', '/identity', lambda r: (300, {}, keystone.versions(r.base))),
    ('GET', '/identity/v3', lambda r: keystone.version(r.base)),
    ('POST', '/identity/v3/auth/tokens', _issue),
    ('GET', '/identity/v3/auth/tokens', _validate),
    ('POST', '/identity/v3/OS-TRUST/trusts', _create_trust),
    ('GET', '/identity/v3/OS-TRUST/trusts', _list_trusts),
    ('DELETE', '/identity/v3/OS-TRUST/trusts/([^/]+)', _delete_trust),
    ('GET', '/identity/v3/limits/model', limits.model),
    ('GET', '/identity/v3/limits', limits.of_projects),
    ('GET', '/identity/v3/registered_limits', limits.registered),
    ('GET', '/identity/v3/services', limits.services),
    ('GET', '/identity/v3/endpoints', limits.endpoints),
    ('GET', '/compute', lambda r: (300, {}, {'versions': [nova.versions(r.base)]})),
    ('GET', r'/compute/v2\.1', lambda r: {'version': nova.versions(r.base)}),
    ('GET', r'/compute/v2\.1/servers', _servers),
    ('GET', r'/compute/v2\.1/servers/([^/]+)', _server),
    ('POST', r'/compute/v2\.1/servers/([^/]+)/action', _action),
    ('DELETE', r'/compute/v2\.1/servers/([^/]+)', _delete_server),
    ('GET', r'/compute/v2\.1/servers/([^/]+)/os-volume_attachments', _attachments),
    ('DELETE', r'/compute/v2\.1/servers/([^/]+)/os-volume_attachments/([^/]+)', _detach),
    ('PUT', r'/compute/v2\.1/servers/([^/]+)/os-volume_attachments/([^/]+)', _keep_volume),
    *cinder.ROUTES,
    *heat.ROUTES,
    ('GET', '/image', _image_versions),
    ('GET', '/image/v2/images', _images),
    ('DELETE', '/image/v2/images/([^/]+)', _delete_image),
    ('POST', '/fake/faults', _order_fault),
    ('POST', '/fake/servers', _order_servers),
    ('POST', '/fake/volumes', _order_volumes),
    ('POST', '/fake/attachments', _order_attachments),
    ('POST', '/fake/stacks', _order_stacks),
    ('POST', '/fake/trusts', _order_trust),
    ('GET', '/fake/journal', lambda r: r.server.state.journal()),
    ('GET', '/fake/requests', lambda r: r.server.state.requests),
)


class Server(http.server.ThreadingHTTPServer):
    """The server; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, state: State, port: int = 0) -> None:
        super().__init__(('127.0.0.1', port), Handler)
        self.state = state
        state.limits = limits.Limits()

    @property
    def url(self) -> str:
        return f'http://127.0.0.1:{self.server_port}'


@contextlib.contextmanager
def running(journal: pathlib.Path) -> Iterator[Server]:
    """Run the cloud in a thread."""
    server = Server(State(journal))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.state.close()


def main() -> None:
    parser = argparse.ArgumentParser(description='A cloud that keeps a journal, for tests.')
    parser.add_argument('--journal', type=pathlib.Path, required=True)
    parser.add_argument('--port', type=int, default=0)
    parser.add_argument('--port-file', type=pathlib.Path, required=True)
    parser.add_argument('--tell', action='store_true', help='write a line when it is ready')
    args = parser.parse_args()
    server = Server(State(args.journal), args.port)
    ready = args.port_file.with_suffix('.new')
    ready.write_text(str(server.server_port), encoding='ascii')
    os.replace(ready, args.port_file)
    if args.tell:
        print('ready', flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main()
