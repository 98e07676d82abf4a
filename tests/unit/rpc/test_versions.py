# SPDX-License-Identifier: Apache-2.0
"""Which version of the interface a call is sent with, and what follows if a manager is older."""

from typing import Any

import oslo_messaging as messaging
import pytest

from climate_core import exceptions, rpc
from climate_core.operations.create import LeaseCreator
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.remote import list_remote
from climate_core.rpc import ManagerClient
from tests.support.world import configure, user


class _LaterClient(ManagerClient):
    """A client of a later release, whose version 1.1 adds an operation."""

    start_lease = rpc._rpc_method(LeaseOperations.start_lease, '1.1')


def _client(monkeypatch: pytest.MonkeyPatch, cap: str | None, answer: object = None) -> Any:
    """Return a client and the list of the versions and methods that it sends beside pings."""
    conf = configure('sqlite://')
    conf.set_override('manager', cap, group='upgrade_levels')
    client = _LaterClient(conf)
    sent: list[tuple[str, str]] = []

    def call(self: Any, _ctxt: object, method: str, **_kw: object) -> object:
        if method == 'ping':
            return None
        sent.append((self.target.version, method))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr('oslo_messaging.rpc.client._CallContext.call', call)
    return client, sent


@pytest.mark.parametrize('cap', [None, '1.0', '1.1'])
def test_call_is_sent_with_the_version_that_added_it(
    monkeypatch: pytest.MonkeyPatch, cap: str | None
) -> None:
    client, sent = _client(monkeypatch, cap)
    client.end_lease(user(), 'x')
    if cap == '1.0':
        with pytest.raises(exceptions.ServiceUnavailable, match='newer lease manager'):
            client.start_lease(user(), 'x')
        assert sent == [('1.0', 'end_lease')]
    else:
        client.start_lease(user(), 'x')
        assert sent == [('1.0', 'end_lease'), ('1.1', 'start_lease')]


@pytest.mark.parametrize(
    'error',
    [messaging.UnsupportedVersion('1.1'), messaging.RemoteError('UnsupportedVersion', 'no', '')],
)
def test_older_manager_rejects_a_call(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    client, _ = _client(monkeypatch, None, error)
    with pytest.raises(exceptions.ServiceUnavailable, match='newer lease manager'):
        client.start_lease(user(), 'x')


def test_unexpected_error_of_a_manager_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = _client(monkeypatch, None, messaging.RemoteError('KeyError', 'x', ''))
    with pytest.raises(messaging.RemoteError):
        client.end_lease(user(), 'x')


def test_the_manager_has_every_method() -> None:
    called = {name for name in vars(ManagerClient) if not name.startswith('_')} - {'call'}
    served = {
        name
        for operations in (LeaseCreator, LeaseOperations, FeedOperations)
        for name, *_ in list_remote(operations)
    }
    assert called == served | {'nudge'}
    assert rpc.Endpoint.target.version == rpc.VERSION
