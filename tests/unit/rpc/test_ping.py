# SPDX-License-Identifier: Apache-2.0
"""Whether a manager is there is asked before anything is sent that would wait for one."""

from collections.abc import Callable
from typing import Any

import oslo_messaging as messaging
import pytest

from climate_core import exceptions
from climate_core.rpc import ManagerClient
from tests.support.world import configure, user

TIMEOUT = messaging.MessagingTimeout()
#: Calls a method with the outcomes of the ping and of the method; returns what is sent.
Ask = Callable[[object, object], list[str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    client = ManagerClient(configure('sqlite://'))

    def asked(ping: object, answer: object) -> list[str]:
        sent: list[str] = []

        def call(_self: Any, _ctxt: object, method: str, **_kw: object) -> object:
            sent.append(method)
            result = ping if method == 'ping' else answer
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr('oslo_messaging.rpc.client._CallContext.call', call)
        try:
            client.end_lease(user(), 'x')
        except exceptions.ServiceUnavailable as exc:
            sent.append(exc.message)
        return sent

    return asked


@pytest.mark.parametrize('error', [TIMEOUT, messaging.MessageDeliveryFailure()])
def test_nothing_is_sent_that_nobody_would_take(ask: Ask, error: Exception) -> None:
    for _ in range(2):
        ping, told = ask(error, 'answer')
        assert ping == 'ping'
        assert told.startswith('No climate-manager answers, ')
        assert 'Nothing was done' in told


def test_manager_that_has_answered_is_not_asked_again(ask: Ask) -> None:
    assert ask(None, 'answer') == ['ping', 'end_lease']
    assert ask(TIMEOUT, 'answer') == ['end_lease']


def test_manager_that_dies_with_a_call_is_asked_again(ask: Ask) -> None:
    *_, told = ask(None, TIMEOUT)
    assert 'The request may still take effect' in told
    assert len(ask(TIMEOUT, 'answer')) == 2
