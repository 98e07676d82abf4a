# SPDX-License-Identifier: Apache-2.0
"""What a page shows of an error: the words of the lease service, and no URL."""

import pytest
from keystoneauth1 import exceptions as ks_exceptions

from climate_dashboard import api
from climateclient import exceptions


def test_lost_connection_shows_no_url(caplog: pytest.LogCaptureFixture) -> None:
    error = ks_exceptions.ConnectFailure('no way to http://lease.internal:1234/v1')
    assert api.error_text(error) == 'The lease service does not answer. Try again later.'
    assert 'lease.internal' in caplog.text


def test_errors_of_the_client_are_shown() -> None:
    assert api.error_text(exceptions.AmbiguousName('Two leases have it.')) == 'Two leases have it.'
