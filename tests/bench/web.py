# SPDX-License-Identifier: Apache-2.0
"""The bench's HTTP client: a connection per request, timed from connect to the last byte."""

import http.client
import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

from tests.bench.processes import Failed


def send(
    method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send a request; return the answer with its headers, and its body.

    :raises Failed: the status was not 2xx
    """
    parts = urllib.parse.urlsplit(url)
    data = None if body is None else json.dumps(body)
    sent = {'Accept': 'application/json', 'Content-Type': 'application/json', **(headers or {})}
    connection = http.client.HTTPConnection(parts.netloc, timeout=120)
    try:
        path = f'{parts.path}?{parts.query}' if parts.query else parts.path
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        raw = answer.read()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise Failed(f'{method} {url}: {answer.status} {raw[:300].decode(errors="replace")}')
    return answer, raw


def call(
    method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[Any, float]:
    """Send a request.

    :returns: the JSON of the answer (None when empty), and the milliseconds that it took
    :raises Failed: the status was not 2xx
    """
    started = time.perf_counter()
    raw = send(method, url, body, headers)[1]
    spent = (time.perf_counter() - started) * 1000
    return (json.loads(raw) if raw else None), spent


def post_for_header(url: str, body: Any, name: str) -> str:
    """Send a POST; return a header of the answer."""
    return send('POST', url, body)[0].headers[name]


def serves(url: str) -> bool:
    """Tell whether an HTTP server answers there, with any status."""
    try:
        call('GET', url)
    except OSError:
        return False
    except Failed:
        return True
    return True
