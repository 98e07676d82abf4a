# SPDX-License-Identifier: Apache-2.0
"""An API that clients reach over HTTP."""

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref import simple_server


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Handler(simple_server.WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def listening(application: Any) -> Iterator[str]:
    """Serve a WSGI application on a free port, and give the URL of API v1."""
    server = simple_server.make_server('127.0.0.1', 0, application, _Server, _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/v1'
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
