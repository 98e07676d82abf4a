# SPDX-License-Identifier: Apache-2.0
"""The references in the documents name each call, each notification and each field."""

import importlib
import pathlib
import runpy
from collections.abc import Callable
from typing import Any

import docutils.core
import pytest

from climate_core.api import routes
from climate_core.lease import states
from climate_core.notifications import schemas
from tests.unit import payloads

VERIFY = pathlib.Path(__file__).parents[2] / 'doc' / 'source' / 'reference' / 'verify.py'
EXTENSIONS = pathlib.Path(__file__).parents[2] / 'doc' / 'ext'


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.syspath_prepend(EXTENSIONS)
    return importlib.import_module


@pytest.fixture
def rst(extension: Callable[[str], Any]) -> Callable[[str], str]:
    return lambda name: str(extension(name).rst())


@pytest.mark.parametrize('name', ['api_reference', 'notification_reference'])
def test_reference_is_restructuredtext(rst: Callable[[str], str], name: str) -> None:
    page = 'Reference\n=========\n\n' + rst(name)
    settings = {'halt_level': 2, 'report_level': 2}
    assert docutils.core.publish_string(page, settings_overrides=settings, writer_name='html')


def test_every_call_and_its_fields(rst: Callable[[str], str]) -> None:
    text = '\n' + rst('api_reference')
    for path, methods in routes.ROUTES.items():
        for method, route in methods.items():
            assert f'\n{method} {path}\n---' in text
            assert route.handler.__doc__
    for field in ('name', 'events[].event_type', 'lease.reservations[].resource_id', 'marker'):
        assert f'* - ``{field}``' in text
    assert ':Errors: 400, 401, 403, 404, 406, 409, 411, 413, 415, 503' in text


def test_every_notification_and_its_fields(rst: Callable[[str], str]) -> None:
    text = rst('notification_reference')
    for kind in schemas.list_types():
        assert f'``{kind.event_type}``' in text
    for field in ('starts_in', 'reservations[].resource_id', 'resources[].used.hours'):
        assert f'``{field}``' in text


def test_every_notification_has_an_example_that_fits_its_schema(
    extension: Callable[[str], Any],
) -> None:
    examples = extension('notification_examples').build()
    listed = {kind.event_type.replace('<name>', 'half_time') for kind in schemas.list_types()}
    assert examples.keys() == listed
    for event_type, payload in examples.items():
        assert list(payloads.problems(event_type, payload)) == []


def test_webhook_of_the_notifications_page_is_verified_as_the_page_shows(
    extension: Callable[[str], Any],
) -> None:
    examples = extension('notification_examples')
    body, headers = examples.build_webhook_request()
    verify = runpy.run_path(str(VERIFY))['verify']
    now = examples.START.timestamp()
    assert verify(headers, body, examples.SECRET, now)
    assert not verify(headers, body + b' ', examples.SECRET, now)
    for name in ('webhook-id', 'webhook-timestamp', 'webhook-signature'):
        assert not verify({**headers, name: 'é'}, body, examples.SECRET, now)
        assert not verify(
            {key: value for key, value in headers.items() if key != name},
            body,
            examples.SECRET,
            now,
        )


def test_picture_of_states_has_every_move(extension: Callable[[str], Any]) -> None:
    graph = extension('states').draw(states.LEASE, 'lease')
    assert graph.startswith('digraph lease {\n')
    for move in states.LEASE:
        assert f'"{move.source}" -> "{move.target}" [label="{move.cause}"];' in graph
