# SPDX-License-Identifier: Apache-2.0
"""What Nova shows of a failure behind it has no URL of another service."""

import pytest
from keystoneauth1 import exceptions as ks_exceptions
from nova import exception

from nova_ext.api import wake_up
from nova_ext.compute import recovery

INSIDE = 'http://ctl-7.internal:8776/v3/secret'


@pytest.mark.parametrize(
    'error',
    [
        exception.CinderConnectionFailed(reason=f'no way to {INSIDE}'),
        exception.GlanceConnectionFailed(server=INSIDE, reason='refused'),
    ],
)
def test_outage_behind_nova_shows_no_url(error: Exception) -> None:
    answer = wake_up._answer(error)
    assert answer.status_int == 503
    assert 'ctl-7' not in answer.explanation


def test_fault_of_a_server_shows_messages_of_nova_only() -> None:
    away = ks_exceptions.ConnectFailure(f'no way to {INSIDE}')
    assert recovery._public_reason(away) == 'ConnectFailure'
    assert recovery._public_reason(exception.PortInUse(port_id='p')) == 'Port p is still in use.'
    aborted = exception.BuildAbortException(instance_uuid='u', reason='No network.')
    assert recovery._public_reason(aborted) == 'No network.'
