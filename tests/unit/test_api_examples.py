# SPDX-License-Identifier: Apache-2.0
"""Every call of the API has an example that its schemas accept."""

import importlib
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
import webob

from climate_core.api import errors, request, routes, validation
from climate_core.api.schemas import common

ROOT = pathlib.Path(__file__).parents[2]
CALLS = {
    (method, path): route
    for path, methods in routes.ROUTES.items()
    for method, route in methods.items()
}
#: Codes of errors of calls that do not exist.
NO_CALL = {'method.not_allowed'}


@pytest.fixture(scope='module')
def examples() -> Mapping[str, Mapping[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / 'doc' / 'ext')
        return dict(importlib.import_module('api_examples').load())


@pytest.fixture(scope='module')
def calls(examples: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [example for name, example in examples.items() if not name.startswith('error.')]


@pytest.fixture(scope='module')
def failures(examples: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [example for name, example in examples.items() if name.startswith('error.')]


def check(value: Any, schema: Mapping[str, Any]) -> None:
    jsonschema.Draft202012Validator(schema).validate(value)


def test_every_call_has_an_example_and_no_other_call(calls: list[Mapping[str, Any]]) -> None:
    assert {(each['method'], each['path']) for each in calls} == CALLS.keys()


def test_requests_fit_their_schemas(calls: list[Mapping[str, Any]]) -> None:
    for each in calls:
        route = CALLS[each['method'], each['path']]
        assert (each['request_body'] is None) == (route.request_schema is None)
        if route.request_schema is not None:
            validation.check(each['request_body'], route.request_schema)
        assert each['request_headers'].keys() <= route.headers.keys()
        assert each['token'] == (route.policy is not None)
        query = urllib.parse.quote(each['url'], safe='/?&=')
        request.read_query(webob.Request.blank(query), route.query)


def test_responses_fit_their_schemas(calls: list[Mapping[str, Any]]) -> None:
    for each in calls:
        route = CALLS[each['method'], each['path']]
        schema = {route.status: route.response_schema, **route.also}[each['status']]
        assert (each['response_body'] is None) == (schema is None)
        if schema is not None:
            check(each['response_body'], schema)


def test_errors_fit_their_schema_and_have_a_listed_code(
    failures: list[Mapping[str, Any]],
) -> None:
    listed = {each[:2] for each in errors.codes()}
    assert {400, 401, 403, 404, 409, 413} <= {each['status'] for each in failures}
    for each in failures:
        body = each['response_body']
        assert (each['status'], body['error_name']) in listed
        assert body['error_code'] == each['status']
        check(body, common.ERROR)
        assert (each['method'], each['path']) in CALLS or body['error_name'] in NO_CALL


def test_no_example_has_a_secret_or_an_address_of_the_cloud() -> None:
    for path in (ROOT / 'doc' / 'api_examples').glob('*.json'):
        text = path.read_text(encoding='utf-8')
        assert '127.0.0.1' not in text, path
        assert 'gAAAA' not in text, path
