# SPDX-License-Identifier: Apache-2.0
"""GET /metrics, answered by a manager."""

import urllib.parse

import prometheus_client
from oslo_log import log

from climate_core.http_server import HttpServer

LOG = log.getLogger(__name__)


class BadAddress(Exception):
    """``[metrics] listen`` is not an address and a port."""


def make(listen: str, registry: prometheus_client.CollectorRegistry) -> HttpServer:
    """Make the server of the metrics.

    :param listen: ``host:port``; port 0 takes a free one
    :param registry: what is told
    :raises BadAddress: it cannot be read
    :raises OSError: the address cannot be taken
    """
    host, port = parse(listen)
    server = HttpServer('metrics', host, port, prometheus_client.make_wsgi_app(registry))
    LOG.info('Metrics are at http://%s:%d/metrics', host, server.port)
    return server


def parse(listen: str) -> tuple[str, int]:
    """Split an address and a port.

    :raises BadAddress: it has not the form ``host:port``
    """
    bad = BadAddress(f'[metrics] listen must be an address and a port (host:port), not {listen!r}')
    try:
        url = urllib.parse.urlsplit(f'//{listen}')
        host, port = url.hostname, url.port
    except ValueError as exc:
        raise bad from exc
    if not host or port is None or url.netloc != listen:
        raise bad
    return host, port
