# SPDX-License-Identifier: Apache-2.0
"""The bench's HTTP client: a connection per request, timed from connect to the last byte."""

import contextlib
import http.client
import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tests.bench.processes import Failed


def call(
    method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[Any, float]:
    """Send a request.

    :returns: the JSON of the answer (None when empty), and the milliseconds that it took
    :raises Failed: the status was not 2xx
    """
    parts = urllib.parse.urlsplit(url)
    data = None if body is None else json.dumps(body)
    sent = {'Accept': 'application/json', 'Content-Type': 'application/json', **(headers or {})}
    path = f'{parts.path}?{parts.query}' if parts.query else parts.path
    started = time.perf_counter()
    connection = http.client.HTTPConnection(parts.netloc, timeout=120)
    with contextlib.closing(connection):
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        raw = answer.read()
    spent = (time.perf_counter() - started) * 1000
    if not 200 <= answer.status < 300:
        raise Failed(f'{method} {url}: {answer.status} {raw[:300].decode(errors="replace")}')
    return (json.loads(raw) if raw else None), spent


def serves(url: str) -> bool:
    """Tell whether an HTTP server answers there, with any status."""
    try:
        call('GET', url)
    except OSError:
        return False
    except Failed:
        pass
    return True
