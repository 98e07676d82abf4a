# SPDX-License-Identifier: Apache-2.0
"""Reserve capacity for a number of servers of one shape on hosts that many leases share.

The calendar counts what a server takes of each host; Placement counts the servers that are
in, by the slots of the lanes. ``flavor:instance`` takes a flavor; ``virtual:instance`` of
Blazar takes sizes.

Both have a private flavor of the reservation, as in Blazar (:mod:`climate_hosts.flavors`). The
projects that may enter have access to it, and its extra spec ``climate:reservation`` lets
nova-scheduler know the reservation without a hint. Servers of any flavor that gives the same may
enter with the hint.

Blazar creates its flavor while the user waits for the response, and leaves it behind when the
lease is not written after all. The response names the flavor, but no user can boot with it
before the start. So here events create it, which are durable: ``prepare_reservation``,
shortly before the start, and the start, which finds it or creates it. ``flavor_id`` is in the
response from the beginning: it is the reservation's own id. The end deletes it, when no server
is left. Blazar's server group and aggregate are not needed: the calendar decides which host
has capacity for how many, and Placement enforces it; ``server_group_id`` and ``aggregate_id``
are null.
"""

import abc
import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from oslo_config import cfg

from climate_common import lanes, limits, resource_types
from climate_core import exceptions
from climate_core.calendar.model import Demand, Unit
from climate_core.cloud import errors, servers
from climate_core.plugins import filters, flavor_demand
from climate_core.plugins.base import Done, PollAgain
from climate_hosts import flavors, nova
from climate_hosts.plugins import lane_options, lane_plugin

if TYPE_CHECKING:
    from climate_core.context import RequestContext
    from climate_core.lease.model import AllocatedUnit, Lease, Reservation

#: The values of ``affinity`` that Blazar's clients send.
_AFFINITIES: Final = {
    **dict.fromkeys(('', 'None', 'none')),
    **dict.fromkeys(('True', 'true'), True),
    **dict.fromkeys(('False', 'false'), False),
}
#: What reservations of this kind have in common.
SCHEMA: Final[Mapping[str, Any]] = {
    'amount': {
        'type': 'integer',
        'minimum': 1,
        'maximum': 100_000,
        'description': 'Number of servers. By default 1.',
    },
    'affinity': {
        'enum': [None, True, False, *_AFFINITIES],
        'description': 'true: all on one host; false: each on another one; null: anywhere. '
        "Blazar's clients send these as texts.",
    },
    **lane_options.SCHEMA,
}
#: The key of the flavor in the progress of a reservation: it was created before the start.
_FLAVOR: Final = 'flavor'


class ServerCapacityPlugin(lane_plugin.LanePlugin):
    """Reserve capacity for servers; a subclass defines their shape."""

    changeable = ('amount', 'affinity', *lane_options.CHANGEABLE)
    amount_field = most_field = 'amount'
    noun = 'servers'

    @abc.abstractmethod
    def _flavor(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what servers get, as the fields of a flavor in nova-api."""

    def _shape(self, params: Mapping[str, Any]) -> str | None:
        return lanes.flavor_shape(self._flavor(params))

    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        params = self._with_defaults(values, amount=1, affinity=None)
        affinity = params['affinity']
        return params | {'affinity': _AFFINITIES.get(affinity, affinity)}

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        amount, sizes = params['amount'], servers.read_flavor_sizes(self._flavor(params))
        return {
            resource_types.SERVERS: amount,
            **{unit: amount * size for unit, size in sizes.items()},
        }

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        amount, affinity = params['amount'], params.get('affinity')
        common = self._demand_fields(params)
        return Demand(
            min_pieces=amount,
            max_pieces=amount,
            piece=common['unit_filter'].piece,
            single_unit=affinity is True,
            max_per_unit=1 if affinity is False else None,
            **common,
        )

    def _filter(self, conditions: filters.Filter, params: Mapping[str, Any]) -> 'FlavorFilter':
        return FlavorFilter(conditions, flavor_demand.read_demand(self._flavor(params)))

    def _slots(self, allocation: 'AllocatedUnit') -> int:
        return allocation.pieces

    def prepare(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done | None:
        """Create the flavor, and prepare the lanes, closed."""
        self._create_flavor(lease, reservation)
        prepared = super().prepare(lease, reservation)
        if not isinstance(prepared, Done):
            return prepared
        return Done({**(prepared.progress or {}), _FLAVOR: True})

    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Open a lane of each host to servers of the flavor, which is created if it is missing.

        :raises climate_core.exceptions.Permanent: Nova rejects the flavor, for example because it
            has no such project in ``share_with``
        """
        prepared = (reservation.progress or {}).get(_FLAVOR)
        # The flavor may have been deleted: without it no server could enter.
        if not prepared or not nova.flavor_exists(self.cloud.service(), reservation.id):
            self._create_flavor(lease, reservation)
        return super().start(lease, reservation)

    def _create_flavor(self, lease: 'Lease', reservation: 'Reservation') -> None:
        nova.create_reservation_flavor(
            self.cloud.service(),
            reservation.id,
            self._flavor(reservation.params),
            {lease.project_id, *reservation.params.get('share_with', ())},
        )

    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Close the lanes, remove the servers that are in them, then delete the flavor."""
        wait = super().end(lease, reservation)
        if wait is None:
            nova.delete_flavor(self.cloud.service(), reservation.id)
        return wait


class FlavorFilter(lane_plugin.HostFilter):
    """The hosts that satisfy conditions, and can have servers that take a piece of them.

    An amount of a resource class comes from one provider. So of a class that several providers of
    a host have, no more than 1 can be allocated to each server; and Placement accepts only amounts
    that match the units of its inventory.

    :ivar piece: the amounts of a host that a server takes
    """

    def __init__(self, conditions: filters.Filter, demand: flavor_demand.FlavorDemand) -> None:
        super().__init__(conditions)
        self.piece = demand.piece
        self._required = demand.required
        self._forbidden = demand.forbidden
        self._large = frozenset(name for name, amount in self.piece.items() if amount > 1)

    def matches(self, unit: Unit) -> bool:
        properties, piece = unit.properties, self.piece
        return (
            self._required.issubset(properties.get('root_traits', ()))
            and self._forbidden.isdisjoint(properties.get('traits', ()))
            and self._large.isdisjoint(properties.get('divided', ()))
            and all(map(_is_unit, piece.values(), map(properties.get('units', {}).get, piece)))
            and super().matches(unit)
        )


def _is_unit(amount: int, units: Sequence[int] | None) -> bool:
    """Return whether a server may have an amount: at least, at most, and the step between."""
    return not units or (units[0] <= amount <= units[1] and amount % units[2] == 0)


class CapacityPlugin(ServerCapacityPlugin):
    """Reserve capacity for servers of an existing flavor."""

    resource_type = resource_types.CAPACITY
    title = 'Capacity'
    description = 'Capacity for servers of one flavor on hosts of a pool that many leases share.'
    schema: ClassVar[Mapping[str, Any]] = {
        'flavor_id': {
            'type': 'string',
            'minLength': 1,
            'maxLength': limits.NAME_LENGTH,
            'description': 'The id of the flavor of the servers.',
        },
        **SCHEMA,
    }
    required = ('flavor_id',)

    def _check_request(
        self, context: 'RequestContext', values: Mapping[str, Any]
    ) -> dict[str, Any]:
        with errors.for_user('flavor_id'):
            flavor = servers.get_flavor(self.cloud.user(context), values['flavor_id'])
            hidden = 'extra_specs' not in flavor
            if hidden:
                # The user may see the flavor, but not these.
                flavor = servers.get_flavor(self.cloud.service(), values['flavor_id'])
        flavor_demand.read_demand(flavor)
        return self._normalized_params(values) | flavors.source_params(flavor, hidden)

    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return super()._normalized_params(flavors.drop_shown(values))

    def _flavor(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return flavors.source(params)


def _size(minimum: int, description: str) -> dict[str, Any]:
    return {
        'type': 'integer',
        'minimum': minimum,
        'maximum': 2**31 - 1,
        'description': description,
    }


class SizesPlugin(ServerCapacityPlugin):
    """Reserve capacity for servers of given sizes, with a dedicated flavor."""

    resource_type = resource_types.SIZES
    title = 'Capacity by sizes'
    description = (
        'Capacity for servers of given sizes on hosts of a pool that many leases share. They boot '
        'with the flavor that has the id of the reservation.'
    )
    schema: ClassVar[Mapping[str, Any]] = {
        resource_types.VCPUS: _size(1, 'The CPUs of each server.'),
        resource_types.MEMORY_MB: _size(1, 'The memory of each server in MiB.'),
        resource_types.DISK_GB: _size(0, 'The disk of each server in GiB.'),
        'ephemeral_gb': _size(0, 'The ephemeral disk of each server in GiB. By default 0.'),
        'extra_specs': {
            'type': 'object',
            'maxProperties': 25,
            'propertyNames': {'pattern': limits.json_pattern('[a-zA-Z0-9_:. -]{1,255}')},
            'additionalProperties': {
                'type': 'string',
                'maxLength': limits.NAME_LENGTH,
                'pattern': limits.json_pattern(limits.TEXT_PATTERN),
            },
            'description': 'Extra specs of the flavor. The operator sets which are allowed.',
        },
        **SCHEMA,
    }
    required = (resource_types.VCPUS, resource_types.MEMORY_MB, resource_types.DISK_GB)
    options = (
        *lane_options.OPTIONS,
        cfg.ListOpt(
            'extra_specs',
            default=['trait:*'],
            help='Extra specs that users may request for the flavor of a reservation by sizes: '
            'names, or patterns with wildcards. Climate creates the flavor with its own rights, '
            'so a user gets what otherwise only administrators of Nova grant by a flavor.',
        ),
    )

    def _check_request(
        self,
        context: 'RequestContext',  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> dict[str, Any]:
        params = self._normalized_params(values)
        allowed = self.conf[self.resource_type].extra_specs
        for name in sorted(params.get('extra_specs', ())):
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed):
                raise exceptions.BadRequest(
                    f'extra_specs: {name} is not allowed here, only '
                    f'{", ".join(allowed) or "none"}.',
                    field='extra_specs',
                )
        try:
            flavor_demand.read_demand(self._flavor(params))
        except exceptions.BadRequest as exc:
            message = exc.message.removeprefix('flavor_id: ')
            raise exceptions.BadRequest(f'extra_specs: {message}', field='extra_specs') from None
        return params

    def _flavor(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return flavors.by_sizes(params)
