# SPDX-License-Identifier: Apache-2.0
"""What a server takes of the hosts that everybody uses."""

from typing import Any
from unittest import mock

import pytest

from climate_core import exceptions
from climate_core.cloud import servers
from climate_core.db import forecast_reads
from climate_core.lease import model
from climate_core.operations import pool_forecast
from climate_core.plugins import pool_capacity
from tests.support.leases import NOON

SMALL = {
    'id': '1',
    'name': 'm1.small',
    'vcpus': 1,
    'ram': 512,
    'disk': 1,
    'swap': 0,
    'OS-FLV-EXT-DATA:ephemeral': 0,
    'extra_specs': {},
}


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> pool_capacity.CommonHostCapacity:
    monkeypatch.setattr(pool_capacity, 'list_hosts_up', lambda _conn: {})
    monkeypatch.setattr(pool_capacity, 'read_hosts', lambda _conn, _up: ())
    monkeypatch.setattr(servers, 'list_flavors', lambda _conn: [SMALL])
    return pool_capacity.CommonHostCapacity(mock.Mock())


def test_server_of_which_nothing_is_known_is_refused(
    common: pool_capacity.CommonHostCapacity,
) -> None:
    with pytest.raises(
        exceptions.BadRequest, match='The demand of the server on its host is not known'
    ):
        common.demand('one', {'resource_id': 'one'}, {})


@pytest.mark.parametrize('flavor', ['1', 'm1.small'])
def test_server_within_a_stack_takes_what_its_flavor_says(
    common: pool_capacity.CommonHostCapacity, flavor: str
) -> None:
    found = common.demand('one', {'server': {'flavorRef': flavor, 'imageRef': 'cirros'}}, {})
    assert found.amounts == {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1}


def test_server_that_gave_way_takes_again_what_it_held(
    common: pool_capacity.CommonHostCapacity,
) -> None:
    """One that was put into a lease has no specification, and holds nothing meanwhile."""
    params: dict[str, Any] = {model.HOLDS: {'vcpus': 2}}
    waits = forecast_reads.PlannedResource(NOON, NOON, {}, params, 'one')
    unknown = waits._replace(params={})
    database = mock.Mock(read=lambda *_: {'lease': [waits, unknown], 'other': [unknown]})
    found = pool_forecast.read_future_demands(database, 'virtual:instance', common)
    taken = {lease: [each.amounts for each in one.servers] for lease, one in found.items()}
    assert taken == {'lease': [{'VCPU': 2}]}
