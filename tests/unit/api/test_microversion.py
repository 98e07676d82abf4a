# SPDX-License-Identifier: Apache-2.0

import pytest
import webob

from climate_core import exceptions
from climate_core.api import errors
from climate_core.api.request import check_microversion, set_microversion


def request(value: str) -> webob.Request:
    return webob.Request.blank('/v1/leases', headers={'OpenStack-API-Version': value})


@pytest.mark.parametrize(
    'value',
    ['', 'reservation 1.0', 'reservation latest', 'compute 2.99', 'compute 2.1, reservation 1.0'],
)
def test_request_that_version_1_0_answers_is_accepted(value: str) -> None:
    check_microversion(request(value))


def test_request_without_a_microversion_is_accepted() -> None:
    check_microversion(webob.Request.blank('/v1/leases'))


def test_microversion_that_is_not_served_is_not_acceptable() -> None:
    with pytest.raises(errors.NotAcceptable, match=r'1\.1'):
        check_microversion(request('reservation 1.1'))


@pytest.mark.parametrize('value', ['reservation', 'reservation abc', 'compute 2.1,reservation 1'])
def test_malformed_microversion_is_a_bad_request(value: str) -> None:
    with pytest.raises(exceptions.BadRequest):
        check_microversion(request(value))


def test_response_has_the_header_of_the_version() -> None:
    response = webob.Response()
    response.vary = ('Origin',)
    set_microversion(response)
    assert response.headers['OpenStack-API-Version'] == 'reservation 1.0'
    assert response.vary == ('Origin', 'OpenStack-API-Version')
