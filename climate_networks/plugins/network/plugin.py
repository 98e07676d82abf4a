# SPDX-License-Identifier: Apache-2.0
"""``network``: a network on a segment of its own, which the calendar promises.

Which segment is known when the lease is made, so that a switch or a stitching port can be
prepared. At the start the network is created in the project of the lease; subnets are its owner's
business. At the end it is torn down with all that is in it, and its segment is promised to the
next lease only when that is done. Neutron is asked with the rights of the service: owners may not
choose a segment, and ports of other projects may be in the way.

Only what was made for the reservation is ever deleted: what has the id that is remembered, or the
mark that it was created with, never whatever is on its segment.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import amounts, limits, resource_types
from climate_core import exceptions
from climate_core.calendar.model import AllocationRequest, Demand, Shortage, Unit
from climate_core.cloud import errors, neutron
from climate_core.plugins import calendar_plugin, filters
from climate_core.plugins.base import Done, PollAgain, ReservedResource
from climate_networks.cloud import segments
from climate_networks.domain import marks
from climate_networks.domain.networks import FACTS, KIND, MADE, TYPES, Segment
from climate_networks.plugins import made_in_neutron
from climate_networks.plugins.network import teardown

if TYPE_CHECKING:
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

_NOUN: Final = 'network segment'
_EXAMPLES: Final = filters.Examples(
    'as ["and", ["==", "$physical_network", "physnet1"], ["==", "$switch", "tor1"]]',
    'as physical_network==physnet1,switch==tor1',
)
#: What is kept of what chose the segment of a network that is made.
_CHOSEN_BY: Final = 'chosen_by'
#: What the network is created with.
_OF_OWNER: Final[Mapping[str, Any]] = {
    'network_name': {**limits.NAME_SCHEMA, 'description': 'The name of the network.'},
    'network_description': {
        'type': ['string', 'null'],
        'maxLength': limits.NAME_LENGTH,
        'description': 'The description of the network.',
    },
    'network_tags': {
        'type': ['array', 'null'],
        'items': {
            'type': 'string',
            'minLength': 1,
            'maxLength': 60,
            'pattern': limits.json_pattern(f'[^,/{limits.CONTROL}]*'),
            'description': 'a tag must have neither a comma nor a slash nor control characters.',
        },
        'uniqueItems': True,
        'maxItems': 40,
        'description': 'Tags of the network, beside that of the reservation.',
    },
}
#: What chooses the segment.
_FILTERS: Final[Mapping[str, Any]] = {
    'network_type': {
        'type': ['string', 'null'],
        'enum': [*TYPES, None],
        'description': 'The type of the segment; by default any.',
    },
    'physical_network': {
        'type': ['string', 'null'],
        'maxLength': limits.NAME_LENGTH,
        'pattern': limits.json_pattern(limits.TEXT_PATTERN),
        'description': 'The physical network of the segment; by default any.',
    },
    'segment_id': {
        'type': ['integer', 'null'],
        'minimum': 1,
        'maximum': max(TYPES.values()),
        'description': 'The number of the segment; by default any.',
    },
    'network_properties': {**filters.SCHEMA['resource_properties']},
    'resource_properties': {**filters.SCHEMA['resource_properties']},
    'resources': {**filters.SCHEMA['resources'], 'description': 'Conditions, as switch==tor1.'},
}


class NetworkPlugin(made_in_neutron.MadeInNeutronPlugin):
    """Reserve networks."""

    resource_type = resource_types.NETWORK
    title = 'Network'
    description = 'A network on a segment that is known from now on, for as long as the lease.'
    options = (calendar_plugin.CLEANING_OPTION,)
    schema: ClassVar[Mapping[str, Any]] = {
        **_OF_OWNER,
        **_FILTERS,
    }
    required = ('network_name',)
    changeable = (*_OF_OWNER, *_FILTERS)
    # From then on the owner of the network does that, as with any other.
    until_start: ClassVar[Mapping[str, str]] = dict.fromkeys(
        _OF_OWNER, 'Change the network itself, with openstack network set.'
    )
    # Servers and stacks use networks: they are there before them, and are gone after them.
    rank = 4
    unit_kind = KIND
    amount_field = 'resource_type'
    noun = f'{_NOUN}s'
    neutron_noun = 'network'

    def reserve(self, context: 'RequestContext', values: Mapping[str, Any]) -> ReservedResource:
        return self._claim(self._params(values) | calendar_plugin.owner_params(context))

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # Clients of Blazar send empty texts for what is not said.
        usual: dict[str, Any] = {name: values.get(name) or None for name in self.schema}
        empty = dict.fromkeys(('network_properties', 'resource_properties'), '')
        return usual | {name: usual[name] or each for name, each in empty.items()}

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:  # noqa: ARG002
        return {amounts.NETWORKS: 1}

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        wanted = filters.compile_filter(_conditions(params), _NOUN, _EXAMPLES)
        facts = {name: params[name] for name in FACTS if params.get(name) is not None}

        def admits(unit: Unit) -> bool:
            return calendar_plugin.admits_owner(params, unit)

        def matches(unit: Unit) -> bool:
            known = _known(unit)
            return facts.items() <= known.items() and admits(unit) and wanted.matches(known)

        def lacking(units: Sequence[Unit]) -> Shortage | None:
            every = [_known(each) for each in units]
            for name, value in facts.items():
                every = [each for each in every if each.get(name) == value]
                if not every:
                    told = ', '.join(f'{n} {v}' for n, v in facts.items())
                    return Shortage(f'no {_NOUN} with {told} is registered for leases', name)
            return wanted.lacking(every)

        return Demand(
            kind=KIND,
            least=1,
            most=1,
            matches=matches,
            admits=admits,
            named='segment_id' in facts,
            name=lambda unit: str(Segment.of(unit.properties)),
            # What has no property of this name has an id nevertheless.
            names={name: field for name, field in wanted.names.items() if name != 'id'},
            unknown=exceptions.UnknownSegmentProperty,
            lacking=lacking,
        )

    def wanted(self, reservation: 'Reservation') -> AllocationRequest:
        wanted, kept = super().wanted(reservation), reservation.progress or {}
        for name, value in kept.get(_CHOSEN_BY, {}).items():
            if reservation.params[name] != value:
                segment = Segment.of(reservation.allocations[0].unit)
                raise exceptions.BadRequest(
                    f'{name}: cannot be changed any more: the network is there, and keeps its '
                    f'segment, {segment}.',
                    field=name,
                )
        if reservation.params.get('segment_id') is not None:
            wanted = dataclasses.replace(wanted, field='segment_id')
        if MADE not in kept:
            return wanted
        had = {each.unit_id for each in reservation.allocations}
        demand = dataclasses.replace(wanted.demand, matches=lambda unit: unit.id in had)
        return dataclasses.replace(wanted, demand=demand)

    def wake_up(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done:
        """Create the network; without a request if it is known to be made.

        :raises climate_core.exceptions.Permanent: the calendar promises it nothing, or Neutron
            does not know such a segment
        """
        self._check_allocated(reservation)
        if reservation.progress and MADE in reservation.progress:
            return Done(reservation.progress)
        (allocation,) = reservation.allocations
        segment = Segment.of(allocation.unit)
        told = made_in_neutron.NOT_FREE.format(segment)
        wait = self._wait_for_unit(lease, allocation, told)
        return wait or self._make(lease, reservation, segment)

    def _make(
        self, lease: 'Lease', reservation: 'Reservation', segment: Segment
    ) -> PollAgain | Done:
        """Create the network, or take over the one that an earlier try has made."""
        conn, params = self.cloud.service(), reservation.params
        wanted = made_in_neutron.NeutronRequest(
            noun=self.neutron_noun,
            plural='networks',
            name=str(segment),
            values={'name': params['network_name'], **segments.provider(segment)},
            tags=params['network_tags'] or (),
            find=lambda: segments.find(conn, segment),
            # Only networks have segments, and all are seen.
            find_holder=dict,
        )
        found = wanted.find()
        try:
            there = made_in_neutron.make(conn, wanted, lease, reservation, found, ())
        except errors.Gone as exc:
            told = f'The network was deleted while it was made: {exc}'
            raise exceptions.Transient(told) from exc
        if isinstance(there, PollAgain):
            return there
        made = str(there['id'])
        described = params['network_description']
        if described and there['description'] == marks.mark(reservation.id):
            # By now it is known by its tag.
            neutron.update(conn, self.neutron_noun, made, {'description': described})
        chosen_by = {name: params[name] for name in _FILTERS}
        return Done({MADE: made, _CHOSEN_BY: chosen_by})

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Block servers and stacks, which may use it; hosts, volumes and addresses do not."""
        return other.resource_type in (resource_types.SERVER, resource_types.STACK)

    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Tear the network down, with all that is in it."""
        conn = self.cloud.service()
        for each in self._made(lease, reservation):
            teardown.tear_down(conn, each)
        return None

    def _made(self, lease: 'Lease', reservation: 'Reservation') -> Sequence[str]:
        """Return the ids of what was made; asks Neutron if none is known."""
        if reservation.progress and MADE in reservation.progress:
            return [reservation.progress[MADE]]
        promises = (*reservation.allocations, *reservation.released)
        found = [segments.find(self.cloud.service(), Segment.of(each.unit)) for each in promises]
        return [
            str(each['id'])
            for each in found
            if each is not None and made_in_neutron.is_ours(each, lease, reservation, ())
        ]

    def find_missing(self, reservations: Sequence['Reservation']) -> Mapping[str, str]:
        made = {e.id: e.progress[MADE] for e in reservations if e.progress and MADE in e.progress}
        if not made:
            return {}
        names = {each.id: each.params['network_name'] for each in reservations}
        conn = self.cloud.service()
        # Without the right to see every project each network would look gone.
        neutron.check_all_visible(conn, 'networks')
        there = neutron.find_existing(conn, self.neutron_noun, made.values())
        return {
            reservation_id: f'Network {names[reservation_id]} ({each}) was deleted outside of '
            'the lease.'
            for reservation_id, each in made.items()
            if each not in there
        }

    def discard(self, resource_id: str) -> None:
        teardown.tear_down(self.cloud.service(), resource_id)


def _conditions(params: Mapping[str, Any]) -> dict[str, Any]:
    names = ('network_properties', 'resource_properties', 'resources')
    return {name: params[name] for name in names if params.get(name)}


def _known(unit: Unit) -> dict[str, Any]:
    """Return what filters look at."""
    return {**unit.properties, 'id': str(unit.id)}
