# SPDX-License-Identifier: Apache-2.0
"""What Nova shows of a failure behind it has no URL of another service."""

import types
from collections.abc import Callable
from typing import Any

import pytest
from keystoneauth1 import exceptions as ks_exceptions
from nova import exception
from nova.compute import utils as compute_utils

from climate_core import exceptions
from climate_core.cloud import trusts
from climate_core.operations import draft
from nova_ext.api import wake_up
from nova_ext.compute import recovery
from nova_ext.compute import reserve as compute_reserve

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


UUID = '4b1c7f52-6a0e-4b53-9d0c-8f3a2f1f0a6e'
LEASE: Any = types.SimpleNamespace(id=UUID, trust_id='trust', user_id='owner')
FIELD = 'reservations[0].resource_id'


def _create_trust() -> None:
    with trusts._explain_delegation(types.SimpleNamespace(own_token=False)):  # type: ignore[arg-type]
        raise exceptions.Forbidden(
            'Keystone answered 403: You are not authorized to perform the requested action: '
            'Delegated tokens cannot manage trusts..'
        )


def _reserve_with_few_roles() -> None:
    roles = {'1': 'member', '2': 'load-balancer_member', '3': 'creator'}
    cloud: Any = types.SimpleNamespace(owner_roles=lambda _trust_id: roles)
    plugin: Any = types.SimpleNamespace(wakes_as_owner=True, title='Server', cloud=cloud)
    context: Any = types.SimpleNamespace(
        user_id=LEASE.user_id, is_delegated=True, trust_id=None, role_ids={}
    )
    draft.check_owner(plugin, LEASE, context, FIELD)


def _reserve_in_the_lease_of_another_user() -> None:
    plugin: Any = types.SimpleNamespace(wakes_as_owner=True, title='Server')
    draft.check_owner(plugin, LEASE, types.SimpleNamespace(user_id='other'), FIELD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ('call', 'advice'),
    [
        (_create_trust, 'need allow_insecure_application_credential_trust_escalation of keystone'),
        (_reserve_with_few_roles, 'has the roles creator, load-balancer_member, member'),
        (_reserve_in_the_lease_of_another_user, 'must be given with a lease of your own.'),
    ],
)
def test_advice_is_within_the_fault_of_a_server(call: Callable[[], None], advice: str) -> None:
    """Nova cuts a fault at 255 bytes, with "Build of instance ... aborted: " before the reason."""
    with pytest.raises(exceptions.Forbidden) as refused:
        call()
    instance = types.SimpleNamespace(uuid=UUID)
    aborted = compute_reserve._abort(instance, refused.value.message)
    assert advice in compute_utils.exception_to_dict(aborted)['message']
