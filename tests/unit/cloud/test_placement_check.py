# SPDX-License-Identifier: Apache-2.0
"""The check of Placement finds the bug and leaves nothing behind, on Placement itself."""

import functools
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import requests

from climate_core import exceptions
from climate_core.cloud import Cloud
from climate_core.cloud import placement as checked
from climate_core.cloud.placement import PLACEMENT
from tests.support.fakes import cloud_server, settings
from tests.support.fakes.placement import Placement


def checks(conn: Any) -> list[str]:
    """Return the names of the providers that are no hosts, and of no host."""
    found = PLACEMENT.read(conn, '/resource_providers', 'resource_providers')
    return [each['name'] for each in found if 'check' in each['name']]


def stop_at(monkeypatch: pytest.MonkeyPatch, method: str, error: BaseException) -> None:
    """Have the second request of a method end in an error that nobody catches."""
    send: Callable[..., Any] = type(PLACEMENT).send
    sent: list[str] = []

    def fail(self: Any, conn: Any, name: str, *args: Any, **kw: Any) -> Any:
        sent.append(name)
        if sent.count(method) == 2:
            raise error
        return send(self, conn, name, *args, **kw)

    monkeypatch.setattr(type(PLACEMENT), 'send', fail)


@pytest.mark.parametrize(
    ('kind', 'tries', 'overbooks'),
    [('mariadb', 10, True), ('postgresql', 10, True), ('postgresql', 1, False)],
)
def test_check_tells_whether_claims_at_once_get_more_than_there_is(
    new_database: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    tries: int,
    overbooks: bool,
) -> None:
    """By Placement's default, and with the line in placement.conf that the guide asks for."""
    placement = Placement(new_database(kind), tries)
    monkeypatch.setattr(type(PLACEMENT), 'send', functools.partialmethod(send, placement))
    conn: Any = None
    assert checked.overbooks(conn) is overbooks
    assert checks(conn) == []


def send(
    _service: Any,
    placement: Placement,
    _conn: Any,
    method: str,
    path: str,
    body: Any = None,
    query: Mapping[str, str] | None = None,
    **_more: Any,
) -> requests.Response:
    """Ask Placement in the thread of the caller: the fake cloud does one thing at a time."""
    answered = placement.ask(method, f'{path}?{urllib.parse.urlencode(query or {})}', body)
    response = requests.Response()
    response.status_code, response._content = answered.status_code, answered.body
    return response


def test_check_of_placement_leaves_no_provider(fake: cloud_server.Server) -> None:
    conn = Cloud(settings.conf(fake.url)).service()
    checked.overbooks(conn)
    assert checks(conn) == []


def test_failed_check_leaves_nothing(
    fake: cloud_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn = Cloud(settings.conf(fake.url)).service()
    with monkeypatch.context() as failing:
        stop_at(failing, 'PUT', exceptions.Transient('Placement is away.'))
        with pytest.raises(exceptions.Transient):
            checked.overbooks(conn)
    assert checks(conn) == []


def test_next_check_removes_what_one_that_was_killed_has_left(
    fake: cloud_server.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn = Cloud(settings.conf(fake.url)).service()
    with monkeypatch.context() as killed:
        killed.setattr(checked, '_count_accepted', lambda _conn, provider_id: kill(provider_id))
        killed.setattr(checked, '_remove_check', lambda _conn: None)
        with pytest.raises(SystemExit):
            checked.overbooks(conn)
    assert checks(conn) == ['climate-check']
    checked.overbooks(conn)
    assert checks(conn) == []


def kill(provider_id: str) -> int:
    raise SystemExit(provider_id)
