# SPDX-License-Identifier: Apache-2.0
"""Leases of a list are what they are alone, whatever texts and times they have."""

import datetime

import pytest
import sqlalchemy as sa

from climate_core.db import leases, listing, tables
from climate_core.lease import views
from tests.support.world import World

#: What JSON, or a driver that reads texts in Python, could take for something else.
TEXTS = [
    '',
    'null',
    '[1]',
    '"',
    "'",
    '\\',
    '\\u0041',
    'a\nb\tc\x1f',
    'ä☃🎉',
    '%(x)s %s {0}',
    '</a>',
]
WHOLE = datetime.datetime(2098, 1, 1, 10, tzinfo=datetime.UTC)
TIMES = [None, WHOLE, WHOLE.replace(microsecond=1), WHOLE.replace(microsecond=999999)]


def write(world: World, table: sa.Table, **values: object) -> None:
    with world.database.writer() as session:
        session.execute(sa.update(table).values(values))


@pytest.mark.parametrize('time', TIMES)
def test_listed_leases_are_what_they_are_alone(any_world: World, time: datetime.datetime) -> None:
    for number in range(3):
        name, end = f'{number}', f'2098-01-01 1{number + 1}:00'
        any_world.create(name, f'other{number}', start='2098-01-01 10:00', end=end)
    for text in TEXTS:
        params = {'on_end': text, text: [text, None, True, 1.5, {}], '_secret': text}
        write(any_world, tables.RESERVATIONS, params=params, status_reason=text, woken_at=time)
        write(any_world, tables.EVENTS, status_reason=text, next_at=time, updated_at=time)
        webhook = {'url': text, 'secret': text, 'events': [text]}
        values = {'name': text, 'status_reason': text, 'webhook': webhook, 'degraded': not text}
        write(any_world, tables.LEASES, **values, updated_at=time, retries_left=None)
        found, more = any_world.database.read(listing.read_page, listing.LeaseQuery())
        assert not more
        assert found == [any_world.database.read(leases.get, each.id) for each in found]
        assert {each.name for each in found} == {text}
        assert {e.params['on_end'] for each in found for e in each.reservations} == {text}
        assert {e.next_at for each in found for e in each.events} == {time}
        assert {type(each.degraded) for each in found} == {bool}
        shown, _ = any_world.database.read(listing.read_summaries, listing.LeaseQuery())
        assert [*map(views.lease_view, shown)] == [*map(views.lease_view, found)]
