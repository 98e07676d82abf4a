# SPDX-License-Identifier: Apache-2.0
"""What is read of the reservations of all projects needs little memory, whatever they store."""

import dataclasses
import datetime
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from climate_common.resource_types import SERVER, VOLUME
from climate_core.db import forecast_reads, held_resources, leases, tables
from climate_core.db import store as db_store
from climate_core.db.engine import Database
from climate_core.lease import model, states
from tests.security.cost import bounded
from tests.support import leases as samples
from tests.support.world import World

COUNT = 120
#: JSON writes each of its characters with 12 bytes: 0.4 MB in one reservation.
METADATA = {f'{number:255}': '\U0001f600' * 255 for number in range(127)}
#: By the type: what is stored of what the request says, and what the forecast reads of it.
SPECIFICATIONS = {
    SERVER: (
        {
            'name': 'web',
            'flavorRef': '1',
            'imageRef': 'cirros',
            'availability_zone': 'nova',
            'block_device_mapping_v2': [{'uuid': 'volume'}],
            'metadata': METADATA,
        },
        {
            'flavorRef': '1',
            'imageRef': 'cirros',
            'availability_zone': 'nova',
            'block_device_mapping_v2': [],
        },
    ),
    VOLUME: (
        {'name': 'data', 'size': 3, 'volume_type': 'fast', 'metadata': METADATA},
        {'size': 3, 'volume_type': 'fast'},
    ),
}
KEYS = {SERVER: 'server', VOLUME: 'volume'}
NEEDED = {model.HOLDS: {'vcpus': 1}, model.NEEDS: None}


@pytest.fixture(params=['mariadb', 'postgresql'])
def database(
    request: pytest.FixtureRequest, new_database: Callable[[str], str]
) -> Iterator[Database]:
    world = World(new_database(request.param))
    yield world.database
    world.database.dispose()


def store(
    database: Database,
    resource_type: str,
    params: dict[str, object],
    kind: str = states.LeaseKind.SCHEDULED,
    status: str = states.LeaseStatus.PENDING,
) -> list[str]:
    """Write leases, each with one reservation whose resource is to be made; return their ids."""
    now = datetime.datetime.now(datetime.UTC)
    start = now + datetime.timedelta(days=1)
    held, made = [], []
    for number in range(COUNT):
        lease_id = f'00000000-0000-4000-8000-{number:012}'
        new = f'{model.UNMADE}{number}'
        held.append(model.new_reservation(lease_id, resource_type, new, params, now))
        lease = samples.lease(lease_id=lease_id, start=start, now=now, kind=kind, status=status)
        made.append(lease)
    database.write(db_store.insert_leases, made)
    database.write(db_store.insert_reservations, held)
    return [lease.id for lease in made]


@pytest.mark.parametrize('is_old', [False, True], ids=['new', 'old'])
@pytest.mark.parametrize('resource_type', [SERVER, VOLUME])
def test_forecasts_read_what_they_need(
    database: Database, resource_type: str, is_old: bool
) -> None:
    said, read = SPECIFICATIONS[resource_type]
    key = KEYS[resource_type]
    sealed = {'_sealed': 'x', key: said}
    store(database, resource_type, {**NEEDED, 'on_end': 'delete', **sealed})
    database.read(forecast_reads.read_planned, 'test:none')
    cpu_seconds, mebibytes = 0.1, 4.0
    if is_old:
        # Rows of releases before have all in the column that they know.
        with database.writer() as session:
            session.execute(sa.update(tables.RESERVATIONS).values(short_params=None))
        read, cpu_seconds, mebibytes = said, 5.0, 250.0
    with bounded(cpu_seconds, mebibytes):
        wanted = database.read(forecast_reads.read_planned, resource_type)
        ends = database.read(forecast_reads.read_ends, resource_type)
    assert len(wanted) == len(ends) == COUNT
    assert {each.on_end for each in ends} == {'delete'}
    needed = {**NEEDED, 'on_end': 'delete', key: read} | ({'_sealed': 'x'} if is_old else {})
    assert all(one.params == needed for (one,) in wanted.values())


def test_changed_reservation_is_read_as_it_is(database: Database) -> None:
    said, read = SPECIFICATIONS[VOLUME]
    store(database, VOLUME, {**NEEDED, 'volume': said})
    (before, *_) = database.read(held_resources.read_held_page, VOLUME, '', 1)
    after = dataclasses.replace(before, params={**NEEDED, 'volume': {**said, 'size': 5}})
    database.write(db_store.update_reservations, [(before, after)])
    wanted = database.read(forecast_reads.read_planned, VOLUME)
    (one,) = wanted[before.lease_id]
    assert one.params == {**NEEDED, 'volume': {**read, 'size': 5}}
    plain = dataclasses.replace(after, params={'on_end': 'delete'})
    database.write(db_store.update_reservations, [(after, plain)])
    ((one,),) = [
        held
        for lease_id, held in database.read(forecast_reads.read_planned, VOLUME).items()
        if lease_id == before.lease_id
    ]
    assert one.params == {'on_end': 'delete'}


def test_queue_reads_what_it_needs(database: Database) -> None:
    said, read = SPECIFICATIONS[SERVER]
    params = {**NEEDED, model.GROUP: 'web', '_sealed': 'x', 'server': said}
    waits = states.LeaseKind.RETRY, states.LeaseStatus.WAITING
    ids = store(database, SERVER, params, *waits)
    database.read(leases.read_waiting, ['none'])
    with bounded(cpu_seconds=0.2, mebibytes=10):
        waiting = database.read(leases.read_waiting, ids)
    assert {each.id for each in waiting} == set(ids)
    assert all(
        one.params == {**NEEDED, model.GROUP: 'web', 'server': read}
        for each in waiting
        for one in each.reservations
    )


def test_pass_through_the_queue_reads_a_bounded_number_of_bytes(database: Database) -> None:
    """Nothing is left out of the filters of hosts, which have 0.4 MB here."""
    params = {'min': 1, 'max': 1, 'resource_properties': 'x' * 400_000}
    waits = states.LeaseKind.RETRY, states.LeaseStatus.WAITING
    ids = store(database, 'test:host', params, *waits)
    database.read(leases.read_waiting, ['none'])
    with bounded(cpu_seconds=2, mebibytes=40):
        waiting = database.read(leases.read_waiting, ids[::-1])
    count = leases.MAX_QUEUE_BYTES // 400_000 + 1
    assert {each.id for each in waiting} == set(ids[-count:])


@pytest.mark.parametrize(
    'read_page', [held_resources.read_held_page, held_resources.read_reported_page]
)
def test_pages_of_the_reconciliation_end_before_too_many_bytes(
    database: Database, monkeypatch: pytest.MonkeyPatch, read_page: Callable[..., Any]
) -> None:
    monkeypatch.setattr(held_resources, 'MAX_PAGE_BYTES', 4 * 1024 * 1024)
    store(database, SERVER, {'server': SPECIFICATIONS[SERVER][0], model.REPORTED: {}})
    pages, after = [], ''
    database.read(read_page, 'test:none')
    with bounded(cpu_seconds=5, mebibytes=25):
        while page := database.read(read_page, SERVER, after, 10_000):
            pages.append([each.id for each in page])
            after = page[-1].id
    assert len(pages) > 2
    assert len({each for ids in pages for each in ids}) == sum(map(len, pages)) == COUNT
