# SPDX-License-Identifier: Apache-2.0
"""``flavor:instance``: room for so many servers of one flavor."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from climate_common import lanes, limits, resource_types
from climate_core.cloud import errors, flavors
from climate_core.plugins.common_pool import flavor_demand
from climate_hosts.plugins.capacity import room

if TYPE_CHECKING:
    from climate_core.context import RequestContext


class CapacityPlugin(room.RoomPlugin):
    """Reserve room for servers of a flavor that is there."""

    resource_type = resource_types.CAPACITY
    title = 'Capacity'
    description = 'Room for servers of one flavor on hosts of a pool that many leases share.'
    schema: ClassVar[Mapping[str, Any]] = {
        'flavor_id': {
            'type': 'string',
            'minLength': 1,
            'maxLength': limits.NAME_LENGTH,
            'description': 'The id of the flavor of the servers.',
        },
        **room.SCHEMA,
    }
    required = ('flavor_id',)

    def _read(self, context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, Any]:
        with errors.for_user('flavor_id'):
            flavor = flavors.get(self.cloud.user(context), values['flavor_id'])
            if 'extra_specs' not in flavor:
                # The user may see the flavor, but not these.
                flavor = flavors.get(self.cloud.service(), values['flavor_id'])
        demand = flavor_demand.read_demand(flavor)
        return {
            **self._params(values),
            # What a flavor gives cannot be changed, but it can be deleted.
            '_shape': lanes.flavor_shape(flavor),
            '_sizes': flavors.sizes(flavor),
            '_piece': dict(demand.piece),
            '_required': sorted(demand.required),
            '_forbidden': sorted(demand.forbidden),
        }

    def _piece(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        piece: Mapping[str, int] = params['_piece']
        return piece

    def _sizes(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        # One of an earlier release has its sizes alone.
        sizes: Mapping[str, int] = params.get('_sizes', params['_piece'])
        return sizes

    def _shape(self, params: Mapping[str, Any]) -> str | None:
        return str(params['_shape'])
