# SPDX-License-Identifier: Apache-2.0
"""Heat shows the owner of a stack what its resources raise: no URL of the lease service."""

import pytest
import requests
import requests_mock
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1 import noauth

from heat_ext.service import client

INSIDE = 'http://lease.internal:1234/v1'


@pytest.mark.parametrize(
    ('failure', 'kind'),
    [
        (requests.exceptions.ConnectionError, ks_exceptions.ConnectFailure),
        (requests.exceptions.ConnectTimeout, ks_exceptions.ConnectTimeout),
    ],
)
def test_lost_connection_shows_no_url(
    failure: type[Exception], kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    session = client.Session(auth=noauth.NoAuth(endpoint=INSIDE))
    with requests_mock.Mocker() as mocked:
        mocked.get(requests_mock.ANY, exc=failure(f'no way to {INSIDE}'))
        with pytest.raises(kind) as caught:
            session.get(f'{INSIDE}/leases')
    assert str(caught.value) == 'The lease service does not answer. Try again later.'
    assert 'lease.internal' in caplog.text
