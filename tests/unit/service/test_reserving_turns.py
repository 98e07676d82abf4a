# SPDX-License-Identifier: Apache-2.0
"""Which requests count among those for which other services are asked."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from climate_common import resource_types
from climate_core import concurrency, exceptions
from climate_core.context import RequestContext
from climate_core.plugins import loading

HOST = {'resource_type': resource_types.HOST}
SERVER = {'resource_type': resource_types.SERVER}


@pytest.mark.parametrize(
    ('values', 'counts'),
    [
        ({}, False),
        ({'reservations': []}, False),
        ({'reservations': [HOST]}, False),
        (HOST, False),
        ({'resource_type': resource_types.NETWORK}, False),
        ({'resource_type': resource_types.FLOATING_IP}, False),
        ({'resource_type': resource_types.HELD_FLOATING_IP}, True),
        ({'resource_type': resource_types.CAPACITY}, True),
        (SERVER, True),
        ({'reservations': [HOST, SERVER]}, True),
        ({'reservations': [HOST], 'kind': 'best_effort'}, True),
        ({'reservations': [], 'kind': 'best_effort'}, False),
    ],
)
def test_only_what_asks_another_service_takes_a_turn(
    values: Mapping[str, Any], counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, 'TURN_SECONDS', 0.0)
    types = [
        resource_types.HOST,
        resource_types.NETWORK,
        resource_types.FLOATING_IP,
        resource_types.SERVER,
        resource_types.CAPACITY,
    ]
    local = loading.list_local_types(loading.load_classes(types))
    limit, context = concurrency.ReservingLimit(1, local), RequestContext(overwrite=False)
    with limit.turn(context, SERVER):
        if counts:
            with pytest.raises(exceptions.ServiceBusy), limit.turn(context, values):
                pass
        else:
            with limit.turn(context, values):
                pass


def test_requests_for_one_type_leave_turns_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, 'TURN_SECONDS', 0.0)
    limit, context = concurrency.ReservingLimit(4), RequestContext(overwrite=False)
    volume = {'resource_type': resource_types.VOLUME}
    with contextlib.ExitStack() as taken:
        for project_id in ('one', 'two', 'three'):
            user = RequestContext(project_id=project_id, overwrite=False)
            taken.enter_context(limit.turn(user, SERVER))
        for values in (SERVER, {'reservations': [volume, SERVER]}):
            with pytest.raises(exceptions.ServiceBusy), limit.turn(context, values):
                pass
        taken.enter_context(limit.turn(context, volume))
        with pytest.raises(exceptions.ServiceBusy), limit.turn(context, volume):
            pass
    with limit.turn(context, SERVER):
        pass


@pytest.mark.parametrize(('most', 'share'), [(1, 1), (2, 1), (3, 2), (7, 4), (32, 16)])
def test_requests_of_one_project_leave_turns_to_others(
    most: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency, 'TURN_SECONDS', 0.0)
    limit = concurrency.ReservingLimit(most)
    one, other = (RequestContext(project_id=each, overwrite=False) for each in ('one', 'other'))
    for _ in range(2):
        with contextlib.ExitStack() as taken:
            for _ in range(share):
                taken.enter_context(limit.turn(one, SERVER))
            with pytest.raises(exceptions.ServiceBusy), limit.turn(one, SERVER):
                pass
            if most > 1:
                taken.enter_context(limit.turn(other, SERVER))
