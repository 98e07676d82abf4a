# SPDX-License-Identifier: Apache-2.0
"""Filters of the operator in the pipeline: the example of the documents, and CADF audit."""

import json
import pathlib
import uuid
import warnings
from typing import Any

import pytest
import webob

from climate_core.api import app
from climate_core.cmd import manage
from tests.functional.api import world

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = ROOT / 'doc' / 'source' / 'admin' / 'examples'
RATE_LIMIT = 'climate_rate_limit:filter_factory requests=2 seconds=3600'
AUDIT = (
    f'keystonemiddleware.audit:filter_factory audit_map_file={ROOT}/etc/climate/api_audit_map.conf'
)


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def load(directory: pathlib.Path, *lines: str, **audit: str) -> Any:
    options = [('api', 'middleware', each) for each in lines]
    options += [('audit_middleware_notifications', *each) for each in audit.items()]
    conf = world.configure(directory, *options)
    return app.load_application(conf, plugins={})


def ask(application: Any, project_id: str, status: int, **headers: str) -> webob.Response:
    mine = {'X-Project-Id': project_id, **headers}
    return world.ask(application, 'GET', '/v1/leases', None, mine, status)


def test_rate_limit_of_the_example_counts_by_project(tmp_path: pathlib.Path) -> None:
    application = load(tmp_path, RATE_LIMIT)
    for _ in range(2):
        ask(application, 'one', 200)
    rejected = ask(application, 'one', 429)
    assert rejected.json['error_name'] == 'request.too_many'
    assert int(rejected.headers['Retry-After']) > 3000
    ask(application, 'two', 200)
    ask(application, 'one', 200, **{'X-Service-Roles': 'service'})
    for path in ('/', '/healthcheck'):
        assert world.ask(application, 'GET', path).status_code < 400


def test_audit_filter_notifies_who_did_what(
    tmp_path: pathlib.Path, notified: list[tuple[str, Any]]
) -> None:
    application = load(tmp_path, AUDIT, driver='test')
    who = {'X-Project-Id': 'ours', 'X-User-Id': 'alice'}
    missing = '/v1/leases/6f1f6a3e-6a3b-4a53-9a39-6a6b1f0b3f7d'
    world.ask(application, 'GET', missing, None, who, 404)
    assert [kind for kind, _ in notified] == ['audit.http.request', 'audit.http.response']
    event = notified[-1][1]
    assert (event['initiator']['id'], event['initiator']['project_id']) == ('alice', 'ours')
    assert (event['action'], event['outcome']) == ('read', 'failure')
    assert (event['requestPath'], event['reason']['reasonCode']) == (missing, '404')


def test_warnings_of_the_audit_filter_are_documented(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caller = {'X-User-Id': uuid.uuid4().hex}
    endpoint = {'region': 'RegionOne', 'publicURL': 'https://reservation.example/v1'}
    # As keystonemiddleware has it: without the id of the endpoint.
    catalog = [{'type': 'reservation', 'name': 'climate', 'endpoints': [endpoint]}]
    project_id = uuid.uuid4().hex
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        application = load(tmp_path, AUDIT, driver='test')
        ask(application, project_id, 200, **caller, **{'X-Service-Catalog': json.dumps(catalog)})
        ask(application, project_id, 200, **caller)
    said = {each.getMessage() for each in caplog.records if each.levelname == 'WARNING'}
    said |= {str(each.message) for each in caught if 'pycadf' in each.filename}
    page = (EXAMPLES.parent / 'limits.rst').read_text()
    titles = {line.strip('`') for line in page.splitlines() if line.startswith('``')}
    used = {title for title in titles for message in said if message.startswith(title)}
    assert len(used) == 3
    assert {message for message in said if not message.startswith(tuple(used))} == set()


@pytest.mark.parametrize(
    ('method', 'path', 'action', 'target'),
    [
        ('GET', '/v1/leases', 'read/list', 'service/reservation/leases'),
        ('POST', '/v1/leases', 'create', 'service/reservation/leases'),
        ('PUT', '/v1/leases/x', 'update', 'service/reservation/leases/lease'),
        ('POST', '/v1/leases/x/end', 'stop', 'service/reservation/leases/lease'),
        ('DELETE', '/v1/leases/x', 'delete', 'service/reservation/leases/lease'),
    ],
)
def test_audit_map_names_actions_and_targets(
    tmp_path: pathlib.Path,
    notified: list[tuple[str, Any]],
    method: str,
    path: str,
    action: str,
    target: str,
) -> None:
    application = load(tmp_path, AUDIT, driver='test')
    catalog = '[{"type": "reservation", "name": "climate", "endpoints": [{"id": "e"}]}]'
    world.ask(application, method, path, None, {'X-Service-Catalog': catalog})
    event = notified[-1][1]
    assert (event['action'], event['target']['typeURI']) == (action, target)


@pytest.fixture
def notified(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Return the types and payloads of what the filter notifies."""
    found: list[tuple[str, Any]] = []

    def info(_notifier: Any, _context: Any, event_type: str, payload: Any) -> None:
        found.append((event_type, payload))

    monkeypatch.setattr('oslo_messaging.Notifier.info', info)
    return found


def test_first_filter_is_the_outermost(
    tmp_path: pathlib.Path, notified: list[tuple[str, Any]]
) -> None:
    application = load(tmp_path, AUDIT, RATE_LIMIT.replace('=2', '=0'), driver='test')
    ask(application, 'one', 429)
    assert notified[-1][1]['reason']['reasonCode'] == '429'


@pytest.mark.parametrize(
    ('line', 'why'),
    [
        ('no_such_module:factory', 'ModuleNotFoundError'),
        ('climate_rate_limit:nothing', 'AttributeError'),
        ('climate_rate_limit:filter_factory requests=many', 'ValueError'),
        ('climate_rate_limit:filter_factory colour=red', 'TypeError'),
        ('climate_rate_limit:filter_factory requests', 'ValueError'),
    ],
)
def test_filter_that_cannot_be_used_keeps_the_api_from_starting(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    with pytest.raises(app.MiddlewareError, match=why) as caught:
        load(tmp_path, line)
    assert f'"{line}"' in str(caught.value)
    words = ['--config-file', str(tmp_path / 'climate.conf'), 'serve', '--noauth', '--port', '0']
    assert manage.main(words) == 1
    assert '[api] middleware' in capsys.readouterr().err
