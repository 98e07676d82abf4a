# SPDX-License-Identifier: Apache-2.0
"""Reserve room for so many servers of one shape on hosts that many leases share.

The calendar counts what a server takes of each host; Placement counts the servers that are in, by
the slots of the lanes.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from climate_common import amounts
from climate_core.calendar.model import Demand, Unit
from climate_hosts.plugins.lanes import options as lane_options
from climate_hosts.plugins.lanes import plugin as lane_plugin

if TYPE_CHECKING:
    from climate_core.lease.model import Allocation

#: The name of the amount that Blazar's clients send.
_AFFINITIES: Final = {'None': None, 'True': True, 'False': False}
#: What reservations of this kind have in common.
SCHEMA: Final[Mapping[str, Any]] = {
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
    **lane_options.SCHEMA,
}


class RoomPlugin(lane_plugin.LanePlugin):
    """Reserve room for servers; a subclass says of which shape."""

    changeable = ('amount', 'affinity', *lane_options.CHANGEABLE)
    amount_field = most_field = 'amount'
    noun = 'servers'

    @abc.abstractmethod
    def _piece(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        """Return what one server takes of its host: by unit, or by resource class."""

    def _sizes(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        """Return what one server counts for with the limits of its project, by unit."""
        return self._piece(params)

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        params = lane_options.given(values, self.schema, amount=1, affinity=None)
        affinity = params['affinity']
        return params | {'affinity': _AFFINITIES.get(affinity, affinity)}

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        amount = params['amount']
        held = {unit: amount * size for unit, size in self._sizes(params).items()}
        return {amounts.SERVERS: amount, **held}

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        amount, affinity = params['amount'], params.get('affinity')
        piece = {unit: size for unit, size in self._piece(params).items() if size}
        common = self._common(params)
        return Demand(
            least=amount,
            most=amount,
            piece=piece,
            one_unit=affinity is True,
            most_per_unit=1 if affinity is False else None,
            **common | {'matches': _with_flavor(common['matches'], piece, params)},
        )

    def _slots(self, allocation: 'Allocation') -> int:
        return allocation.pieces


def _with_flavor(
    matches: Callable[[Unit], bool], piece: Mapping[str, int], params: Mapping[str, Any]
) -> Callable[[Unit], bool]:
    """Return whether a host matches, and can have servers that take this of it.

    An amount of a resource class comes from one provider, so of a class that several of a host
    have no more than 1 can be promised to each server; and Placement takes no other amounts than
    those of the units of its inventory.
    """
    required = frozenset(params.get('_required', ()))
    forbidden = frozenset(params.get('_forbidden', ()))
    large = frozenset(name for name, amount in piece.items() if amount > 1)

    def all_match(unit: Unit) -> bool:
        properties = unit.properties
        return (
            required.issubset(properties.get('root_traits', ()))
            and forbidden.isdisjoint(properties.get('traits', ()))
            and large.isdisjoint(properties.get('divided', ()))
            and all(map(_is_unit, piece.values(), map(properties.get('units', {}).get, piece)))
            and matches(unit)
        )

    return all_match


def _is_unit(amount: int, units: Sequence[int] | None) -> bool:
    """Tell whether one server may have so much: at least, at most, and the step between."""
    return not units or (units[0] <= amount <= units[1] and amount % units[2] == 0)
