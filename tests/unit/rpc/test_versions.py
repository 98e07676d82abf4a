# SPDX-License-Identifier: Apache-2.0
"""What is sent with which version, and what becomes of it when a manager is too old for it."""

from collections.abc import Callable
from typing import Any

import oslo_messaging as messaging
import pytest

from climate_core import exceptions
from climate_core.operations.create import LeaseCreator
from climate_core.operations.feeds import FeedOperations
from climate_core.operations.leases import LeaseOperations
from climate_core.operations.remote import list_remote
from climate_core.rpc import client as rpc_client
from climate_core.rpc import server
from climate_core.rpc.client import ManagerClient
from climate_hosts.operations.hosts import HostOperations
from climate_networks.operations import NetworkOperations
from tests.support.world import configure, user

Call = Callable[[ManagerClient], Any]
WHO = user()
LEASE = {'name': 'n', 'end_date': 'x'}

OLD: list[Call] = [
    lambda c: c.create_lease(WHO, LEASE | {'id': 'x', 'reservations': [], 'events': []}),
    lambda c: c.create_lease(WHO, LEASE | {'api_release': 'y'}),
    lambda c: c.update_lease(WHO, 'x', {'name': 'n', 'end_date': 'x'}, 3),
    lambda c: c.delete_lease(WHO, 'x'),
    lambda c: c.add_reservation(WHO, 'x', {'resource_id': 'y'}),
]
NEW: list[Call] = [
    lambda c: c.create_lease(WHO, {'name': 'n', 'duration': '1h'}),
    lambda c: c.create_lease(WHO, LEASE | {'start_policy': 'manual'}),
    lambda c: c.update_lease(WHO, 'x', {'webhook': None}),
    lambda c: c.update_lease(WHO, 'x', {'reservations': []}),
    lambda c: c.delete_lease(WHO, 'x', 3),
    lambda c: c.add_reservation(WHO, 'x', {'resource_id': 'y'}, 3),
    lambda c: c.add_reservation(WHO, 'x', {'resource_type': 'y', 'template': {}}),
    lambda c: c.create_lease(WHO, LEASE | {'reservations': [{'template': {}}]}),
    lambda c: c.check_lease(WHO, LEASE),
    lambda c: c.start_lease(WHO, 'x'),
    lambda c: c.end_lease(WHO, 'x'),
    lambda c: c.update_reservation(WHO, 'x', 'y', {}),
    lambda c: c.remove_reservation(WHO, 'x', 'y'),
    lambda c: c.call(HostOperations.create_host, WHO, {'name': 'x'}),
    lambda c: c.call(HostOperations.update_host, WHO, 1, {}),
    lambda c: c.call(HostOperations.delete_host, WHO, 1),
    lambda c: c.call(HostOperations.set_host_property, WHO, 'x', private=True),
    lambda c: c.call(HostOperations.delete_host_pool, WHO, 'x'),
    lambda c: c.call(NetworkOperations.update_network, WHO, 1, {}),
    lambda c: c.call(NetworkOperations.set_network_property, WHO, 'x', private=True),
]


def _client(monkeypatch: pytest.MonkeyPatch, answer: object, cap: str | None = None) -> Any:
    """Return a client and the list of what it sends beside pings: versions and methods."""
    conf = configure('sqlite://')
    conf.set_override('manager', cap, group='upgrade_levels')
    client = ManagerClient(conf)
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


@pytest.mark.parametrize('call', OLD)
@pytest.mark.parametrize('cap', [None, '1.0', '1.1'])
def test_what_the_first_release_understands_is_sent_as_such(
    monkeypatch: pytest.MonkeyPatch, call: Call, cap: str | None
) -> None:
    client, sent = _client(monkeypatch, 'id', cap)
    call(client)
    assert [version for version, _ in sent] == ['1.0']


@pytest.mark.parametrize('call', NEW)
@pytest.mark.parametrize('cap', [None, '1.1'])
def test_what_it_would_overlook_needs_a_newer_one(
    monkeypatch: pytest.MonkeyPatch, call: Call, cap: str | None
) -> None:
    client, sent = _client(monkeypatch, {}, cap)
    call(client)
    assert [version for version, _ in sent] == ['1.1']


@pytest.mark.parametrize('call', NEW)
def test_a_capped_client_refuses_it(monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    client, sent = _client(monkeypatch, {}, '1.0')
    with pytest.raises(exceptions.ServiceUnavailable, match='newer lease manager'):
        call(client)
    assert sent == []


@pytest.mark.parametrize(
    'error',
    [messaging.UnsupportedVersion('1.1'), messaging.RemoteError('UnsupportedVersion', 'no', '')],
)
def test_an_old_manager_refuses_it(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    client, _ = _client(monkeypatch, error)
    with pytest.raises(exceptions.ServiceUnavailable, match='newer lease manager'):
        client.end_lease(WHO, 'x')


def test_what_breaks_in_a_manager_is_not_called_old(monkeypatch: pytest.MonkeyPatch) -> None:
    client, _ = _client(monkeypatch, messaging.RemoteError('KeyError', 'x', ''))
    with pytest.raises(messaging.RemoteError):
        client.end_lease(WHO, 'x')


def test_the_manager_has_every_method() -> None:
    called = {name for name in vars(ManagerClient) if not name.startswith('_')} - {'call'}
    served = {
        name
        for operations in (LeaseCreator, LeaseOperations, FeedOperations)
        for name, *_ in list_remote(operations)
    }
    assert called == served | {'nudge'}
    assert server.LeaseEndpoint.target.version == rpc_client.VERSION == '1.1'
