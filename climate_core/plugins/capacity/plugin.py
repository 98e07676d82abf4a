# SPDX-License-Identifier: Apache-2.0
"""``flavor:instance``: room for so many servers of one flavor on hosts that many leases share.

The calendar counts what the flavor takes of each host; Placement counts the servers that are in,
by the slots of the lanes.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import amounts, lanes, resource_types
from climate_core.calendar.model import Demand
from climate_core.cloud import errors, flavors, placement
from climate_core.plugins import lane_plugin
from climate_core.plugins.host import filters

if TYPE_CHECKING:
    from openstack import connection

    from climate_core.context import RequestContext
    from climate_core.lease.model import Allocation, Reservation


#: How Blazar's clients say it.
_AFFINITIES: Final = {'None': None, 'True': True, 'False': False}


class CapacityPlugin(lane_plugin.LanePlugin):
    """Reserve room for servers."""

    resource_type = resource_types.CAPACITY
    title = 'Capacity'
    description = 'Room for servers of one flavor on hosts of a pool that many leases share.'
    schema: ClassVar[Mapping[str, Any]] = {
        'flavor_id': {
            'type': 'string',
            'minLength': 1,
            'maxLength': 255,
            'description': 'The id of the flavor of the servers.',
        },
        'amount': {
            'type': 'integer',
            'minimum': 1,
            'maximum': 100_000,
            'description': 'How many servers. By default 1.',
        },
        'affinity': {
            'enum': [None, True, False, *_AFFINITIES],
            'description': 'true: all on one host; false: each on another one; null: anywhere. '
            "Blazar's clients send these as texts.",
        },
        **lane_plugin.SCHEMA,
    }
    required = ('flavor_id',)
    changeable = ('amount', 'affinity', *filters.SCHEMA)
    amount_field = 'amount'
    noun = 'servers'

    def matches_request(self, reservation: 'Reservation', values: Mapping[str, Any]) -> bool:
        shown = {
            name: each for name, each in reservation.params.items() if not name.startswith('_')
        }
        return shown == _params(values)

    def _read(self, context: 'RequestContext', values: Mapping[str, Any]) -> dict[str, Any]:
        with errors.for_user('flavor_id'):
            flavor = flavors.get(self.cloud.user(context), values['flavor_id'])
            if 'extra_specs' not in flavor:
                # The user may see the flavor, but not these.
                flavor = flavors.get(self.cloud.service(), values['flavor_id'])
        return {
            **_params(values),
            # What a flavor gives cannot be changed, but it can be deleted.
            '_shape': lanes.flavor_shape(flavor),
            '_piece': flavors.sizes(flavor),
        }

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        amount = params['amount']
        held = {unit: amount * size for unit, size in params['_piece'].items()}
        return {amounts.SERVERS: amount, **held}

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        amount, affinity = params['amount'], params.get('affinity')
        return Demand(
            least=amount,
            most=amount,
            piece={unit: size for unit, size in params['_piece'].items() if size},
            one_unit=affinity is True,
            most_per_unit=1 if affinity is False else None,
            **self._common(params),
        )

    def _shape(self, params: Mapping[str, Any]) -> str | None:
        return str(params['_shape'])

    def _slots(self, allocation: 'Allocation') -> int:
        return allocation.pieces

    def _list_earlier(
        self, conn: 'connection.Connection', allocation: 'Allocation'
    ) -> Collection[str]:
        # The other lanes of the host are those of other leases.
        return placement.list_consumers(conn, lane_plugin.lane_of(allocation))


def _params(values: Mapping[str, Any]) -> dict[str, Any]:
    params = lane_plugin.given(values, CapacityPlugin.schema, amount=1, affinity=None)
    affinity = params['affinity']
    return params | {'affinity': _AFFINITIES.get(affinity, affinity)}
