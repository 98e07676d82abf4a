# SPDX-License-Identifier: Apache-2.0
"""A request of the API costs the same number of SQL statements, however many leases there are."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from climate_core.db import listing, store
from climate_core.db.engine import Database
from climate_core.lease.history import Cause
from tests.functional.api import world
from tests.functional.api.written import NOW, lease

#: lease, reservations, events: a page of leases, or one that is locked.
READ = 3


@pytest.fixture
def statements(database: Database) -> Iterator[list[str]]:
    with world.selects(database) as seen:
        yield seen


@pytest.fixture
def count(application: Any, statements: list[str]) -> Callable[..., int]:
    def counted(method: str, path: str, body: Any = None, status: int = 200) -> int:
        statements.clear()
        world.ask(application, method, path, body, status=status)
        return len(statements)

    return counted


@pytest.mark.parametrize('number', [1, 50])
def test_reads_cost_the_same_for_any_number_of_leases(
    database: Database, count: Callable[..., int], number: int
) -> None:
    for each in range(number):
        database.write(store.create, lease(each), NOW, Cause('lease.create'))
    assert len(database.read(listing.read_page, listing.LeaseQuery())[0]) == number
    one = f'/v1/leases/{lease(0).id}'
    assert count('GET', '/v1/leases') == READ
    assert count('GET', '/v1/leases?sort=name&status=PENDING&from=now&resource_id=0-1') == READ
    assert count('GET', one) == 1
    # What is not answered is not read.
    assert count('GET', '/v1/leases?fields=id,name') == count('GET', f'{one}?fields=id') == 1
    assert count('GET', '/v1/leases?fields=events') == count('GET', f'{one}?fields=events') == 2
    # The lease, which says who may see it, the sizes of the entries of its history, and these.
    assert count('GET', f'{one}/history') == 3


def test_page_costs_one_more_statement_for_its_marker(
    database: Database, count: Callable[..., int]
) -> None:
    for each in range(5):
        database.write(store.create, lease(each), NOW, Cause('lease.create'))
    assert count('GET', '/v1/leases?limit=2') == READ
    # One for the marker, so that the page begins behind it without reading what is before it.
    for marker in range(4):
        assert count('GET', f'/v1/leases?limit=2&marker={lease(marker).id}') == 1 + READ
    assert count('GET', f'/v1/leases?marker={lease(4).id}') == 2
    assert count('GET', f'/v1/leases?marker={lease(5).id}', status=400) == 1


@pytest.mark.parametrize('number', [1, 50])
def test_writes_cost_the_same_for_any_number_of_reservations(
    database: Database, count: Callable[..., int], number: int
) -> None:
    body = {
        'name': 'many',
        'end_date': '2099-01-01 10:00',
        'start_date': '2098-12-01 10:00',
        'id': lease(0).id,
        'reservations': [
            {'resource_type': 'test:thing', 'resource_id': lease(each).id}
            for each in range(1, number + 1)
        ],
    }
    path = f'/v1/leases/{lease(0).id}'
    # One look at whether the id is taken; the manager shows what it makes.
    assert count('POST', '/v1/leases', body, 201) == 1
    assert count('POST', '/v1/leases', body, 201) == 1 + 1
    assert count('PUT', path, {'name': 'other'}) == 2 * 1
    thing = {'resource_type': 'test:thing', 'resource_id': lease(99).id}
    assert count('POST', f'{path}/reservations', thing, 201) == 2 * 1
    assert count('DELETE', path, status=204) == 1


def test_refused_request_takes_no_statement(count: Callable[..., int]) -> None:
    assert count('POST', '/v1/leases', {'name': 1}, 400) == 0
    assert count('GET', '/v1/plugins') == 0
    assert count('GET', '/', status=300) == 0
    assert count('GET', '/v1/leases?status=red', status=400) == 0
    assert count('GET', '/v1/openapi.json') == 0
