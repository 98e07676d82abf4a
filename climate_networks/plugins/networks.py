# SPDX-License-Identifier: Apache-2.0
"""``network``: networks on a segment that the calendar allocates.

A network is created at the start of its lease and torn down at the end, with all that users have
put into it. Their ports go first, which removes the floating IPs and port forwardings of these; a
router releases a subnet only then. A rejection of Neutron prevents no other step, and is retried.

The owner of a network may create ports in it that claim to be of a router or of another part of
the network, and are not. They are found when the network cannot be deleted, and go then.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import limits, resource_types
from climate_core import exceptions
from climate_core.calendar.model import Demand, Shortage, Unit, UnitFilter
from climate_core.cloud import errors, neutron
from climate_core.plugins import calendar_plugin, filters
from climate_core.plugins.base import Done, PollAgain, ReservedResource
from climate_networks import cloud
from climate_networks.plugins import neutron_resource
from climate_networks.units import NETWORK_ID, NETWORK_TYPES, SEGMENT_FACTS, SEGMENT_KIND, Segment

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import Lease, Reservation

_NOUN: Final = 'network segment'
_EXAMPLES: Final = filters.Examples(
    'as ["and", ["==", "$physical_network", "physnet1"], ["==", "$switch", "tor1"]]',
    'as physical_network==physnet1,switch==tor1',
)
#: Key in the progress of a reservation: the values that chose the segment of its network.
_CHOSEN_BY: Final = 'chosen_by'
#: The fields with which the network is created.
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
#: The fields that choose the segment.
_FILTERS: Final[Mapping[str, Any]] = {
    'network_type': {
        'type': ['string', 'null'],
        'enum': [*NETWORK_TYPES, None],
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
        'maximum': max(NETWORK_TYPES.values()),
        'description': 'The number of the segment; by default any.',
    },
    'network_properties': {**filters.SCHEMA['resource_properties']},
    'resource_properties': {**filters.SCHEMA['resource_properties']},
    'resources': {**filters.SCHEMA['resources'], 'description': 'Conditions, as switch==tor1.'},
}


class SegmentFilter(UnitFilter):
    """The segments with the facts and conditions of a reservation.

    :param facts: name of a property -> its value
    """

    def __init__(self, facts: Mapping[str, Any], conditions: filters.Filter) -> None:
        self._facts = facts
        self._conditions = conditions

    def matches(self, unit: Unit) -> bool:
        properties = _filtered_properties(unit)
        return self._facts.items() <= properties.items() and self._conditions.matches(properties)

    def find_shortage(self, units: Sequence[Unit]) -> Shortage | None:
        listed = [_filtered_properties(unit) for unit in units]
        for name, value in self._facts.items():
            listed = [properties for properties in listed if properties.get(name) == value]
            if not listed:
                facts = ', '.join(f'{n} {v}' for n, v in self._facts.items())
                return Shortage(f'no {_NOUN} with {facts} is registered for leases', name)
        return self._conditions.find_shortage(listed)

    def unit_name(self, unit: Unit) -> str:
        return str(Segment.of(unit.properties))


class NetworkPlugin(neutron_resource.NeutronResourcePlugin):
    """Reserve networks."""

    resource_type = resource_types.NETWORK
    title = 'Network'
    description = (
        'A network for the duration of the lease, on a segment that is known from its creation on.'
    )
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
    # Servers and stacks use networks: networks are created before them, and deleted after them.
    rank = 4
    unit_kind = SEGMENT_KIND
    amount_field = 'resource_type'
    noun = f'{_NOUN}s'
    neutron_noun = 'network'
    neutron_plural = 'networks'

    def reserve(
        self,
        context: 'RequestContext',
        values: Mapping[str, Any],
        lease_id: str = '',  # noqa: ARG002
    ) -> ReservedResource:
        return self._build_reserved(
            self._normalized_params(values) | calendar_plugin.owner_params(context)
        )

    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # Clients of Blazar send empty texts for omitted fields.
        normalized: dict[str, Any] = {name: values.get(name) or None for name in self.schema}
        empty = dict.fromkeys(('network_properties', 'resource_properties'), '')
        return normalized | {name: normalized[name] or each for name, each in empty.items()}

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:  # noqa: ARG002
        return {resource_types.NETWORKS: 1}

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        conditions = filters.compile_filter(_conditions(params), _NOUN, _EXAMPLES)
        facts = {name: params[name] for name in SEGMENT_FACTS if params.get(name) is not None}
        return Demand(
            kind=SEGMENT_KIND,
            min_pieces=1,
            max_pieces=1,
            owner=calendar_plugin.owner_of(params),
            unit_filter=SegmentFilter(facts, conditions),
            names_units='segment_id' in facts,
            # What has no property of this name has an id nevertheless.
            property_fields={
                name: field for name, field in conditions.names.items() if name != 'id'
            },
            unknown_property=exceptions.UnknownSegmentProperty,
        )

    def read_demand(self, reservation: 'Reservation') -> Demand:
        demand, progress = super().read_demand(reservation), reservation.progress or {}
        for name, value in progress.get(_CHOSEN_BY, {}).items():
            if reservation.params[name] != value:
                segment = Segment.of(reservation.allocations[0].unit)
                raise exceptions.BadRequest(
                    f'{name}: cannot be changed any more: the network exists, and keeps its '
                    f'segment, {segment}.',
                    field=name,
                )
        if reservation.params.get('segment_id') is not None:
            demand = dataclasses.replace(demand, field='segment_id')
        if NETWORK_ID not in progress:
            return demand
        had = frozenset(allocation.unit_id for allocation in reservation.allocations)
        return dataclasses.replace(demand, unit_ids=had)

    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done:
        """Create the network; without a request if it is known to exist.

        :raises climate_core.exceptions.Permanent: the calendar allocates it nothing, or Neutron
            does not know such a segment
        """
        self._check_allocated(reservation)
        if reservation.progress and NETWORK_ID in reservation.progress:
            return Done(reservation.progress)
        (allocation,) = reservation.allocations
        segment = Segment.of(allocation.unit)
        reason = neutron_resource.NOT_FREE.format(segment)
        wait = self._wait_for_unit(lease, allocation, reason)
        return wait or self._create_network(lease, reservation, segment)

    def _create_network(
        self, lease: 'Lease', reservation: 'Reservation', segment: Segment
    ) -> PollAgain | Done:
        """Create the network, or take over the one that an earlier try has created."""
        conn, params = self.cloud.service(), reservation.params
        values = {'name': params['network_name'], **cloud.provider_attributes(segment)}
        existing = self._find(reservation, segment)
        try:
            network = self._create_once(
                lease, reservation, segment, values, existing, tags=params['network_tags'] or ()
            )
        except errors.Gone as exc:
            reason = f'The network was deleted while it was created: {exc}'
            raise exceptions.Transient(reason) from exc
        if isinstance(network, PollAgain):
            return network
        network_id = str(network['id'])
        described = params['network_description']
        if described and network['description'] == cloud.mark(reservation.id):
            # By now it is known by its tag.
            neutron.update(conn, self.neutron_noun, network_id, {'description': described})
        chosen_by = {name: params[name] for name in _FILTERS}
        return Done({NETWORK_ID: network_id, _CHOSEN_BY: chosen_by})

    def _find(self, reservation: 'Reservation', unit: Segment) -> Mapping[str, Any] | None:  # noqa: ARG002
        return cloud.find_network(self.cloud.service(), unit)

    def _find_holder(self, reservation: 'Reservation', unit: Segment) -> Mapping[str, Any]:  # noqa: ARG002
        """Return nothing: only networks have segments, and all are visible."""
        return {}

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Block servers and stacks, which may use it; hosts, volumes and addresses do not."""
        return other.resource_type in (resource_types.SERVER, resource_types.STACK)

    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Tear the network down, with all that is in it."""
        conn = self.cloud.service()
        for each in self._created_ids(lease, reservation):
            tear_down(conn, each)
        return None

    def _created_ids(self, lease: 'Lease', reservation: 'Reservation') -> Sequence[str]:
        """Return the ids of the created networks; call Neutron if none is known."""
        if reservation.progress and NETWORK_ID in reservation.progress:
            return [reservation.progress[NETWORK_ID]]
        allocations = (*reservation.allocations, *reservation.released)
        networks = [
            cloud.find_network(self.cloud.service(), Segment.of(each.unit)) for each in allocations
        ]
        return [
            str(each['id'])
            for each in networks
            if each is not None and neutron_resource.is_ours(each, lease, reservation, ())
        ]

    def reconcile(
        self, pages: Iterable[Sequence['Reservation']]
    ) -> Iterator[tuple['Reservation', str]]:
        for page in pages:
            created = [
                (reservation, reservation.progress[NETWORK_ID])
                for reservation in page
                if reservation.progress and NETWORK_ID in reservation.progress
            ]
            if not created:
                continue
            conn = self.cloud.service()
            # Without the right to see every project each network would seem deleted.
            neutron.check_all_visible(conn, 'networks')
            existing = neutron.find_existing(
                conn, self.neutron_noun, [each for _, each in created]
            )
            for reservation, network_id in created:
                if network_id not in existing:
                    name = reservation.params['network_name']
                    yield (
                        reservation,
                        f'Network {name} ({network_id}) was deleted outside of the lease.',
                    )

    def discard(self, resource_id: str) -> None:
        tear_down(self.cloud.service(), resource_id)


def _conditions(params: Mapping[str, Any]) -> dict[str, Any]:
    names = ('network_properties', 'resource_properties', 'resources')
    return {name: params[name] for name in names if params.get(name)}


def _filtered_properties(unit: Unit) -> dict[str, Any]:
    """Return the properties that filters match."""
    return {**unit.properties, 'id': str(unit.id)}


def tear_down(conn: 'connections.Connection', network_id: str) -> None:
    """Delete a network with its ports and router interfaces; one that is gone is fine.

    :raises climate_core.exceptions.Transient: Neutron rejects a part; the rest is done
    """
    ports = neutron.list_ports(conn, network_id)
    used = [
        each for each in ports if not each['device_owner'].startswith(neutron.NETWORK_PORT_PREFIX)
    ]
    interfaces = [each for each in ports if each['device_owner'] in neutron.ROUTER_INTERFACES]
    steps: list[Callable[[], None]] = [
        *(functools.partial(neutron.delete_port, conn, each) for each in used),
        *(functools.partial(neutron.remove_interface, conn, each) for each in interfaces),
    ]
    neutron_resource.delete_all(lambda step: step(), steps)
    try:
        neutron.delete_network(conn, network_id)
    except errors.Busy:
        _delete_rest(conn, network_id)
        neutron.delete_network(conn, network_id)


def _delete_rest(conn: 'connections.Connection', network_id: str) -> None:
    """Delete the ports that are left in a network whose routers have released it."""
    left = neutron.list_ports(conn, network_id)
    neutron_resource.delete_all(
        lambda port: neutron.force_delete_port(conn, port),
        [each for each in left if each['device_owner'] not in neutron.DELETED_WITH_NETWORK],
    )
