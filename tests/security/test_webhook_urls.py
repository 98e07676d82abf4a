# SPDX-License-Identifier: Apache-2.0
"""The path and the query of a webhook's URL may open its receiver: only its owner reads them."""

import datetime
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from climate_core.db import listing, outbox
from climate_core.db.engine import Database
from tests.functional.api import world

OWNER = {'X-Project-Id': 'ours', 'X-User-Id': 'we', 'X-Roles': 'member,reader'}
READER = {**OWNER, 'X-User-Id': 'another of us', 'X-Roles': 'reader'}
MEMBER = {**OWNER, 'X-User-Id': 'another of us'}
ADMIN = {'X-Project-Id': 'operators', 'X-User-Id': 'admin', 'X-Roles': 'admin,member,reader'}
HOOK = {'url': 'https://example.org:8443/token-in-path?key=in-query', 'secret': 'x' * 16}
ORIGIN = 'https://example.org:8443'


def _ask(*args: Any) -> Any:
    return world.ask(*args).json


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    made = Database(world.configure(tmp_path))
    yield made
    made.dispose()


@pytest.fixture
def application(tmp_path: pathlib.Path, database: Database) -> Iterator[Any]:
    conf: cfg.ConfigOpts = world.configure(tmp_path)
    with world.running(conf, database) as made:
        yield made


@pytest.fixture
def path(application: Any) -> str:
    """Return the path of a lease whose webhook was set twice."""
    body = {'name': 'a', 'start_date': '+1d', 'duration': '2h', 'webhook': HOOK}
    lease = _ask(application, 'POST', '/v1/leases', body, OWNER, 201)['lease']
    assert lease['webhook']['url'] == HOOK['url']
    path = f'/v1/leases/{lease["id"]}'
    changed = {**HOOK, 'url': f'{HOOK["url"]}-changed'}
    lease = _ask(application, 'PUT', path, {'webhook': changed}, OWNER, 200)['lease']
    assert lease['webhook']['url'] == changed['url']
    return path


@pytest.mark.parametrize('who', [READER, MEMBER, ADMIN])
def test_webhook_url_is_whole_for_its_owner_only(
    application: Any, path: str, who: dict[str, str]
) -> None:
    for where in (path, '/v1/leases', '/v1/leases?fields=webhook', f'{path}/history'):
        shown = json.dumps(_ask(application, 'GET', where, None, who, 200))
        assert f'{ORIGIN}"' in shown
        assert 'in-path' not in shown
        assert 'in-query' not in shown
    assert 'in-query-changed' in json.dumps(_ask(application, 'GET', path, None, OWNER, 200))
    listed = _ask(application, 'GET', '/v1/leases', None, OWNER, 200)
    assert 'in-query-changed' in json.dumps(listed)


def test_change_by_another_member_does_not_show_the_webhook_url(
    application: Any, path: str
) -> None:
    shown = _ask(application, 'PUT', path, {'name': 'b'}, MEMBER, 200)
    assert shown['lease']['webhook']['url'] == ORIGIN
    ended = _ask(application, 'POST', f'{path}/end', None, MEMBER, 202)
    assert ended['lease']['webhook']['url'] == ORIGIN


def test_history_stores_no_path(application: Any, path: str, database: Database) -> None:
    lease_id = path.rpartition('/')[2]
    shown = _ask(application, 'GET', f'{path}/history', None, OWNER, 200)['history']
    assert shown[0]['changes']['webhook'] == [None, ORIGIN]
    stored = json.dumps(
        [e.changes for _, e in database.read(listing.read_history_page, lease_id, None, 2)[0]]
    )
    assert ORIGIN in stored
    assert 'in-path' not in stored


def test_delivery_in_a_log_has_no_url_and_no_secret() -> None:
    now = datetime.datetime.now(datetime.UTC)
    text = repr(
        outbox.Delivery(
            1, 'l', 'p', 'example.org', 'e', 'lease.update', {}, HOOK['url'], 'x' * 16, 0, now, 'c'
        )
    )
    assert 'in-path' not in text
    assert 'x' * 16 not in text
