# SPDX-License-Identifier: Apache-2.0
"""The HTTP server that all fakes are: on 127.0.0.1, a thread for each request."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import TypeVar


class Server(http.server.ThreadingHTTPServer):
    """A server; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(('127.0.0.1', port), handler)

    @property
    def base(self) -> str:
        return f'http://127.0.0.1:{self.server_port}'


S = TypeVar('S', bound=Server)


@contextlib.contextmanager
def running(server: S) -> Iterator[S]:
    """Let a server answer, in a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
