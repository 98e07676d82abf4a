# SPDX-License-Identifier: Apache-2.0
"""One answer has about 8 MiB at most, whatever the members of a project have stored."""

import datetime
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from pymysql.connections import Connection

from climate_core.db import sql, store, tables
from climate_core.db.engine import Database
from climate_core.lease import model
from climate_core.lease.history import HistoryEntry
from tests.functional.api import world
from tests.security.cost import bounded
from tests.support import leases as samples

#: What a page may cost in this process; MariaDB's and PostgreSQL's own is not counted.
CPU_SECONDS, MEBIBYTES = 3, 100
MIB = 1024 * 1024
COUNT = 40
#: One long text; one that has twice as many characters as JSON in JSON, which MariaDB cuts.
TEXTS = {'plain': 'x' * (900 * 1024), 'quotes': '"' * (450 * 1024)}


class Stage(NamedTuple):
    application: Any
    database: Database

    def create(self, count: int, each: int = 1, params: Any = None, **fields: Any) -> list[str]:
        """Write leases with equal reservations into the database."""
        now = datetime.datetime.now(datetime.UTC)
        start, ids = now + datetime.timedelta(days=1), []
        for number in range(count):
            lease_id = f'00000000-0000-4000-8000-{number:012}'
            held = [
                model.new_reservation(lease_id, 'test:thing', f'{number}-{place}', {}, now)
                for place in range(each)
            ]
            new = samples.lease(*held, lease_id=lease_id, start=start, now=now, **fields)
            self.database.write(store.insert_leases, [new])
            self.database.write(store.insert_reservations, held)
            ids.append(lease_id)
        if params is not None:
            changed = sa.update(tables.RESERVATIONS).values(params=params)
            with self.database.writer() as session:
                session.execute(changed)
        return ids

    def get(self, path: str) -> Any:
        return world.ask(self.application, 'GET', path, status=200)


@pytest.fixture(params=['mariadb', 'postgresql'])
def stage(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, new_database: Callable[[str], str]
) -> Iterator[Stage]:
    yield from open_stage(tmp_path, new_database(request.param))


def open_stage(tmp_path: pathlib.Path, url: str) -> Iterator[Stage]:
    conf = world.configure(tmp_path, ('database', 'connection', url))
    database = Database(conf)
    with world.running(conf, database) as application:
        yield Stage(application, database)
    database.dispose()


def read_pages(stage: Stage, path: str, name: str) -> list[list[Any]]:
    """Read all pages; each one costs no more than a page may."""
    pages = []
    while path:
        with bounded(CPU_SECONDS, MEBIBYTES):
            response = stage.get(path)
            assert len(response.body) < sql.MAX_PAGE_BYTES + 4 * MIB
        body = response.json
        pages.append([each['id'] for each in body[name]])
        path = body[f'{name}_links'][0]['href'] if f'{name}_links' in body else ''
        del body, response
    return pages


@pytest.mark.parametrize('text', TEXTS)
def test_page_of_leases_ends_before_too_many_bytes(stage: Stage, text: str) -> None:
    ids = stage.create(COUNT, params={'text': TEXTS[text]})
    pages = read_pages(stage, '/v1/leases?sort=id', 'leases')
    assert len(pages) > 2
    assert all(pages)
    assert [each for page in pages for each in page] == ids


def test_page_of_leases_ends_before_too_many_reservations(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they store is two bytes each, what is shown of them is not."""
    monkeypatch.setattr(sql, 'MAX_PAGE_BYTES', 2 * MIB)
    ids = stage.create(30, each=200)
    pages = read_pages(stage, '/v1/leases?sort=id', 'leases')
    assert len(pages) > 1
    assert [each for page in pages for each in page] == ids


def test_connection_that_dies_in_a_page_is_an_outage(
    tmp_path: pathlib.Path, new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, 'MAX_PAGE_BYTES', 64 * MIB)
    real, killed = Connection._read_packet, []

    def read_packet(connection: Any, *args: Any) -> Any:
        packet = real(connection, *args)
        if not killed and len(packet.get_all_data()) > MIB // 2:
            # The server waits until more of these are read than the sockets buffer.
            killed.append(connection.thread_id())
            with stage.database.engine.connect() as other:
                other.execute(sa.text(f'KILL {killed[0]}'))
        return packet

    for stage in open_stage(tmp_path, new_database('mariadb')):
        stage.create(COUNT, params={'text': TEXTS['plain']})
        monkeypatch.setattr(Connection, '_read_packet', read_packet)
        told = world.ask(stage.application, 'GET', '/v1/leases', status=503).json
        assert told['error_message'] == 'The database does not answer. Try again.'
        assert len(killed) == 1
        assert len(stage.get('/v1/leases?fields=id').json['leases']) == COUNT


def test_page_has_one_lease_at_least(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, 'MAX_PAGE_BYTES', 0)
    ids = stage.create(3)
    assert read_pages(stage, '/v1/leases?sort=id&limit=2', 'leases') == [[each] for each in ids]


def test_leases_without_their_parts_are_small(stage: Stage) -> None:
    ids = stage.create(COUNT, params={'text': TEXTS['plain']})
    with world.selects(stage.database) as statements:
        assert read_pages(stage, '/v1/leases?sort=id&fields=id', 'leases') == [ids]
    assert not [each for each in statements if 'params' in each]


@pytest.mark.parametrize('sort', ['time:asc', 'time:desc'])
def test_page_of_a_history_ends_before_too_many_bytes(stage: Stage, sort: str) -> None:
    (lease_id,) = stage.create(1)
    now = datetime.datetime.now(datetime.UTC)
    changes = {'reservations': {'a': {'params': [{'text': TEXTS['plain']}, {}]}}}
    entry = HistoryEntry(lease_id, now, 'lease.update', 'done', None, 'user', None, changes)
    for _ in range(COUNT):
        stage.database.write(store.add_history, entry)
    pages = read_pages(stage, f'/v1/leases/{lease_id}/history?sort={sort}', 'history')
    assert len(pages) > 2
    numbers = [each for page in pages for each in page]
    assert numbers == sorted(set(numbers), reverse=sort == 'time:desc')
    assert len(numbers) == COUNT


def test_feed_reads_nothing_of_reservations_but_their_number(stage: Stage) -> None:
    stage.create(COUNT, each=2, params={'text': TEXTS['plain']})
    made = world.ask(stage.application, 'POST', '/v1/feeds', {'name': 'phone'}, status=201)
    path = f'/v1/leases.ics?token={made.json["feed"]["token"]}'
    with bounded(CPU_SECONDS, 30), world.selects(stage.database) as statements:
        body = stage.get(path).text
    assert not [each for each in statements if 'params' in each]
    assert body.count('2 x test:thing') == COUNT


def test_page_costs_few_statements(stage: Stage) -> None:
    stage.create(3, params={'text': json.dumps(TEXTS)[:1000]})
    is_packed = stage.database.engine.dialect.driver == 'pymysql'
    for path, most in (
        ('/v1/leases', 2 if is_packed else 3),
        ('/v1/leases/00000000-0000-4000-8000-000000000000/history', 2),
    ):
        with world.selects(stage.database) as statements:
            stage.get(path)
        assert len(statements) == most
