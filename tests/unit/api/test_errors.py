# SPDX-License-Identifier: Apache-2.0

import inspect
import logging
from typing import Any

import pytest
import webob
import webob.exc

from climate_core import exceptions
from climate_core.api import errors

OURS = [
    each
    for module in (exceptions, errors)
    for _, each in inspect.getmembers(module, inspect.isclass)
    if issubclass(each, exceptions.ClimateError)
]


def respond(raised: Any) -> webob.Response:
    def application(environ: Any, start_response: Any) -> Any:
        if isinstance(raised, BaseException) and not isinstance(raised, webob.Response):
            raise raised
        return raised(environ, start_response)

    return webob.Request.blank('/v1/leases').get_response(errors.Faults(application))


@pytest.mark.parametrize('kind', OURS, ids=lambda kind: kind.__name__)
def test_error_of_ours_is_answered_with_its_code_and_field(
    kind: type[exceptions.ClimateError],
) -> None:
    response = respond(kind('what is wrong', field='name'))
    assert response.status_code == kind.status
    assert response.json == {
        'error_code': kind.status,
        'error_message': 'what is wrong',
        'error_name': kind.code,
        'field': 'name',
    }


def test_error_without_a_field_names_none() -> None:
    assert 'field' not in respond(exceptions.LeaseNotFound()).json


def test_codes_are_known_by_one_status() -> None:
    known: dict[str, int] = {}
    for kind in OURS:
        assert known.setdefault(kind.code, kind.status) == kind.status


def test_unexpected_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = respond(RuntimeError('password is secret'))
    assert response.status_code == 500
    assert response.json['error_name'] == 'internal_error'
    assert 'secret' not in response.text
    assert 'password is secret' in caplog.text
    assert 'Traceback' in caplog.text


@pytest.mark.parametrize('status', [400, 401, 403, 404, 413, 500, 503])
def test_errors_of_the_middleware_become_ours(status: int) -> None:
    answered = webob.Response(status=status, text='<html>', content_type='text/html')
    answered.headers['WWW-Authenticate'] = 'Keystone uri="http://k"'
    response = respond(answered)
    assert response.json['error_code'] == status
    assert response.json['error_name']
    assert response.json['error_message']
    assert response.headers['WWW-Authenticate'] == 'Keystone uri="http://k"'


def test_raised_by_the_size_limit() -> None:
    response = respond(webob.exc.HTTPRequestEntityTooLarge())
    assert response.status_code == 413
    assert response.json['error_name'] == 'request.too_large'


def test_refused_method_has_the_header_allow() -> None:
    assert respond(errors.MethodNotAllowed(allow='GET')).headers['Allow'] == 'GET'


def test_response_without_an_error_passes_unchanged() -> None:
    assert respond(webob.Response('text')).text == 'text'


def test_the_table_has_every_error_once() -> None:
    codes = errors.codes()
    assert {(each.status, each.code) for each in OURS} <= {each[:2] for each in codes}
    assert len({code for _, code, _, _ in codes}) == len(codes)


@pytest.mark.parametrize('error', errors.codes(), ids=lambda error: error[1])
def test_each_error_has_a_cause_and_a_cure(error: tuple[int, str, str, str]) -> None:
    assert all(text.endswith('.') and ':param' not in text for text in error[2:])


def test_a_path_that_cannot_be_read() -> None:
    application = errors.Faults(lambda environ, start_response: pytest.fail('was asked'))
    response = webob.Request.blank('/v1/leases/%ff').get_response(application)
    assert response.status_code == 400
    assert response.json['error_name'] == 'request.invalid'
