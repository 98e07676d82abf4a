# SPDX-License-Identifier: Apache-2.0
"""Change in Placement what Climate does not change by itself."""

from typing import Any

from climate_common import lanes
from climate_hosts import placement


def isolate(conn: Any, provider_id: str, is_isolated: bool = True) -> None:
    """Put a host into the aggregate of the pools, or take it out."""
    part = placement.ProviderPart(conn, f'/resource_providers/{provider_id}/aggregates')
    for present in part:
        others = {*present['aggregates']} - {lanes.POOL}
        part.put({'aggregates': sorted(others | {lanes.POOL} if is_isolated else others)})
