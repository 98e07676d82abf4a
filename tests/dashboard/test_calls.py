# SPDX-License-Identifier: Apache-2.0
"""How often a page asks the lease service, which does not grow with leases and hosts."""

import collections
import json
from collections.abc import Iterator
from typing import Any
from unittest import mock
from urllib import parse

import requests

from tests.dashboard.pages import HOUR, NOW, LoggedIn, lease

#: So many rows the service gives at most, whatever is asked for.
MOST = 1000
LEASE = lease().id


def times() -> dict[str, str]:
    return {'start_date': NOW.isoformat(), 'end_date': (NOW + HOUR).isoformat()}


def lease_row(number: int) -> dict[str, Any]:
    return {'id': f'{LEASE}-{number}', 'name': f'n{number}', 'status': 'WAITING', **times()}


def bar(number: int) -> dict[str, Any]:
    return {
        'lease_id': f'{LEASE}-{number}',
        'lease_name': f'n{number}',
        'project_id': '1',
        'status': 'ACTIVE',
        'reservation_id': str(number),
        **times(),
    }


def host_bars(number: int) -> dict[str, Any]:
    return {**host_row(number), 'bars': [bar(number)]}


def host_row(number: int) -> dict[str, Any]:
    name = f'compute{number}'
    return {
        'id': str(number + 1),
        'hypervisor_hostname': name,
        'service_name': name,
        'pool': 'default',
        'reservable': True,
    }


class Service:
    """A lease service with so many leases and hosts, which counts what it is asked."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.asked: collections.Counter[str] = collections.Counter()

    def send(self, request: requests.PreparedRequest, **_: Any) -> Any:
        url = parse.urlsplit(str(request.url))
        path = url.path.removeprefix('/v1')
        self.asked[path] += 1
        query = dict(parse.parse_qsl(url.query))
        response = requests.Response()
        response.status_code, response.url, response.request = 200, str(request.url), request
        response._content = json.dumps(dict(self._answer(path, query))).encode()
        return response

    def _answer(self, path: str, query: dict[str, str]) -> Iterator[tuple[str, Any]]:
        if path == '/calendar':
            yield 'capacity', []
            key, row = ('hosts', host_bars) if query.get('hosts') else ('bars', bar)
        elif path in ('/usage', f'/leases/{LEASE}'):
            yield 'usage', []
            yield 'lease', lease_row(0)
            return
        else:
            key, row = {'/leases': ('leases', lease_row), '/os-hosts': ('hosts', host_row)}[path]
        first = int(query.get('marker', 0))
        size = min(int(query.get('limit', MOST)), MOST)
        rows = [row(number) for number in range(first, min(first + size, self._number))]
        yield key, rows
        if first + size < self._number:
            after = {**query, 'marker': first + size}
            yield f'{key}_links', [{'rel': 'next', 'href': f'?{parse.urlencode(after)}'}]


class CallsTest(LoggedIn):
    def setUp(self) -> None:
        super().setUp()
        self._log_in('admin', 'member', 'reader')
        mock.patch('climate_dashboard.cloud_names.projects', return_value={}).start()

    def asked(self, number: int, name: str, *arguments: str, **query: str) -> dict[str, int]:
        service = Service(number)
        with mock.patch('requests.Session.send', service.send):
            text = self.text(f'horizon:{name}', *arguments, **query)
        assert ' cannot be ' not in text
        return dict(service.asked)

    def test_pages_ask_no_more_often_when_there_is_more(self) -> None:
        for name, arguments, calls in (
            ('project:climate_leases:index', (), {'/leases': 1}),
            ('project:climate_leases:detail', (LEASE,), {f'/leases/{LEASE}': 1}),
            ('admin:climate_hosts:index', (), {'/os-hosts': 1}),
            ('admin:climate_host_calendar:index', (), {'/calendar': 2}),
            ('admin:climate_usage:index', (), {'/usage': 1}),
            ('admin:climate_usage:planned', (), {'/usage': 1}),
        ):
            for number in (1, 10_000):
                assert self.asked(number, name, *arguments) == calls, (name, number)

    def test_queue_asks_for_two_pages_at_most(self) -> None:
        assert self.asked(1, 'admin:climate_queue:index') == {'/leases': 1}
        for number in (2_000, 10_000):
            assert self.asked(number, 'admin:climate_queue:index') == {'/leases': 2}

    def test_calendar_asks_for_so_many_pages_at_most(self) -> None:
        for number in (1, 10_000):
            assert self.asked(number, 'project:climate_calendar:index') == {'/calendar': 2}
        for name in ('project:climate_calendar:index', 'admin:climate_host_calendar:index'):
            assert self.asked(1, name, q='n') == {'/calendar': 2}
            for number in (10_000, 50_000):
                assert self.asked(number, name, q='n') == {'/calendar': 3}
