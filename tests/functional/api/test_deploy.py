# SPDX-License-Identifier: Apache-2.0
"""The pipeline and what stands at its two ends."""

import pathlib
import uuid
from typing import Any

import pytest
import webob
from oslo_config import cfg

from climate_core.api import app
from climate_core.api.schemas import leases
from climate_core.db.engine import Database
from climate_core.plugins import loading
from tests.functional.api import world


def post(application: Any, body: Any) -> webob.Response:
    return world.ask(application, 'POST', '/v1/leases', body)


def test_write_without_a_manager_is_unavailable(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path, ('DEFAULT', 'rpc_response_timeout', '1'))
    application = app.load_application(conf, plugins={})
    response = post(application, b'{"name": "n", "end_date": "2099-01-01 10:00"}')
    assert response.status_code == 503
    assert response.json['error_name'] == 'service_unavailable'
    assert response.json['error_message'].startswith('No climate-manager answers, ')


def test_reads_need_no_manager(conf: cfg.ConfigOpts) -> None:
    application = app.load_application(conf, plugins={})
    assert world.ask(application, 'GET', '/v1/leases').json == {'leases': []}


def test_without_tables_it_is_the_operators_fault(
    tmp_path: pathlib.Path, conf: cfg.ConfigOpts
) -> None:
    conf.set_override('connection', f'sqlite:///{tmp_path}/empty.sqlite', group='database')
    application = app.load_application(conf, plugins={})
    response = world.ask(application, 'GET', '/v1/leases', status=500)
    assert 'SELECT' not in response.text


@pytest.mark.parametrize('size', [1536 * 1024 + 1, 10_000_000])
def test_body_that_is_too_large_is_refused(application: Any, size: int) -> None:
    response = post(application, b' ' * size)
    assert response.status_code == 413
    assert response.json['error_name'] == 'request.too_large'
    assert response.headers['x-openstack-request-id']


def test_large_bodies_of_unknown_length(application: Any) -> None:
    request = webob.Request.blank('/v1/leases', method='POST', body=b' ' * 1_600_000)
    request.content_type = 'application/json'
    request.content_length = None
    request.environ['wsgi.input_terminated'] = True
    assert request.get_response(application).status_code == 413


def test_chunked_body_that_the_server_does_not_pass_on_needs_a_length(application: Any) -> None:
    body = {'name': 'n', 'start_date': '2098-01-01 10:00', 'end_date': '2099-01-01 10:00'}
    made = post(application, body).json['lease']['id']
    for path in ('/v1/leases', f'/v1/leases/{made}/end'):
        request = webob.Request.blank(path, method='POST', body=b'{}')
        request.content_length = None
        request.headers['Transfer-Encoding'] = 'chunked'
        answer = request.get_response(application)
        assert (answer.status_code, answer.json['error_name']) == (411, 'request.length_required')
    lease = world.ask(application, 'GET', f'/v1/leases/{made}').json['lease']
    assert lease['status'] == 'PENDING'


def test_chunked_body_that_the_server_passes_on_is_read(application: Any) -> None:
    body = b'{"name": "n", "start_date": "2098-01-01 10:00", "end_date": "2099-01-01 10:00"}'
    request = webob.Request.blank('/v1/leases', method='POST', body=body)
    request.content_length = None
    request.headers['Transfer-Encoding'] = 'chunked'
    request.environ['wsgi.input_terminated'] = True
    assert request.get_response(application).status_code == 201


def test_body_that_is_nested_too_deep_is_refused(application: Any) -> None:
    assert post(application, b'[' * 100_000).status_code == 400


def test_browsers_of_other_origins(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path, ('cors', 'allowed_origin', 'http://dashboard'))
    application = app.load_application(conf, plugins={})
    for path in ('/v1/leases', '/v1/nope'):
        response = world.ask(application, 'GET', path, headers={'Origin': 'http://dashboard'})
        assert response.headers['Access-Control-Allow-Origin'] == 'http://dashboard'
    asked = {'Origin': 'http://dashboard', 'Access-Control-Request-Method': 'PUT'}
    response = world.ask(application, 'OPTIONS', '/v1/leases/x', headers=asked, status=200)
    assert 'PUT' in response.headers['Access-Control-Allow-Methods']


def test_links_follow_the_proxy(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path, ('oslo_middleware', 'enable_proxy_headers_parsing', 'true'))
    application = app.load_application(conf, plugins={})
    headers = {'X-Forwarded-Host': 'r', 'X-Forwarded-Proto': 'https'}
    answer = world.ask(application, 'GET', '/', headers=headers)
    link = answer.json['versions'][0]['links'][0]['href']
    assert link == 'https://r/v1'


def test_two_applications_share_nothing(tmp_path: pathlib.Path) -> None:
    one, two = tmp_path / 'one', tmp_path / 'two'
    one.mkdir()
    two.mkdir()
    first, second = world.configure(one), world.configure(two)
    body = b'{"name": "n", "start_date": "2098-01-01 10:00", "end_date": "2099-01-01 10:00"}'
    with (
        world.running(first, Database(first)) as left,
        world.running(second, Database(second)) as right,
    ):
        assert post(left, body).status_code == 201
        assert world.ask(right, 'GET', '/v1/leases').json == {'leases': []}


def test_plugins_that_cannot_be_used_keep_it_from_starting(tmp_path: pathlib.Path) -> None:
    conf = world.configure(tmp_path, ('manager', 'plugins', 'nope'))
    with pytest.raises(loading.PluginError, match='nope'):
        app.load_application(conf)


def test_module_for_wsgi_servers(tmp_path: pathlib.Path) -> None:
    code = (
        'import webob; from climate_core.wsgi.api import application; '
        "print(webob.Request.blank('/v1/leases').get_response(application).text)"
    )
    done = world.run(tmp_path, code)
    logged, answered = done.stdout.strip().splitlines()
    assert 'GET /v1/leases: 200' in logged, done.stderr
    assert answered == '{"leases": []}'


def test_a_report_of_the_api(tmp_path: pathlib.Path) -> None:
    code = 'import os, signal; import climate_core.wsgi.api; os.kill(os.getpid(), signal.SIGUSR2)'
    done = world.run(tmp_path, code)
    assert done.returncode == 0
    assert 'Guru Meditation' in done.stderr
    assert 'product = Climate' in done.stderr


def test_a_lease_of_as_much_as_the_schema_allows_is_not_too_large(application: Any) -> None:
    properties = leases.CREATE['properties']
    thing = {'resource_type': 'test:thing', 'colour': 'green', 'size': 9, 'note': 'x' * 250}
    values = {
        'name': 'n',
        'duration': '1h',
        'reservations': [
            thing | {'resource_id': str(uuid.UUID(int=number))}
            for number in range(properties['reservations']['maxItems'])
        ],
    }
    response = post(application, values)
    # It was read: there is no such parameter.
    assert (response.status_code, response.json['field']) == (400, 'reservations[0].note')
