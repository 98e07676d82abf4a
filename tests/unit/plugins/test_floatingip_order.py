# SPDX-License-Identifier: Apache-2.0
"""An address that is not there yet keeps only waiting what may use it at its start."""

import pytest

from climate_common import resource_types
from climate_core.engine import ranks
from climate_core.lease import model
from climate_core.lease.results import Outcome, Result
from climate_core.plugins.floatingip.held import HeldFloatingIpPlugin
from climate_core.plugins.floatingip.plugin import FloatingIpPlugin
from tests.support.world import NOON

PLUGINS = (FloatingIpPlugin, HeldFloatingIpPlugin)


def reservation(resource_type: str) -> model.Reservation:
    return model.new_reservation('lease', resource_type, resource_type, {}, NOON, {}, None, None)


@pytest.mark.parametrize('kind', PLUGINS)
@pytest.mark.parametrize('result', [Result.WAIT, Result.RETRY])
@pytest.mark.parametrize(
    ('resource_type', 'waits'),
    [
        (resource_types.SERVER, False),
        (resource_types.VOLUME, False),
        (resource_types.STACK, True),
    ],
)
def test_only_stacks_wait_for_an_address(
    kind: type[FloatingIpPlugin], result: Result, resource_type: str, waits: bool
) -> None:
    plugins = {kind.resource_type: kind(None, None)}  # type: ignore[arg-type]
    tried = [(reservation(kind.resource_type), Outcome(result))]
    found = ranks.blocking(reservation(resource_type), tried, plugins)
    assert bool(found) == waits
