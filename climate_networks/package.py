# SPDX-License-Identifier: Apache-2.0
"""The reservation package of floating IPs and network segments."""

import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_policy import policy

from climate_common import resource_types
from climate_core.packages import PoolCheck, ReservationPackage, ReservationView, UnitName

if TYPE_CHECKING:
    from climate_core.api.registered_units import UnitCalls
    from climate_core.api.routing import Table
    from climate_core.cloud import Cloud
    from climate_core.db.engine import Database
    from climate_core.db.registered_units import UnitTable
    from climate_core.plugins.base import ResourcePlugin


class NetworkPackage(ReservationPackage):
    """Declare ``virtual:floatingip`` and ``network``."""

    name = 'networks'

    def list_policies(self) -> Iterable[policy.RuleDefault]:
        from climate_networks import policies

        return policies.RULES

    def list_routes(self) -> 'Table':
        from climate_networks.api import floatingips, networks

        return floatingips.ROUTES | networks.ROUTES

    def list_reservation_views(self) -> Mapping[str, ReservationView]:
        from climate_networks import units

        return {
            units.FLOATING_IP_KIND: units.floatingips_view,
            units.SEGMENT_KIND: units.network_view,
        }

    def list_unit_names(self) -> Mapping[str, UnitName]:
        from climate_networks import units

        return {
            resource_types.FLOATING_IP: operator.itemgetter('address'),
            resource_types.NETWORK: lambda unit: str(units.Segment.of(unit)),
        }

    def list_companion_plugins(self) -> Mapping[str, 'type[ResourcePlugin]']:
        from climate_networks.plugins.floatingips import HeldFloatingIpPlugin

        return {resource_types.FLOATING_IP: HeldFloatingIpPlugin}

    def list_pool_checks(self) -> Iterable[PoolCheck]:
        from climate_networks import operations

        return (
            PoolCheck(
                'Floating IPs for leases',
                operations.find_unsafe_addresses,
                'Whether each floating IP is free for leases could not be checked',
                'No floating IP is set apart for leases.',
                operations.UNCHECKED_POLICY,
            ),
            PoolCheck(
                'Networks for leases',
                operations.find_unsafe_segments,
                'Whether each network segment is free for leases could not be checked',
                'No network segment is set apart for leases.',
                operations.UNCHECKED_RANGES,
            ),
        )

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
