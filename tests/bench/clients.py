# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.bench.clients``: clients that create leases at once, on a cloud that runs.

It works with the user of the environment (``OS_*``), each client with a token of its own, which
it has before the clock starts. A lease is of one host of the pool, in an hour of its own, so that
none is refused; with ``--of nothing`` it has no reservation. All of them are deleted at the end.
"""

import argparse
import concurrent.futures
import datetime
import http.client
import json
import os
import statistics
import sys
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any, NamedTuple

from keystoneauth1 import loading
from keystoneauth1.session import Session

from climateclient.client import SERVICE_TYPE

#: When the first lease begins, and how far apart they are: days from now, and minutes.
_FIRST, _APART = 2, 30


class Created(NamedTuple):
    """A lease that was created: its id, and how many seconds that took."""

    lease_id: str
    seconds: float


def login() -> Session:
    """Return a session with a token of its own of the user of the environment."""
    loader = loading.get_plugin_loader('password')
    names = ('auth_url', 'username', 'password', 'project_name')
    names += ('user_domain_name', 'project_domain_name')
    found = {name: os.environ.get(f'OS_{name.upper()}', 'Default') for name in names}
    return Session(auth=loader.load_from_options(**found))


class Client:
    """One of the clients: creates its share of the leases, one after the other.

    Its requests are made by http.client, as it runs on the machine of the cloud.
    """

    def __init__(self, of: str) -> None:
        self._of = of
        session = login()
        url = session.get_endpoint(service_type=SERVICE_TYPE, interface='public')
        self._url = urllib.parse.urlsplit(url)
        self._headers = {'X-Auth-Token': session.get_token(), 'Content-Type': 'application/json'}

    def create(self, numbers: Sequence[int]) -> list[Created]:
        """Create the leases of these numbers, which no other client has."""
        created = []
        for number in numbers:
            begin = time.perf_counter()
            answer = self._send('POST', '/leases', self._lease(number))
            seconds = time.perf_counter() - begin
            created.append(Created(answer['lease']['id'], seconds))
        return created

    def delete(self, lease_ids: Sequence[str]) -> None:
        """Delete leases."""
        for each in lease_ids:
            self._send('DELETE', f'/leases/{each}')

    def _lease(self, number: int) -> dict[str, Any]:
        start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=_FIRST)
        start += number * datetime.timedelta(minutes=_APART)
        end = start + datetime.timedelta(minutes=_APART - 1)
        reservation = {'resource_type': 'physical:host', 'min': 1, 'max': 1}
        return {
            'name': f'bench-{number}',
            'start_date': start.strftime('%Y-%m-%d %H:%M'),
            'end_date': end.strftime('%Y-%m-%d %H:%M'),
            'reservations': [reservation] if self._of == 'hosts' else [],
            'events': [],
        }

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(self._url.netloc, timeout=120)
        text = None if body is None else json.dumps(body)
        connection.request(method, self._url.path.rstrip('/') + path, text, self._headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status >= 300:
            raise RuntimeError(f'{method} {path}: {answer.status} {content[:500]!r}')
        return json.loads(content) if content else None


def measure(count: int, creates: int, of: str) -> tuple[float, list[Created]]:
    """Have so many clients create so many leases; return the seconds of all, and each of them."""
    clients = [Client(of) for _ in range(count)]
    shares = [range(first, creates, count) for first in range(count)]
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        begin = time.perf_counter()
        asked = [
            threads.submit(client.create, share)
            for client, share in zip(clients, shares, strict=True)
        ]
        created = [each for future in asked for each in future.result()]
        seconds = time.perf_counter() - begin
    clients[0].delete([each.lease_id for each in created])
    return seconds, created


def main() -> int:
    parser = argparse.ArgumentParser(prog='python -m tests.bench.clients', description=__doc__)
    parser.add_argument('--clients', type=int, nargs='+', default=[1, 8, 32])
    parser.add_argument('--creates', type=int, default=320, help='leases of each round')
    parser.add_argument('--of', choices=('hosts', 'nothing'), default='hosts')
    options = parser.parse_args()
    # Its connections, and what the manager reads once.
    measure(2, 20, options.of)
    print(f'{datetime.date.today()}, load average {os.getloadavg()[0]:.1f}, of {options.of}')
    for count in options.clients:
        seconds, created = measure(count, options.creates, options.of)
        times = sorted(each.seconds for each in created)
        p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
        print(
            f'{count:3} clients: {len(times) / seconds:6.1f} per second, '
            f'p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms'
        )
    return 0


if __name__ == '__main__':
    sys.exit(main())
