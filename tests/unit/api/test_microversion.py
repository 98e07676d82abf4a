# SPDX-License-Identifier: Apache-2.0

import pytest
import webob

from climate_core import exceptions
from climate_core.api import errors, microversion


def request(value: str) -> webob.Request:
    return webob.Request.blank('/v1/leases', headers={'OpenStack-API-Version': value})


@pytest.mark.parametrize(
    'value',
    ['', 'reservation 1.0', 'reservation latest', 'compute 2.99', 'compute 2.1, reservation 1.0'],
)
def test_fine(value: str) -> None:
    microversion.check(request(value))


def test_not_sent() -> None:
    microversion.check(webob.Request.blank('/v1/leases'))


def test_not_there() -> None:
    with pytest.raises(errors.NotAcceptable, match=r'1\.1'):
        microversion.check(request('reservation 1.1'))


@pytest.mark.parametrize('value', ['reservation', 'reservation abc', 'compute 2.1,reservation 1'])
def test_no_version(value: str) -> None:
    with pytest.raises(exceptions.BadRequest):
        microversion.check(request(value))


def test_answers_say_it() -> None:
    response = webob.Response()
    response.vary = ('Origin',)
    microversion.mark(response)
    assert response.headers['OpenStack-API-Version'] == 'reservation 1.0'
    assert response.vary == ('Origin', 'OpenStack-API-Version')
