# SPDX-License-Identifier: Apache-2.0
"""An address or a network that is not there keeps only waiting what may use it."""

import pytest

from climate_common import resource_types
from climate_core.engine import plugin_calls
from climate_core.lease import model
from climate_core.lease.transitions import Outcome, Result
from climate_networks.plugins.floatingips import FloatingIpPlugin, HeldFloatingIpPlugin
from climate_networks.plugins.networks import NetworkPlugin
from climate_networks.plugins.neutron_resource import NeutronResourcePlugin
from tests.support.world import NOON

ADDRESSES, NETWORKS = (FloatingIpPlugin, HeldFloatingIpPlugin), (NetworkPlugin,)
SERVER, STACK = resource_types.SERVER, resource_types.STACK
OTHERS = (
    resource_types.FLOATING_IP,
    resource_types.HELD_FLOATING_IP,
    resource_types.HOST,
    resource_types.CAPACITY,
    resource_types.SIZES,
    resource_types.VOLUME,
)


def reservation(resource_type: str) -> model.Reservation:
    return model.new_reservation('lease', resource_type, resource_type, {}, NOON, {}, None, None)


@pytest.mark.parametrize(
    ('kind', 'waiting'),
    [*((kind, {STACK}) for kind in ADDRESSES), *((kind, {SERVER, STACK}) for kind in NETWORKS)],
)
@pytest.mark.parametrize('result', [Result.WAIT, Result.RETRY])
def test_only_what_may_use_it_at_its_start_waits(
    kind: type[NeutronResourcePlugin | HeldFloatingIpPlugin], waiting: set[str], result: Result
) -> None:
    plugins = {kind.resource_type: kind(None, None)}  # type: ignore[arg-type]
    tried = [(reservation(kind.resource_type), Outcome(result))]
    found = {
        each
        for each in (SERVER, STACK, *OTHERS)
        if plugin_calls.find_blocking(reservation(each), tried, plugins)
    }
    assert found == waiting
