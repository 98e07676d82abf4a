# SPDX-License-Identifier: Apache-2.0
"""Pages are as long as the operator allows, and their links lead through all of a list."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from climate_core.db import store
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from tests.functional.api import world, written


@pytest.fixture
def application(tmp_path: pathlib.Path) -> Iterator[Any]:
    conf = world.configure(
        tmp_path,
        ('api', 'max_limit', '2'),
        ('oslo_middleware', 'enable_proxy_headers_parsing', 'true'),
    )
    database = Database(conf)
    for number in range(5):
        lease = written.lease(number)
        database.write(store.create, lease, written.NOW, Cause('lease.create'))
    with world.running(conf, database) as made:
        yield made


def get(application: Any, path: str, **headers: str) -> dict[str, Any]:
    return dict(world.ask(application, 'GET', path, headers=headers, status=200).json)


@pytest.mark.parametrize(
    'query', ['limit=5', 'limit=2&sort=name:desc', 'limit=9&fields=id,name&status=PENDING']
)
def test_a_page_is_not_longer_than_the_operator_allows(application: Any, query: str) -> None:
    path, lengths, ids = f'/v1/leases?{query}', [], set()
    while path:
        page = get(application, path)
        lengths.append(len(page['leases']))
        ids |= {lease['id'] for lease in page['leases']}
        path = page['leases_links'][0]['href'] if 'leases_links' in page else ''
    assert lengths == [2, 2, 1]
    assert len(ids) == 5


@pytest.mark.parametrize('query', ['', 'sort=name:desc', 'fields=id,name&status=pending'])
def test_list_without_limit_and_marker_is_whole(application: Any, query: str) -> None:
    whole = get(application, f'/v1/leases?{query}')
    assert whole.keys() == {'leases'}
    paged, path = [], f'/v1/leases?limit=2&{query}'
    while path:
        page = get(application, path)
        paged += page['leases']
        path = page['leases_links'][0]['href'] if 'leases_links' in page else ''
    assert whole['leases'] == paged
    assert len(paged) == 5


def test_whole_list_has_an_end(application: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('climate_core.api.request._MAX_PAGES', 2)
    first = get(application, '/v1/leases')
    assert len(first['leases']) == 4
    (link,) = first['leases_links']
    assert len(get(application, link['href'])['leases']) == 1


def test_links_follow_the_proxy(application: Any) -> None:
    headers = {
        'X-Forwarded-Proto': 'https',
        'X-Forwarded-Host': 'cloud',
        'X-Forwarded-Prefix': '/reservation',
    }
    page = get(application, '/v1/leases?name=lease0&limit=1', **headers)
    assert 'leases_links' not in page
    page = get(application, '/v1/leases.json?limit=1', **headers)
    begin, _, marker = page['leases_links'][0]['href'].rpartition('=')
    assert begin == 'https://cloud/reservation/v1/leases.json?limit=1&marker'
    assert marker == page['leases'][0]['id']
