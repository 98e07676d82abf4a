# SPDX-License-Identifier: Apache-2.0
"""Leases whose stacks are made from templates, through the API, with a fake Heat."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import webob
from oslo_config import cfg

from climate_core.db.engine import Database
from climate_core.plugins.stack import StackPlugin
from tests.functional.api import world
from tests.functional.api.gabbi_files import HERE, run_file
from tests.support.fakes import cloud_server, settings

LEASE = '6b0a3c2e-6c5e-4c2c-9c8b-3f1d6f6b7a11'
LIMIT = (512 + 1024) * 1024
FILES = sorted((HERE / 'stacks').glob('*.yaml'))


@pytest.fixture
def fake(tmp_path: pathlib.Path) -> Iterator[cloud_server.Server]:
    with cloud_server.running(tmp_path / 'journal') as server:
        alice = server.state.users['alice-id']
        token = server.state.token(alice, alice['project_id'], alice['roles'], None)
        server.state.tokens['alice-token'] = server.state.tokens[token]
        yield server


@pytest.fixture
def application(tmp_path: pathlib.Path, fake: cloud_server.Server) -> Iterator[Any]:
    options = settings.cloud_options(fake.url).items()
    conf: cfg.ConfigOpts = world.configure(tmp_path, *(('cloud', k, v) for k, v in options))
    conf.register_opts(StackPlugin.options, group=StackPlugin.resource_type)
    with world.running(conf, Database(conf), StackPlugin, with_trusts=True) as made:
        yield made


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.stem)
def test_requests_are_answered_as_the_file_says(file: pathlib.Path, application: Any) -> None:
    run_file(file, application)


def ask(
    application: Any, template: str, item: Mapping[str, Any] | None = None, **values: Any
) -> webob.Response:
    body = {
        'name': 'lease1',
        'start_date': '2099-01-01 10:00',
        'duration': '1h',
        'reservations': [
            {'resource_type': 'virtual:stack', 'name': 'web', 'template': template, **(item or {})}
        ],
        **values,
    }
    headers = {'X-Auth-Token': 'alice-token', 'X-User-Id': 'alice-id', 'X-Project-Id': 'demo-id'}
    return world.ask(application, 'POST', '/v1/leases', body, headers)


def large(size: int) -> str:
    """Return a template of this size."""
    text = 'heat_template_version: 2021-04-16\n#'
    return text + 'x' * (size - len(text))


def test_a_template_as_large_as_heat_takes_it(application: Any) -> None:
    """It is Heat's to tell."""
    response = ask(application, large(1000 * 1024))
    assert response.status_code == 201, response.text
    (reservation,) = response.json['lease']['reservations']
    assert {'name', 'hold', 'on_end', 'resource_id'} < reservation.keys()
    assert not {'template', 'parameters', 'environment', 'files'} & reservation.keys()


def test_one_that_is_too_large_for_heat(application: Any, fake: cloud_server.Server) -> None:
    response = ask(application, large(1024 * 1024))
    assert response.status_code == 400
    assert response.json['field'] == 'reservations[0].template'
    assert not fake.state.stacks
    assert not fake.state.trusts


def test_one_that_is_too_large_for_us(application: Any, fake: cloud_server.Server) -> None:
    assert ask(application, large(LIMIT)).status_code == 413
    assert not [each for each in fake.state.requests if '/heat/' in each[1]]


@pytest.mark.parametrize('levels', [150, 400, 900])
@pytest.mark.parametrize('field', ['template', 'parameters'])
def test_an_object_that_is_very_deep(
    application: Any, fake: cloud_server.Server, field: str, levels: int
) -> None:
    """Also for a lease that has a stack of this name."""
    made = ask(application, large(100), id=LEASE)
    assert made.status_code == 201
    deep = {field: {'a': json.loads('[' * levels + ']' * levels)}}
    for name, chosen in (('other', {}), ('web', {'id': LEASE})):
        response = ask(application, large(100), **chosen, item={**deep, 'name': name})
        assert response.status_code in (400, 409), response.text
    assert len(fake.state.stacks) == 1
