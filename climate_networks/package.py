# SPDX-License-Identifier: Apache-2.0
"""The reservation package of floating IPs and network segments."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_policy import policy

from climate_common import resource_types
from climate_core.packages import PoolCheck, ReservationPackage
from climate_networks import units

if TYPE_CHECKING:
    from climate_core.api.registered_units import UnitCalls
    from climate_core.api.request import Table
    from climate_core.cloud import Cloud
    from climate_core.db.engine import Database
    from climate_core.db.registered_units import UnitTable
    from climate_core.lease.model import Reservation
    from climate_core.plugins.base import ResourcePlugin


class NetworkPackage(ReservationPackage):
    """Declare ``virtual:floatingip`` and ``network``."""

    name = 'networks'
    unit_kinds = (units.FLOATING_IP_KIND, units.SEGMENT_KIND)
    named_types = (resource_types.FLOATING_IP, resource_types.NETWORK)

    def list_policies(self) -> Iterable[policy.RuleDefault]:
        from climate_networks import policies

        return policies.RULES

    def list_routes(self) -> 'Table':
        from climate_networks.api import floatingips, networks

        return floatingips.ROUTES | networks.ROUTES

    def view_allocations(self, reservation: 'Reservation') -> Mapping[str, Any]:
        """Return the allocated addresses; or the segment, and the id of its network."""
        allocated = [allocation.unit for allocation in reservation.allocations]
        if reservation.unit_kind == units.FLOATING_IP_KIND:
            return {'floatingips': [unit['address'] for unit in allocated]}
        facts = units.Segment.of(allocated[0]).facts if allocated else {}
        network_id = (reservation.progress or {}).get(units.NETWORK_ID)
        return {**facts, units.NETWORK_ID: network_id}

    def name_unit(self, resource_type: str, unit: Mapping[str, Any]) -> str:
        is_network = resource_type == resource_types.NETWORK
        return str(units.Segment.of(unit) if is_network else unit['address'])

    def list_companion_plugins(self) -> Mapping[str, 'type[ResourcePlugin]']:
        from climate_networks.plugins.floatingips import HeldFloatingIpPlugin

        return {resource_types.FLOATING_IP: HeldFloatingIpPlugin}

    def list_pool_checks(self) -> Iterable[PoolCheck]:
        from climate_networks import operations

        return operations.AddressCheck(), operations.SegmentCheck()

    def list_unit_tables(self) -> Iterable['UnitTable[Any]']:
        from climate_networks import db

        return db.FLOATING_IPS, db.SEGMENTS

    def list_unit_calls(self) -> Iterable['UnitCalls[Any]']:
        from climate_networks.api import floatingips, networks

        return floatingips.CALLS, networks.CALLS

    def create_operations(
        self,
        conf: cfg.ConfigOpts,  # noqa: ARG002
        database: 'Database',
        cloud: 'Cloud',
    ) -> Iterable[object]:
        from climate_networks.operations import FloatingIpOperations, NetworkOperations

        return FloatingIpOperations(database, cloud), NetworkOperations(database, cloud)
