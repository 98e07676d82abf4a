# SPDX-License-Identifier: Apache-2.0
"""Answer HTTP by threads of this process: the metrics, and the API of the all-in-one."""

import socket
import socketserver
from typing import Any
from wsgiref import simple_server

from climate_core.threads import VitalThread


class HttpServer:
    """A part of a service, see :class:`climate_core.threads.Background`.

    The address is taken at once, and answers come after :meth:`start`. It logs no requests: their
    queries may have tokens, and :mod:`climate_core.api.requestlog` logs those of the API.

    :param port: 0 takes a free one
    :raises OSError: the address cannot be taken
    """

    def __init__(self, name: str, host: str, port: int, application: Any) -> None:
        self.name = name
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

        class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
            address_family = family
            daemon_threads = True
            request_queue_size = 128

        class Handler(simple_server.WSGIRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

        self._server = simple_server.make_server(host, port, application, Server, Handler)
        self._thread = VitalThread(name, self._server.serve_forever)

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return self._server.server_port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def wait(self, deadline: float) -> bool:
        return self._thread.wait(deadline)
