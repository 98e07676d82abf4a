# SPDX-License-Identifier: Apache-2.0
"""Feeds of leases for calendars, through the API: who may read one, for how long, and what."""

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
import webob
from oslo_config import cfg

from climate_core import exceptions
from climate_core.api.handlers import feeds as handler
from climate_core.db import feeds, tables
from climate_core.db import trusts as db_trusts
from climate_core.db.engine import Database
from climate_core.lease.events import end
from tests.functional.api import world
from tests.support import calendars
from tests.support.world import Trusts

OURS = {'X-Project-Id': 'ours', 'X-User-Id': 'we', 'X-Roles': 'member,reader'}
OTHER = {**OURS, 'X-User-Id': 'another of us'}
NEW = {**OURS, 'X-Project-Id': 'new'}
THEIRS = {'X-Project-Id': 'theirs', 'X-User-Id': 'they', 'X-Roles': 'member,reader'}
ADMIN = {'X-Project-Id': 'operators', 'X-User-Id': 'admin', 'X-Roles': 'admin,member,reader'}


@pytest.fixture
def trusts(monkeypatch: pytest.MonkeyPatch) -> Trusts:
    """Return the trusts that the manager of :func:`application` makes."""
    made = Trusts()
    monkeypatch.setattr(world, 'Trusts', lambda: made)
    return made


@pytest.fixture
def application(conf: cfg.ConfigOpts, database: Database, trusts: Trusts) -> Iterator[Any]:
    """Return an API with a lease of ours and one of theirs; it renders every feed anew."""
    conf.set_override('feed_seconds', 0, group='api')
    with world.running(conf, database) as made:
        for who, name in ((OURS, 'our lease'), (THEIRS, 'what only they know')):
            thing = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
            body = {
                'name': name,
                'start_date': '+1d',
                'duration': '2h',
                'reservations': [thing],
            }
            world.ask(made, 'POST', '/v1/leases', body, who, 201)
        yield made


def create(application: Any, who: dict[str, str] = OURS, name: str = 'phone') -> dict[str, Any]:
    made = world.ask(application, 'POST', '/v1/feeds', {'name': name}, who, 201)
    return dict(made.json['feed'])


def read(application: Any, token: str, status: int = 200, **headers: str) -> webob.Response:
    """Read a feed without any token of Keystone."""
    found = world.ask(application, 'GET', f'/v1/leases.ics?token={token}', None, headers, status)
    if status == 200:
        calendars.read(found.body)
    return found


def listed(application: Any, who: dict[str, str] = OURS) -> list[dict[str, Any]]:
    return list(world.ask(application, 'GET', '/v1/feeds', None, who, 200).json['feeds'])


def test_feed_has_the_leases_of_the_project_and_no_others(application: Any) -> None:
    feed = create(application)
    assert feed['url'] == f'http://localhost/v1/leases.ics?token={feed["token"]}'
    found = read(application, feed['token'])
    assert found.content_type == 'text/calendar'
    calendar = calendars.read(found.body)
    assert str(calendar['x-wr-calname']) == 'phone'
    (event,) = calendar.walk('VEVENT')
    (lease,) = world.ask(application, 'GET', '/v1/leases', None, OURS).json['leases']
    assert str(event['summary']) == 'our lease'
    assert str(event['uid']) == f'{lease["id"]}@climate'
    assert f'{event.decoded("dtstart"):%Y-%m-%dT%H:%M:%S}' == lease['start_date'][:19]
    assert f'{event.decoded("dtend"):%Y-%m-%dT%H:%M:%S}' == lease['end_date'][:19]
    assert event.decoded('dtstart').utcoffset().total_seconds() == 0
    assert str(event['status']) == 'CONFIRMED'
    assert '1 x test:thing' in str(event['description'])
    assert 'what only they know' not in found.text
    assert lease['reservations'][0]['resource_id'] not in found.text


def test_feed_does_not_count_what_was_given_back(application: Any) -> None:
    token = create(application)['token']
    (lease,) = world.ask(application, 'GET', '/v1/leases', None, OURS).json['leases']
    path = f'/v1/leases/{lease["id"]}/reservations'
    more = {'resource_type': 'test:thing', 'resource_id': str(uuid.uuid4())}
    made = world.ask(application, 'POST', path, more, OURS, 201).json['reservation']
    for count in (2, 1):
        (event,) = calendars.read(read(application, token).body).walk('VEVENT')
        assert f'{count} x test:thing' in str(event['description'])
        world.ask(application, 'DELETE', f'{path}/{made["id"]}', None, OURS, None)


def test_feed_calls_off_a_lease_that_was_cancelled_before_its_start(application: Any) -> None:
    token = create(application)['token']
    (lease,) = world.ask(application, 'GET', '/v1/leases', None, OURS).json['leases']
    world.ask(application, 'POST', f'/v1/leases/{lease["id"]}/end', None, OURS, 202)
    assert statuses(application, token) == ['CANCELLED']


@pytest.mark.parametrize(
    ('status', 'reason', 'shown'),
    [
        ('TERMINATED', end.CANCELLED, 'CANCELLED'),
        ('TERMINATED', end.NEVER_ENOUGH, 'CANCELLED'),
        ('TERMINATED', None, 'CONFIRMED'),
        ('TERMINATED', end.NOT_STARTED, 'CONFIRMED'),
        ('TIMEDOUT', 'The hosts were not empty in time.', 'CANCELLED'),
        ('WAITING', 'No host is free.', 'TENTATIVE'),
        ('ERROR', 'No valid host was found.', 'CONFIRMED'),
    ],
)
def test_feed_says_of_each_lease_whether_it_takes_place(
    application: Any, database: Database, status: str, reason: str | None, shown: str
) -> None:
    token = create(application)['token']
    with database.writer() as session:
        session.execute(sa.update(tables.LEASES).values(status=status, status_reason=reason))
    assert statuses(application, token) == [shown]


def test_feed_of_a_project_without_leases_is_a_calendar(application: Any) -> None:
    token = create(application, NEW)['token']
    assert calendars.read(read(application, token).body).walk('VEVENT') == []
    tag = read(application, token).headers['ETag']
    read(application, token, 304, **{'If-None-Match': tag})


def statuses(application: Any, token: str) -> list[str]:
    calendar = calendars.read(read(application, token).body)
    return [str(event['status']) for event in calendar.walk('VEVENT')]


def test_feed_says_how_often_it_may_be_read(application: Any) -> None:
    lines = read(application, create(application)['token']).text.splitlines()
    assert 'X-PUBLISHED-TTL:PT15M' in lines
    assert 'REFRESH-INTERVAL;VALUE=DURATION:PT15M' in lines


def test_feed_that_is_known_is_not_sent_again(application: Any) -> None:
    token = create(application)['token']
    tag = read(application, token).headers['ETag']
    assert read(application, token, 304, **{'If-None-Match': tag}).body == b''
    (lease,) = world.ask(application, 'GET', '/v1/leases', None, OURS).json['leases']
    world.ask(application, 'PUT', f'/v1/leases/{lease["id"]}', {'name': 'new'}, OURS, 200)
    assert 'new' in read(application, token, **{'If-None-Match': tag}).text


def test_feed_of_any_size_costs_the_same_statements(
    application: Any, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = create(application)['token']
    counts = []
    with world.selects(database) as statements:
        for number in range(2):
            for each in range(number * 5):
                body = {'name': f'lease{each}', 'start_date': '+1d', 'duration': '1h'}
                world.ask(application, 'POST', '/v1/leases', body, OURS, 201)
            statements.clear()
            read(application, token)
            counts.append(len(statements))
    assert counts == [3, 3]
    monkeypatch.setattr(handler, 'MAX_LEASES', 2)
    calendar = calendars.read(read(application, token).body)
    assert len(calendar.walk('VEVENT')) == 2


@pytest.mark.parametrize(
    'change',
    [
        lambda token: '',
        lambda token: token[:-1],
        lambda token: token[:-1] + ('A' if token[-1] != 'A' else 'B'),
        lambda token: uuid.uuid4().hex + token[32:],
        lambda token: token[:32] + 43 * '0',
        lambda token: '%ff' + token,
        lambda token: token + '%00',
    ],
)
def test_other_token_opens_nothing(application: Any, change: Any) -> None:
    token = create(application)['token']
    refused = read(application, change(token), 404).json
    assert (refused['error_name'], refused['field']) == ('feed.not_found', 'token')
    assert 'lease' not in refused['error_message']


def test_token_is_kept_by_nobody(
    application: Any, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    feed = create(application)
    read(application, feed['token'])
    read(application, feed['token'][:-1], 404)
    secret = feed['token'][32:]
    with database.reader() as session:
        (row,) = session.execute(sa.select(tables.FEEDS)).all()
    assert not any(secret in str(value) for value in row)
    assert secret[:-1] not in caplog.text
    assert secret not in repr(feeds.parse_token(feed['token']))
    (shown,) = listed(application)
    assert shown == {name: feed[name] for name in shown}
    assert not {'token', 'url'} & shown.keys()


def test_feed_is_read_no_more_when_it_is_deleted(application: Any, trusts: Trusts) -> None:
    first, second = create(application), create(application, name='desk')
    assert [each['name'] for each in listed(application)] == ['phone', 'desk']
    before = set(trusts.present)
    world.ask(application, 'DELETE', f'/v1/feeds/{first["id"]}', None, OURS, 204)
    read(application, first['token'], 404)
    read(application, second['token'])
    assert len(before - trusts.present) == 1
    assert [each['name'] for each in listed(application)] == ['desk']
    world.ask(application, 'DELETE', f'/v1/feeds/{first["id"]}', None, OURS, 404)


def test_trust_that_stays_does_not_keep_a_feed_open(
    application: Any, database: Database, trusts: Trusts
) -> None:
    feed = create(application)
    (trust_id,) = database.read(db_trusts.find_used) - database.read(_of_leases)
    trusts.trouble = [exceptions.Transient('Keystone does not answer.')]
    world.ask(application, 'DELETE', f'/v1/feeds/{feed["id"]}', None, OURS, 204)
    read(application, feed['token'], 404)
    # It is one that nothing has any more, so that it is found.
    assert trust_id in trusts.present
    assert trust_id not in database.read(db_trusts.find_used)


def _of_leases(session: Any) -> set[str]:
    return set(session.scalars(sa.select(tables.LEASES.c.trust_id)))


def test_feed_is_only_for_its_user_to_see_and_to_delete(application: Any) -> None:
    feed = create(application)
    for who in (OTHER, THEIRS):
        assert listed(application, who) == []
        world.ask(application, 'DELETE', f'/v1/feeds/{feed["id"]}', None, who, 404)
    read(application, feed['token'])
    world.ask(application, 'DELETE', f'/v1/feeds/{feed["id"]}', None, ADMIN, 204)
    read(application, feed['token'], 404)


def test_feed_ends_with_the_rights_of_its_user(application: Any, trusts: Trusts) -> None:
    token = create(application)['token']
    (trust_id,) = trusts.delegated.keys() - {f'trust{number}' for number in (1, 2)}
    # Nothing but that is delegated.
    assert trusts.delegated[trust_id] == ['reader']
    trusts.trouble = [exceptions.Transient('Keystone does not answer.')]
    assert read(application, token, 503).json['error_name'] == 'service_unavailable'
    trusts.delegated[trust_id] = ['other']
    assert 'not see the leases' in read(application, token, 403).json['error_message']
    trusts.delegated[trust_id] = ['reader']
    read(application, token)
    trusts.present.discard(trust_id)
    assert read(application, token, 403).json['error_name'] == 'forbidden'


def test_feed_that_cannot_be_written_leaves_no_trust(
    application: Any, conf: cfg.ConfigOpts, trusts: Trusts
) -> None:
    conf.set_override('feeds_per_user', 1, group='limits')
    create(application)
    before, made = set(trusts.present), trusts.made
    refused = world.ask(application, 'POST', '/v1/feeds', {'name': 'x'}, OURS, 403)
    assert refused.json['error_name'] == 'feed.too_many'
    assert (trusts.present, trusts.made) == (before, made)
    create(application, OTHER)


@pytest.mark.parametrize(
    ('body', 'field'),
    [
        ({}, 'name'),
        ({'name': ''}, 'name'),
        ({'name': ' '}, 'name'),
        ({'name': 'a\x00'}, 'name'),
        ({'name': '\ud800'}, 'name'),
        ({'name': 'x', 'token': 'y'}, 'token'),
    ],
)
def test_bad_feed_names_the_field(application: Any, body: dict[str, Any], field: str) -> None:
    refused = world.ask(application, 'POST', '/v1/feeds', body, OURS, 400)
    assert refused.json['field'] == field


def test_token_of_no_project_makes_no_feed(application: Any) -> None:
    system = {'X-User-Id': 'we', 'X-Roles': 'reader', 'X-Project-Id': ''}
    world.ask(application, 'POST', '/v1/feeds', {'name': 'x'}, system, 403)
