# SPDX-License-Identifier: Apache-2.0
"""Dates from the first to the last one that there is, through the API, on each database."""

import datetime
import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st

from climate_common import limits
from climate_core.db import tables
from climate_core.db.engine import Database
from climate_hosts.plugins.host import HostPlugin
from tests.functional.api import world
from tests.support import calendars
from tests.support.databases import *  # noqa: F403
from tests.support.fakes import cloud_server

ADMIN = {'X-Roles': 'admin,member,reader'}
FAR = '9999-12-31 23:59:59'
FEW = hypothesis.settings(
    max_examples=30, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
#: All that there are, and those that requests may have; the near ones are accepted more often.
TIMES = st.one_of(
    st.datetimes(datetime.datetime(2026, 1, 1), datetime.datetime(2200, 1, 1)),
    st.datetimes(datetime.datetime(2026, 1, 1), limits.LAST_DATE.replace(tzinfo=None)),
    st.datetimes(),
)
DATES = st.one_of(TIMES.map(str), st.sampled_from(['now', '+1h', '+24855d', '9000-01-01 00:00']))
SECONDS = st.one_of(
    st.integers(1, 10**6),
    st.integers(1, int(limits.LONGEST_DURATION.total_seconds()) + 1),
    st.integers(1, 10**12),
)
PERIOD = st.one_of(
    st.fixed_dictionaries({'end_date': DATES}, optional={'start_date': DATES}),
    st.fixed_dictionaries({'duration': SECONDS}, optional={'start_date': DATES}),
)
MORE = st.fixed_dictionaries(
    {},
    optional={
        'before_end_date': DATES,
        'before_start': st.lists(st.integers(1, limits.LONGEST_START_NOTICE), max_size=3),
        'events': st.lists(
            st.fixed_dictionaries({'event_type': st.just('note'), 'time': DATES}), max_size=2
        ),
    },
)
CHANGE = st.fixed_dictionaries(
    {},
    optional={
        'start_date': DATES,
        'end_date': DATES,
        'before_end_date': DATES,
        'before_start': st.lists(st.integers(1, limits.LONGEST_START_NOTICE), max_size=3),
    },
)


@pytest.fixture
def any_application(
    tmp_path: pathlib.Path, database_url: str, hosts_cloud: cloud_server.Server
) -> Iterator[Any]:
    """Return an API on each database in turn; no host is in a pool."""
    conf = world.configure_hosts(tmp_path, hosts_cloud.url, database_url)
    database = Database(conf)
    with world.running(conf, database, HostPlugin) as made:
        yield made
    database.dispose()


def test_any_dates_are_stored_or_rejected(any_application: Any) -> None:
    @FEW
    @hypothesis.given(
        PERIOD, MORE, st.sampled_from(['immediate', 'retry']), st.lists(CHANGE, max_size=4)
    )
    def check(
        period: dict[str, Any], more: dict[str, Any], kind: str, changes: list[dict[str, Any]]
    ) -> None:
        thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
        host = {'resource_type': 'physical:host', 'min': 1}
        wanted = [host if kind == 'retry' else thing]
        body = {'name': 'any', 'kind': kind, **period, **more, 'reservations': wanted}
        found = world.ask(any_application, 'POST', '/v1/leases', body)
        assert found.status_code in (201, 400), found.text
        if found.status_code == 400:
            return
        path = f'/v1/leases/{found.json["lease"]["id"]}'
        for change in changes:
            found = world.ask(any_application, 'PUT', path, change)
            assert found.status_code in (200, 400, 409), found.text
        world.ask(any_application, 'GET', path, status=200)
        world.ask(any_application, 'DELETE', path, status=204)

    check()
    world.ask(any_application, 'GET', '/v1/leases', status=200)


def test_longest_dates_are_shown_by_every_call(any_application: Any) -> None:
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    last = f'{limits.LAST_DATE:%Y-%m-%d}'
    body = {
        'name': 'long',
        'start_date': '+1d',
        'end_date': f'{last} 00:00',
        'before_end_date': '+2d',
        'events': [{'event_type': 'note', 'time': f'{last} 00:00'}],
        'reservations': [thing],
    }
    made = world.ask(any_application, 'POST', '/v1/leases', body, status=201).json['lease']
    path = f'/v1/leases/{made["id"]}'
    shorter = world.ask(any_application, 'PUT', path, {'duration': '2h'}, status=200)
    assert shorter.json['lease']['before_end_date'] == made['start_date']
    again = {'end_date': body['end_date'], 'events': body['events']}
    longer = world.ask(any_application, 'PUT', path, again, status=200).json['lease']
    assert longer['end_date'] == f'{last}T00:00:00.000000'
    read_all(any_application, path)


def test_stored_dates_that_are_too_far_are_shown_and_changed(
    any_application: Any, database_url: str
) -> None:
    thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    body = {'name': 'old', 'start_date': '+1d', 'duration': '2h', 'reservations': [thing]}
    made = world.ask(any_application, 'POST', '/v1/leases', body, status=201).json['lease']
    last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
    engine = sa.create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(sa.update(tables.LEASES).values(end_date=last))
        is_end = tables.EVENTS.c.event_type == 'end_lease'
        connection.execute(sa.update(tables.EVENTS).values(time=last, next_at=last).where(is_end))
    engine.dispose()
    path = f'/v1/leases/{made["id"]}'
    read_all(any_application, path)
    for change in ({'name': 'new'}, {'start_date': '+2d'}, {'duration': '2h'}):
        world.ask(any_application, 'PUT', path, change, status=200)
    read_all(any_application, path)


def read_all(application: Any, path: str) -> None:
    """Read a lease by every call that shows times, with the first and the last dates."""
    first, last = '1000-01-01T00:00', '9000-01-01T00:00'
    for query in (
        'leases',
        f'leases?from={last}',
        f'leases?until={last}',
        f'leases?from={first}&until={last}',
        'leases?until=%2B24855d',
        f'usage?planned=true&start=8999-01-01T00:00&end={last}',
        f'usage?start={first}&end={last}',
        'usage?planned=true',
        f'calendar?from=8999-12-01T00:00&to={last}',
        f'calendar?from={first}',
        f'calendar?hosts=true&from=8999-12-01T00:00&to={last}',
        'calendar?free_until=true',
    ):
        found = world.ask(application, 'GET', f'/v1/{query}', headers=ADMIN)
        assert found.status_code == 200, (query, found.text)
        if 'leases?until' in query:
            assert found.json['leases'], query
    for more in ('', '/history'):
        world.ask(application, 'GET', f'{path}{more}', headers=ADMIN, status=200)
    feed = world.ask(application, 'POST', '/v1/feeds', {'name': 'feed'}, status=201).json['feed']
    found = world.ask(application, 'GET', f'/v1/leases.ics?token={feed["token"]}', status=200)
    calendars.read(found.body)
    world.ask(application, 'DELETE', f'/v1/feeds/{feed["id"]}', status=204)


@pytest.mark.parametrize('date', [FAR, '9000-01-01 00:00:01', '0999-12-31 23:59', f'{FAR}-05:00'])
def test_date_that_is_too_far_names_the_field_and_what_is_accepted(
    application: Any, date: str
) -> None:
    long = {'name': 'far', 'duration': '1h'}
    for field, body in (
        ('start_date', {**long, 'start_date': date}),
        ('end_date', {'name': 'far', 'end_date': date}),
        ('before_end_date', {**long, 'before_end_date': date}),
        ('events[0].time', {**long, 'events': [{'event_type': 'note', 'time': date}]}),
    ):
        refused = world.ask(application, 'POST', '/v1/leases', body, status=400).json
        assert (refused['field'], refused['error_name']) == (field, 'lease.invalid_date')
        assert refused['error_message'] == (
            f"'{date}' is too early or too late: it must be a date from 1000-01-01 to 9000-01-01."
        )


@pytest.mark.parametrize('kind', ['scheduled', 'retry'])
def test_duration_that_is_too_long_says_what_is_accepted(any_application: Any, kind: str) -> None:
    wanted = [{'resource_type': 'physical:host', 'min': 1}]
    body = {'name': 'long', 'kind': kind, 'duration': '36500d', 'reservations': wanted}
    refused = world.ask(any_application, 'POST', '/v1/leases', body, status=400).json
    assert refused['field'] == 'duration'
    assert 'from 1 second to 24855 days' in refused['error_message']
