# SPDX-License-Identifier: Apache-2.0
"""``physical:host``: whole compute hosts of a pool for one project."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import resource_types
from climate_core import exceptions
from climate_core.calendar.model import Demand
from climate_hosts import lane_providers
from climate_hosts.plugins import lane_options, lane_plugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext
    from climate_core.lease.model import AllocatedUnit

_NUMBER: Final = {'type': 'integer', 'minimum': 1, 'maximum': 10_000}


class HostPlugin(lane_plugin.LanePlugin):
    """Reserve whole hosts."""

    resource_type = resource_types.HOST
    reserves_locally = True
    title = 'Host'
    description = 'Whole compute hosts of a pool, for the servers of one project alone.'
    schema: ClassVar[Mapping[str, Any]] = {
        'min': {**_NUMBER, 'description': 'Minimum number of hosts. By default 1.'},
        'max': {
            **_NUMBER,
            'description': 'Maximum number of hosts, if they are free. By default min.',
        },
        **lane_options.SCHEMA,
    }
    changeable = ('min', 'max', *lane_options.CHANGEABLE)
    amount_field = 'min'
    most_field = 'max'
    noun = 'hosts'

    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        least = values.get('min', 1)
        return self._with_defaults(values, min=least, max=least)

    def _check_request(
        self,
        context: 'RequestContext',  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        return self._normalized_params(values)

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {resource_types.HOSTS: params['max']}

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        least, most = params['min'], params['max']
        if most < least:
            raise exceptions.BadRequest(
                f'max: must be at least min, which is {least}, not {most}.', field='max'
            )
        return Demand(min_pieces=least, max_pieces=most, **self._demand_fields(params))

    def _shape(self, params: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        return None

    def _slots(self, allocation: 'AllocatedUnit') -> int:  # noqa: ARG002
        # What Nova's own resources allow comes first.
        return lane_providers.MAX_SLOTS
