# SPDX-License-Identifier: Apache-2.0
"""One id through the logs, the history and the calls to Nova."""

import json
import logging
from typing import Any

import pytest
import webob

from climate_core.db import listing
from climate_core.db.engine import Database
from climate_core.lease.history import HistoryEntry
from climate_core.operations.create import LeaseCreator
from climate_core.operations.draft import Draft
from tests.functional.api import world
from tests.support.fakes.log_lines import Lines, lines

__all__ = ('lines',)

PATH = '/v1/leases'
NOVAS = 'req-11111111-1111-4111-8111-111111111111'
BODY = {'name': 'n', 'start_date': '2098-01-01 10:00', 'end_date': '2099-01-01 10:00'}


def post(application: Any, body: Any = BODY, request_id: str | None = NOVAS) -> webob.Response:
    headers = {'X-OpenStack-Request-ID': request_id} if request_id else {}
    return world.ask(application, 'POST', PATH, body, headers)


def test_the_api_logs_both_ids(application: Any, lines: Lines) -> None:
    response = post(application)
    assert response.status_code == 201
    [line] = lines.of('climate_core.api.app')
    assert line['message'].startswith('POST /v1/leases: 201, ')
    assert line['context']['global_request_id'] == NOVAS
    assert line['context']['request_id'] == response.headers['x-openstack-request-id'] != NOVAS
    assert line['context']['user'] == 'user'


def test_a_public_request_has_nothing_of_the_one_before(application: Any, lines: Lines) -> None:
    post(application)
    response = world.ask(application, 'GET', '/')
    *_, line = lines.of('climate_core.api.app')
    assert 'GET /: 300, ' in line['message']
    assert line['context']['request_id'] == response.headers['x-openstack-request-id']
    assert line['context']['global_request_id'] is None
    assert line['context']['user'] is None


def test_a_path_that_cannot_be_read_is_logged_as_it_came(application: Any, lines: Lines) -> None:
    request = webob.Request.blank('/')
    request.environ['PATH_INFO'] = '/v1/leases/\xff\n'
    response = request.get_response(application)
    assert (response.status_code, response.json['error_name']) == (400, 'request.invalid')
    [line] = lines.of('climate_core.api.app')
    assert line['message'].startswith('GET /v1/leases/%FF%0A: 400, ')


def test_no_token_is_logged(application: Any, lines: Lines) -> None:
    world.ask(application, 'GET', PATH, headers={'X-Auth-Token': 'a-secret-token'})
    assert lines.of('climate_core.api.app')
    assert 'a-secret-token' not in json.dumps(lines.written)


def _history(database: Database, lease_id: str) -> list[HistoryEntry]:
    return [entry for _, entry in database.read(listing.read_history_page, lease_id)[0]]


@pytest.mark.parametrize('given', [NOVAS, None])
def test_the_history_has_the_id_of_whom_it_was_made_for(
    application: Any, database: Database, given: str | None
) -> None:
    response = post(application, request_id=given)
    lease_id = response.json['lease']['id']
    [made] = _history(database, lease_id)
    own = response.headers['x-openstack-request-id']
    assert made.request_id == (given or own)


def test_the_manager_logs_under_the_ids_of_the_api(
    application: Any, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger('climate_core.operations.create')
    build = LeaseCreator.read_lease

    def loud(*args: Any) -> Draft:
        log.info('making a lease')
        return build(*args)

    monkeypatch.setattr(LeaseCreator, 'read_lease', loud)
    response = post(application)
    [line] = lines.of('climate_core.operations.create')
    assert line['context']['global_request_id'] == NOVAS
    assert line['context']['request_id'] == response.headers['x-openstack-request-id']
