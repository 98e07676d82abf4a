# SPDX-License-Identifier: Apache-2.0
"""An external service that reads requests as strictly as coral-credits, and records them.

The fields, their types and which of them are required are those of the serializers of
coral-credits (stackhpc/coral-credits, coral_credits/api/serializers.py): it converts texts to
numbers, but takes no booleans for texts or numbers, no null and no empty text unless noted here.
"""

import datetime
import http.server
import json
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.fakes import serving

TOKEN = 'coral-token'
PATHS = ('check-create', 'check-update', 'create', 'update', 'on-end')

Parse = Callable[[Any], None]


def _text(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is no text')
    if not str(value).strip():
        raise ValueError('the text is empty')


def _integer(value: Any) -> None:
    if isinstance(value, bool) or int(str(value)) < 0:
        raise ValueError(f'{value!r} is no amount')


def _uuid(value: Any) -> None:
    uuid.UUID(value)


def _date(value: Any) -> None:
    read = datetime.datetime.fromisoformat(value)
    # It takes more, but a naive time in seconds is what Blazar sends.
    if read.isoformat(timespec='seconds') != value or read.tzinfo is not None:
        raise ValueError(f'{value!r} is not of the form YYYY-MM-DDTHH:MM:SS')


def _url(value: Any) -> None:
    if not value.startswith(('http://', 'https://')):
        raise ValueError(f'{value!r} is no URL')


def _amounts(value: Any) -> None:
    for name, amount in value.items():
        if not name.isupper() or float(amount) < 0:
            raise ValueError(f'{name}: {amount}')


def _or(accepted: Any, parse: Parse) -> Parse:
    return lambda value: None if value == accepted and value is not False else parse(value)


def _optional(parse: Parse) -> tuple[Parse]:
    """Mark a field that may be missing."""
    return (parse,)


def _list(fields: Mapping[str, Any]) -> Parse:
    def parse(value: Any) -> None:
        if not isinstance(value, list):
            raise ValueError('is no list')
        for each in value:
            _object(fields)(each)

    return parse


def _object(fields: Mapping[str, Any]) -> Parse:
    def parse(value: Any) -> None:
        for name, each in fields.items():
            field = each[0] if isinstance(each, tuple) else each
            if name not in value:
                if field is each:
                    raise ValueError(f'{name} is missing')
                continue
            try:
                field(value[name])
            except (ValueError, TypeError, AttributeError) as exc:
                raise ValueError(f'{name}: {exc}') from exc

    return parse


_ALLOCATIONS = _optional(_list({'id': _text, 'hypervisor_hostname': _text}))
_BLANK = _optional(_or('', _text))
_TYPES: Mapping[str, Mapping[str, Any]] = {
    'physical:host': {
        'min': _integer,
        'max': _integer,
        'hypervisor_properties': _BLANK,
        'resource_properties': _BLANK,
        'allocations': _ALLOCATIONS,
    },
    'flavor:instance': {
        'amount': _integer,
        'flavor_id': _text,
        'affinity': _optional(_or(None, _text)),
        'allocations': _ALLOCATIONS,
    },
    'virtual:instance': {
        'amount': _integer,
        'vcpus': _integer,
        'memory_mb': _integer,
        'disk_gb': _integer,
        'affinity': _BLANK,
        'resource_properties': _optional(_or(None, _text)),
        'allocations': _ALLOCATIONS,
    },
}


def _reservations(value: Any) -> None:
    for each in value:
        _object(_TYPES[each['resource_type']])(each)


_CONTEXT = _object(
    {'user_id': _uuid, 'project_id': _uuid, 'auth_url': _url, 'region_name': _or(None, _text)}
)
_LEASE = _object(
    {
        'id': _uuid,
        'name': _text,
        'start_date': _date,
        'end_date': _date,
        'before_end_date': _optional(_or(None, _date)),
        'reservations': _reservations,
        'resource_requests': _amounts,
    }
)


def check(path: str, headers: Any, body: Any) -> None:
    """Check a request.

    :raises ValueError: coral-credits would reject it
    """
    if headers['Authorization'] != f'Bearer {TOKEN}' or headers['X-Auth-Token']:
        raise ValueError('the request has no bearer token')
    name = path.rpartition('/')[2]
    if name not in PATHS:
        raise ValueError(f'there is no {path}')
    fields: dict[str, Any] = {'context': _CONTEXT, 'lease': _LEASE}
    if name in ('check-update', 'update'):
        fields['current_lease'] = _LEASE
    _object(fields)(body)
    # The end may have hours of 0, which are refunded.
    if name != 'on-end' and 0 in body['lease']['resource_requests'].values():
        raise ValueError('hours of 0 are requested')


class CoralCredits(serving.Server):
    """Answer 204, or 403 with ``denial``; 400 to a request that coral-credits rejects."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.requests: list[tuple[str, Any]] = []
        self.invalid: list[str] = []
        self.denial: Any = None
        self.fail_commits = False
        self._received = threading.Condition()

    def receive(self, name: str, body: Any) -> None:
        """Record a valid request."""
        with self._received:
            self.requests.append((name, body))
            self._received.notify_all()

    def wait(self, count: int) -> list[tuple[str, Any]]:
        """Wait for a number of valid requests; return all."""
        with self._received:
            assert self._received.wait_for(lambda: len(self.requests) >= count, 60), self.invalid
            return list(self.requests)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: CoralCredits

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        status, answer = 204, None
        try:
            check(self.path, self.headers, body)
        except (ValueError, KeyError) as exc:
            self.server.invalid.append(f'{self.path}: {exc}')
            status, answer = 400, {'error': str(exc)}
        else:
            name = self.path.rpartition('/')[2]
            self.server.receive(name, body)
            if self.server.fail_commits and name in ('create', 'update'):
                status = 500
            elif self.server.denial is not None:
                status, answer = 403, self.server.denial
        data = b'' if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Discard it."""
