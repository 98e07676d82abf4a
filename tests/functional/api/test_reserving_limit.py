# SPDX-License-Identifier: Apache-2.0
"""Users' requests wait for a service that waits for the answers to its own requests."""

import collections
import concurrent.futures
import itertools
import pathlib
import threading
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
import webob

from climate_core import concurrency
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_core.plugins import base
from tests.functional.api import world

USER = {'X-User-Id': 'owner', 'X-Project-Id': 'ours', 'X-Roles': 'member,reader'}
SERVICE = USER | {'X-Service-Roles': 'service'}
LEASE = {'name': 'ours', 'start_date': '2099-01-01 10:00', 'end_date': '2099-01-01 12:00'}
EACH = 24


class Asked(world.Thing):
    """A resource whose service is asked for it, and does not answer before it is answered."""

    resource_type = 'test:asked'
    service_is_free = threading.Event()

    def reserve(
        self, context: RequestContext, values: Mapping[str, Any], lease_id: str = ''
    ) -> base.ReservedResource:
        if not context.by_service:
            assert self.service_is_free.wait(60)
        return super().reserve(context, values, lease_id)


def _post(application: Any, headers: Mapping[str, str], path: str, body: Any) -> webob.Response:
    return world.ask(application, 'POST', f'/v1/leases{path}', body, headers)


def _resource() -> dict[str, str]:
    return {'resource_type': Asked.resource_type, 'resource_id': str(uuid.uuid4())}


@pytest.mark.parametrize(
    ('threads', 'options', 'most'),
    [
        (4, {'api': {'max_reserving_requests': 3}}, 2),
        (4 * EACH, {'DEFAULT': {'executor_thread_pool_size': 4}}, 1),
    ],
    ids=['threads-of-the-api', 'threads-of-the-manager'],
)
def test_requests_of_services_are_answered_while_users_wait(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    options: Mapping[str, Mapping[str, int]],
    most: int,
) -> None:
    monkeypatch.setattr(Asked, 'service_is_free', threading.Event())
    monkeypatch.setattr(concurrency, 'TURN_SECONDS', 0.01)
    triples = [(group, *each) for group, of in options.items() for each in of.items()]
    conf = world.configure(tmp_path, *triples)
    with world.running(conf, Database(conf), Asked) as application:
        there = _post(application, USER, '', LEASE).json['lease']['id']
        wanted = {
            'create': (USER, '', lambda: LEASE | {'reservations': [_resource()]}),
            'dry run': (USER, '?dry_run=true', lambda: LEASE | {'reservations': [_resource()]}),
            'add': (USER, f'/{there}/reservations', _resource),
            'service': (SERVICE, '', lambda: LEASE | {'reservations': [_resource()]}),
        }
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            sent = {
                sort: [pool.submit(_post, application, headers, path, body()) for _ in range(EACH)]
                for sort, (headers, path, body) in wanted.items()
            }
            # The service answers nobody before all its own requests are answered.
            answers = [each.result(60) for each in sent.pop('service')]
            Asked.service_is_free.set()
            assert [each.status_code for each in answers] == [201] * EACH
            others = [each.result(60) for each in itertools.chain(*sent.values())]
        statuses = collections.Counter(each.status_code // 100 for each in others)
        assert statuses[2] >= most
        assert statuses == {2: statuses[2], 5: 3 * EACH - statuses[2]}
        for each in others:
            if each.status_code == 503:
                assert each.headers['Retry-After'] == '1'
                assert each.json['error_name'] == 'service_busy'
        # Nothing is left of those that were refused, and all find a place afterwards.
        for sort in sent:
            headers, path, body = wanted[sort]
            assert _post(application, headers, path, body()).status_code in (200, 201)
