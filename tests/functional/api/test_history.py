# SPDX-License-Identifier: Apache-2.0
"""The history of a lease, from its making until it is purged."""

import collections
import datetime
import pathlib
import queue
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import webob

from climate_core import exceptions, test_hooks
from climate_core.db import leases, store
from climate_core.db.engine import Database
from climate_core.lease.model import Lease, Reservation
from tests.functional.api import world

OURS = {'X-User-Id': 'me', 'X-Project-Id': 'ours', 'X-Roles': 'member,reader'}
THEIRS = OURS | {'X-Project-Id': 'theirs'}
THING = 'aaaaaaaa-0000-4000-8000-000000000001'


class Fickle(world.Thing):
    """A resource that does not wake up at once."""

    resource_type = 'test:fickle'
    #: What the next calls for a resource raise.
    trouble: ClassVar[dict[str, list[Exception]]] = collections.defaultdict(list)

    def start(self, lease: Lease, reservation: Reservation) -> None:
        if self.trouble[reservation.resource_id]:
            raise self.trouble[reservation.resource_id].pop(0)


class Service:
    def __init__(self, application: Any, database: Database, finished: 'queue.Queue[str]') -> None:
        self.application = application
        self.database = database
        self.finished = finished

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] = OURS
    ) -> webob.Response:
        return world.ask(self.application, method, path, body, headers)

    def create(self, **values: Any) -> webob.Response:
        fickle = {'resource_type': 'test:fickle', 'resource_id': THING}
        body = {'name': 'n', 'duration': '1h', 'reservations': [fickle], **values}
        return world.ask(self.application, 'POST', '/v1/leases', body, OURS, 201)

    def history(self, lease_id: str, query: str = '') -> dict[str, Any]:
        path = f'/v1/leases/{lease_id}/history{query}'
        return dict(world.ask(self.application, 'GET', path, None, OURS, 200).json)

    def wait(self, lease_id: str, status: str) -> None:
        """Look again after each event that is finished."""
        while True:
            found = self.database.read(leases.find, lease_id)
            assert found is not None
            if found.status == status:
                return
            self.finished.get(timeout=30)


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    finished: queue.Queue[str] = queue.Queue()

    def hook(name: str, _info: dict[str, Any]) -> None:
        if name == 'finish.after':
            finished.put(name)

    conf = world.configure(tmp_path, ('engine', 'retry_seconds', '0.1'))
    database = Database(conf)
    Fickle.trouble.clear()
    test_hooks.install(hook)
    try:
        with world.running(conf, database, Fickle) as application:
            yield Service(application, database, finished)
    finally:
        test_hooks.install(None)


def line(entry: dict[str, Any]) -> tuple[str, str, str | None]:
    return entry['action'], entry['result'], entry['reason']


def test_history_has_the_whole_life_of_a_lease(service: Service) -> None:
    Fickle.trouble[THING] = [exceptions.Transient('The host is busy.')]
    made = service.create()
    lease_id = made.json['lease']['id']
    service.wait(lease_id, 'ACTIVE')
    path = f'/v1/leases/{lease_id}'
    renamed = service.ask('PUT', path, {'name': 'other'})
    assert renamed.status_code == 200
    ended = service.ask('POST', f'{path}/end')
    assert ended.status_code == 202
    service.wait(lease_id, 'TERMINATED')
    before = service.history(lease_id)
    deleted = service.ask('DELETE', path)
    assert deleted.status_code == 204
    assert service.ask('GET', path).status_code == 404

    told = service.history(lease_id)
    entries = told['history']
    assert entries[: len(before['history'])] == before['history']
    lines = [line(each) for each in entries]
    asked = ['lease.create', 'lease.update', 'lease.end', 'lease.delete']
    assert [action for action, *_ in lines if action.startswith('lease.')] == asked
    assert ('event.start_lease', 'retry', 'The host is busy.') in lines
    assert ('event.start_lease', 'done', None) in lines
    assert ('event.end_lease', 'done', None) in lines
    numbers = [each['id'] for each in entries]
    assert numbers == sorted(numbers)

    by_action = {each['action']: each for each in entries}
    for action, answer in zip(asked, (made, renamed, ended, deleted), strict=True):
        assert by_action[action]['user_id'] == 'me'
        assert by_action[action]['request_id'] == answer.headers['X-OpenStack-Request-ID']
    assert by_action['lease.update']['changes'] == {'name': ['n', 'other']}
    assert list(by_action['lease.delete']['changes']) == ['deleted_at']
    assert by_action['event.start_lease']['user_id'] is None
    assert by_action['event.start_lease']['request_id'].startswith('req-')


def test_pages_of_a_history_are_linked(service: Service) -> None:
    lease_id = service.create(reservations=[], start_date='2098-01-01 10:00').json['lease']['id']
    for name in ('a', 'b', 'c'):
        service.ask('PUT', f'/v1/leases/{lease_id}', {'name': name})
    everything = service.history(lease_id)
    assert list(everything) == ['history']
    assert len(everything['history']) == 4
    pages = [service.history(lease_id, '?limit=3')]
    ((link),) = pages[0]['history_links']
    assert link['rel'] == 'next'
    pages.append(service.ask('GET', link['href']).json)
    assert [len(page['history']) for page in pages] == [3, 1]
    assert 'history_links' not in pages[1]
    assert [each for page in pages for each in page['history']] == everything['history']
    assert service.history(lease_id, f'?marker={2**63 - 1}') == {'history': []}


def test_history_can_begin_with_the_newest(service: Service) -> None:
    lease_id = service.create(reservations=[], start_date='2098-01-01 10:00').json['lease']['id']
    for name in ('a', 'b', 'c'):
        service.ask('PUT', f'/v1/leases/{lease_id}', {'name': name})
    oldest_first = service.history(lease_id, '?sort=time:asc')['history']
    page = service.history(lease_id, '?sort=time:desc&limit=3')
    ((link,),) = (page['history_links'],)
    rest = service.ask('GET', link['href']).json
    assert page['history'] + rest['history'] == oldest_first[::-1]
    assert 'history_links' not in rest
    path = f'/v1/leases/{lease_id}/history?sort=name:asc'
    refused = world.ask(service.application, 'GET', path, None, OURS, 400)
    assert 'sort' in refused.json['error_message']


def test_a_failure_is_told_with_its_reason(service: Service) -> None:
    Fickle.trouble[THING] = [exceptions.Permanent('The image is gone.')]
    lease_id = service.create().json['lease']['id']
    service.wait(lease_id, 'ERROR')
    failed = next(e for e in service.history(lease_id)['history'] if e['result'] == 'failed')
    assert failed['action'] == 'event.start_lease'
    assert 'The image is gone.' in failed['reason']
    (changed,) = failed['changes']['reservations'].values()
    assert changed['status'] == ['pending', 'error']


@pytest.mark.parametrize(
    'query', ['?limit=0', '?marker=-1', '?marker=x', '?colour=red', '?fields=id']
)
def test_history_with_a_wrong_query_is_refused(service: Service, query: str) -> None:
    lease_id = service.create(reservations=[]).json['lease']['id']
    answer = service.ask('GET', f'/v1/leases/{lease_id}/history{query}')
    assert answer.status_code == 400
    assert answer.json['field'] == query[1:].partition('=')[0]


def test_it_is_gone_with_the_lease(service: Service) -> None:
    lease_id = service.create(reservations=[], start_date='2098-01-01 10:00').json['lease']['id']
    path = f'/v1/leases/{lease_id}/history'
    assert service.ask('GET', path, headers=THEIRS).status_code == 404
    service.ask('DELETE', f'/v1/leases/{lease_id}')
    assert service.ask('GET', path).status_code == 200
    unseen = service.ask('GET', path, headers=THEIRS)
    # What is still to be done for it, as giving back the trust, keeps it.
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    while not store.purge(service.database, later):
        service.finished.get(timeout=30)
    gone = service.ask('GET', path)
    assert gone.status_code == unseen.status_code == 404
    assert gone.json == unseen.json
