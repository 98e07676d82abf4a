# SPDX-License-Identifier: Apache-2.0
"""What is read of the reservations of all projects needs little memory, whatever they store."""

import datetime
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from climate_common.resource_types import SERVER, VOLUME
from climate_core.db import leases, reservations, tables
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


def store(database: Database, resource_type: str, params: dict[str, object]) -> None:
    """Write scheduled leases, each with one reservation whose resource is to be made."""
    now = datetime.datetime.now(datetime.UTC)
    start, kind = now + datetime.timedelta(days=1), states.LeaseKind.SCHEDULED
    held, made = [], []
    for number in range(COUNT):
        lease_id = f'00000000-0000-4000-8000-{number:012}'
        new = f'{model.UNMADE}{number}'
        held.append(model.new_reservation(lease_id, resource_type, new, {}, now))
        made.append(samples.lease(lease_id=lease_id, start=start, now=now, kind=kind))
    database.write(leases.insert, made)
    database.write(reservations.insert, held)
    with database.writer() as session:
        session.execute(sa.update(tables.RESERVATIONS).values(params=params))


@pytest.mark.parametrize('resource_type', [SERVER, VOLUME])
def test_metadata_costs_forecasts_no_memory(database: Database, resource_type: str) -> None:
    said, read = SPECIFICATIONS[resource_type]
    key = KEYS[resource_type]
    store(database, resource_type, {**NEEDED, 'on_end': 'delete', '_sealed': 'x', key: said})
    database.read(reservations.to_be_made, 'test:none')
    with bounded(cpu_seconds=5, mebibytes=25):
        wanted = database.read(reservations.to_be_made, resource_type)
        ends = database.read(reservations.ends, resource_type)
    assert len(wanted) == len(ends) == COUNT
    assert {each.on_end for each in ends} == {'delete'}
    assert all(one.params == {**NEEDED, key: read} for (one,) in wanted.values())


def test_pages_of_the_reconciliation_end_before_too_many_bytes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, 'MOST_BYTES', 4 * 1024 * 1024)
    store(database, SERVER, {'server': SPECIFICATIONS[SERVER][0]})
    pages, after = [], ''
    database.read(reservations.held, 'test:none')
    with bounded(cpu_seconds=5, mebibytes=25):
        while page := database.read(reservations.held, SERVER, after, 10_000):
            pages.append([each.id for each in page])
            after = page[-1].id
    assert len(pages) > 2
    assert len({each for ids in pages for each in ids}) == sum(map(len, pages)) == COUNT
