# SPDX-License-Identifier: Apache-2.0
"""GET /metrics, answered by a manager."""

import threading
import urllib.parse
from wsgiref import simple_server

import prometheus_client
from oslo_log import log
from prometheus_client import exposition

LOG = log.getLogger(__name__)


class BadAddress(Exception):
    """``[metrics] listen`` is not an address and a port."""


class Server:
    """Answers in threads of its own.

    :param listen: ``host:port``; port 0 takes a free one
    :param registry: what is told
    :raises BadAddress: it cannot be read
    :raises OSError: the address cannot be taken
    """

    def __init__(self, listen: str, registry: prometheus_client.CollectorRegistry) -> None:
        host, port = parse(listen)
        self._server: simple_server.WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = exposition.start_http_server(port, host, registry)
        LOG.info('Metrics are at http://%s:%d/metrics', host, self.port)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_port

    def stop(self) -> None:
        """Answer nothing more and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def parse(listen: str) -> tuple[str, int]:
    """Split an address and a port.

    :raises BadAddress: it has not the form ``host:port``
    """
    bad = BadAddress(f'[metrics] listen is {listen!r}, not an address and a port.')
    try:
        url = urllib.parse.urlsplit(f'//{listen}')
        host, port = url.hostname, url.port
    except ValueError as exc:
        raise bad from exc
    if not host or port is None or url.netloc != listen:
        raise bad
    return host, port
