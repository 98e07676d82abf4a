# SPDX-License-Identifier: Apache-2.0
"""``virtual:floatingip``: floating IPs that the calendar allocates.

The addresses are known when the lease is created, so that names and certificates can be prepared.
At the start they are created in the project of the lease, at the end deleted. Neutron is called
with the rights of the service: owners may not choose an address.

Only what was created for the reservation is ever deleted: what has the saved id, or the
mark that it was created with, never whatever has its address. The mark closes the time between a
creation and the moment at which its id is saved.
"""

import collections
import dataclasses
import datetime
import ipaddress
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from climate_common import resource_types, words
from climate_core import exceptions
from climate_core.calendar.model import Demand, Shortage, Unit, UnitFilter
from climate_core.cloud import errors, neutron
from climate_core.lease.states import ReservationStatus
from climate_core.plugins import calendar_plugin, own_service_plugin
from climate_core.plugins.base import Done, PollAgain, ReservedResource, Shrinkable
from climate_core.plugins.step_context import EndContext, StepContext
from climate_networks import cloud
from climate_networks.plugins import neutron_resource
from climate_networks.units import FLOATING_IP_KIND

if TYPE_CHECKING:
    from climate_core.cloud import connections
    from climate_core.context import RequestContext
    from climate_core.lease.model import AllocatedUnit, Lease, Reservation

#: Maximum number of addresses of a reservation.
_MOST: Final = 100
#: Key in the progress of a reservation: the created floating IPs, address -> id.
_MADE: Final = 'floatingips'


class AddressFilter(UnitFilter):
    """The addresses of a network, or those that a reservation requires.

    :param required: none for any address
    """

    def __init__(self, network_id: str, required: Collection[str]) -> None:
        self._network_id = network_id
        self._required = required

    def matches(self, unit: Unit) -> bool:
        properties, required = unit.properties, self._required
        return properties['network_id'] == self._network_id and (
            not required or properties['address'] in required
        )

    def find_shortage(self, units: Sequence[Unit]) -> Shortage:
        """Return which of the required addresses are not registered in their network."""
        network_id = self._network_id
        networks: dict[str, set[str]] = collections.defaultdict(set)
        for unit in units:
            networks[unit.properties['network_id']].add(unit.properties['address'])
        if not self._required or network_id not in networks:
            return Shortage(
                f'no floating IP of network {network_id} is registered for leases', 'network_id'
            )
        missing = sorted({*self._required} - networks[network_id], key=ipaddress.IPv4Address)
        verb = 'is' if len(missing) == 1 else 'are'
        text = f'{words.listed(missing)} {verb} not registered for leases in network {network_id}'
        others = {
            address: other
            for other, addresses in sorted(networks.items())
            for address in addresses.intersection(missing)
        }
        for address in filter(others.get, missing):
            text += f'; {address} is one of network {others[address]}'
        return Shortage(text, 'required_floatingips')

    def unit_name(self, unit: Unit) -> str:
        return str(unit.properties['address'])


class FloatingIpPlugin(neutron_resource.NeutronResourcePlugin, Shrinkable):
    """Reserve floating IPs."""

    resource_type = resource_types.FLOATING_IP
    title = 'Floating IP'
    description = (
        'Floating IPs, known from the creation of the lease on, active from its start on.'
    )
    options = (calendar_plugin.CLEANING_OPTION,)
    schema: ClassVar[Mapping[str, Any]] = {
        'network_id': {
            'type': 'string',
            'format': 'uuid',
            'description': 'The external network.',
        },
        'amount': {
            'type': 'integer',
            'minimum': 1,
            'maximum': _MOST,
            'description': 'Number of addresses; by default that of the required ones, or 1.',
        },
        'required_floatingips': {
            'type': 'array',
            'items': {'type': 'string', 'format': 'ipv4'},
            'uniqueItems': True,
            'maxItems': _MOST,
            'description': 'The addresses that it must have, all of them; by default any.',
        },
    }
    required = ('network_id',)
    changeable = ('amount', 'required_floatingips')
    # Servers and stacks use addresses, and a template may use one before it exists: addresses are
    # created before them, and deleted after them.
    rank = 3
    unit_kind = FLOATING_IP_KIND
    amount_field = 'amount'
    noun = 'floating IPs'
    neutron_noun = 'floatingip'
    neutron_plural = noun

    def reserve(
        self,
        context: 'RequestContext',  # noqa: ARG002
        values: Mapping[str, Any],
        lease_id: str = '',  # noqa: ARG002
    ) -> ReservedResource:
        return self._build_reserved(self._normalized_params(values))

    def _normalized_params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        required = list(values.get('required_floatingips') or ())
        return {
            'network_id': values.get('network_id'),
            'amount': values.get('amount', len(required) or 1),
            'required_floatingips': required,
        }

    def amounts(self, params: Mapping[str, Any]) -> Mapping[str, int]:
        return {resource_types.FLOATING_IPS: params['amount']}

    def _demand(self, params: Mapping[str, Any]) -> Demand:
        network_id, amount = params['network_id'], params['amount']
        required = frozenset(params['required_floatingips'])
        if required and len(required) != amount:
            raise exceptions.BadRequest(
                f'required_floatingips: must name all {amount} addresses of the amount, or none, '
                f'not {len(required)}. Request others in another reservation of the same lease.',
                field='required_floatingips',
            )

        return Demand(
            kind=FLOATING_IP_KIND,
            min_pieces=amount,
            max_pieces=amount,
            unit_filter=AddressFilter(network_id, required),
            names_units=bool(required),
        )

    def read_demand(self, reservation: 'Reservation') -> Demand:
        required = reservation.params['required_floatingips']
        had = {_address(each) for each in reservation.allocations}
        if required and reservation.status == ReservationStatus.ACTIVE and not had <= {*required}:
            raise exceptions.BadRequest(
                'required_floatingips: must have all that the reservation has while it is active: '
                f'{", ".join(sorted(had))}.',
                field='required_floatingips',
            )
        demand = super().read_demand(reservation)
        return dataclasses.replace(demand, field='required_floatingips') if required else demand

    def start(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done:
        """Create what does not exist yet; without a request if all of it is known to exist.

        :raises climate_core.exceptions.Permanent: the calendar allocates it nothing, or Neutron
            does not have the network any more
        """
        self._check_allocated(reservation)
        created_ids = _created_ids(reservation)
        missing = [each for each in reservation.allocations if _address(each) not in created_ids]
        not_free = neutron_resource.NOT_FREE
        waits = {
            _address(each): self._wait_for_unit(lease, each, not_free.format(_address(each)))
            for each in missing
        }
        due = [address for address, wait in waits.items() if wait is None]
        if due:
            network_id = reservation.params['network_id']
            existing = cloud.find_floatingips(self.cloud.service(), network_id, due)
            for address in due:
                waits[address] = self._create_floating_ip(
                    lease, reservation, address, existing.get(address), created_ids
                )
        wait = next((each for each in waits.values() if each is not None), None)
        progress = {_MADE: created_ids}
        return PollAgain(wait.seconds, wait.reason, progress) if wait else Done(progress)

    def _create_floating_ip(
        self,
        lease: 'Lease',
        reservation: 'Reservation',
        address: str,
        existing: Mapping[str, Any] | None,
        created_ids: dict[str, str],
    ) -> PollAgain | None:
        """Create one floating IP, or take over the one that an earlier try has created.

        :param existing: what has the address in Neutron
        :param created_ids: gets its id
        """
        network_id = reservation.params['network_id']
        values = {'floating_network_id': network_id, 'floating_ip_address': address}
        try:
            floating_ip = self._create_once(
                lease, reservation, address, values, existing, created_ids.values()
            )
        except errors.Gone as exc:
            raise exceptions.Permanent(f'{address} could not be created: {exc}') from exc
        except exceptions.PluginFailure as exc:
            exc.progress = {_MADE: created_ids}
            raise
        if isinstance(floating_ip, PollAgain):
            return floating_ip
        created_ids[address] = str(floating_ip['id'])
        return None

    def _find(self, reservation: 'Reservation', unit: str) -> Mapping[str, Any] | None:
        network_id = reservation.params['network_id']
        return cloud.find_floatingips(self.cloud.service(), network_id, [unit]).get(unit)

    def _find_holder(self, reservation: 'Reservation', unit: str) -> Any:
        network_id = reservation.params['network_id']
        return cloud.find_used_addresses(self.cloud.service(), network_id, [unit])

    def reallocate(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | Done:
        """Delete what was released, and create what is new."""
        created_ids = _created_ids(reservation)
        allocated = {_address(each) for each in reservation.allocations}
        if created_ids.keys() <= allocated:
            return self.start(lease, reservation)
        self._delete([each for a, each in created_ids.items() if a not in allocated])
        return PollAgain(
            0.0, progress={_MADE: {a: each for a, each in created_ids.items() if a in allocated}}
        )

    def choose_retained(self, reservation: 'Reservation', max_pieces: int) -> Mapping[int, int]:
        """Choose what is released: what Neutron does not have any more, then what is unused.

        :raises climate_core.exceptions.InvalidState: more of them are associated, or have port
            forwardings
        """
        by_address = {_address(each): each.unit_id for each in reservation.allocations}
        existing = self._find_made(reservation)
        used = [each for each in by_address if _is_used(existing.get(each, {}))]
        if len(used) > max_pieces:
            raise exceptions.InvalidState(
                f'amount: must be at least {len(used)}, because that number of floating IPs '
                f'is associated or has port forwardings: {", ".join(used)}. Disassociate some, or '
                'delete their port forwardings, first.',
                field='amount',
            )
        retained = sorted(by_address, key=lambda each: (each not in used, each not in existing))[
            :max_pieces
        ]
        return {unit_id: int(address in retained) for address, unit_id in by_address.items()}

    def _find_made(self, reservation: 'Reservation') -> dict[str, dict[str, Any]]:
        """Return what was created for a reservation and is in Neutron, by the addresses.

        All of it is known: nothing is released of a reservation that is not started as a whole.
        """
        created_ids, network_id = _created_ids(reservation), reservation.params['network_id']
        existing = cloud.find_floatingips(self.cloud.service(), network_id, created_ids)
        return {
            address: each
            for address, each in existing.items()
            if each['id'] == created_ids[address]
        }

    def close_released(self, reservation: 'Reservation', left: Mapping[int, int]) -> None:
        """Close nothing: the owner may associate an address until it is deleted."""

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Block stacks, whose templates may use it. Servers get addresses after their start."""
        return other.resource_type == resource_types.STACK

    def end(self, lease: 'Lease', reservation: 'Reservation') -> PollAgain | None:
        """Delete what was created, also what is associated or has port forwardings."""
        conn, created_ids = self.cloud.service(), _created_ids(reservation)
        allocations = (*reservation.allocations, *reservation.released)
        addresses = {*created_ids, *map(_address, allocations)}
        existing = cloud.find_floatingips(
            conn, reservation.params['network_id'], addresses
        ).values()
        created = created_ids.values()
        self._delete(
            [e['id'] for e in existing if neutron_resource.is_ours(e, lease, reservation, created)]
        )
        return None

    def _delete(self, ids: Collection[str]) -> None:
        conn = self.cloud.service()
        neutron_resource.delete_all(lambda each: cloud.delete_floatingip(conn, each), ids)

    def reconcile(
        self, pages: Iterable[Sequence['Reservation']]
    ) -> Iterator[tuple['Reservation', str]]:
        """Yield reservations all of whose floating IPs are gone: the others are still to be ended.

        One call for a hundred floating IPs.
        """
        for page in pages:
            ids = {floatingip_id for each in page for floatingip_id in _created_ids(each).values()}
            if not ids:
                continue
            conn = self.cloud.service()
            # Without the right to see every project each floating IP would seem deleted.
            cloud.check_all_floatingips_visible(conn)
            existing = neutron.find_existing(conn, self.neutron_noun, ids)
            for reservation in page:
                created_ids = _created_ids(reservation)
                if created_ids and existing.isdisjoint(created_ids.values()):
                    yield reservation, f'Deleted in Neutron: {", ".join(sorted(created_ids))}.'

    def discard(self, resource_id: str) -> None:
        cloud.delete_floatingip(self.cloud.service(), resource_id)


def _address(allocation: 'AllocatedUnit') -> str:
    return str(allocation.unit['address'])


def _is_used(floating_ip: Mapping[str, Any]) -> bool:
    """Return whether a floating IP is in use: one with port forwardings has no port itself."""
    return bool(floating_ip.get('port_id') or floating_ip.get('port_forwardings'))


def _created_ids(reservation: 'Reservation') -> dict[str, str]:
    """Return the ids of the floating IPs that are known to exist, by their addresses."""
    return dict((reservation.progress or {}).get(_MADE, {}))


class _FloatingIpCalls:
    """The calls to Neutron, see :class:`climate_core.plugins.own_service_plugin.ResourceCalls`."""

    get = staticmethod(cloud.get_floatingip)
    read_project = staticmethod(cloud.project_of_floatingip)
    list_ids = staticmethod(cloud.list_floatingip_ids)
    check_all_visible = staticmethod(cloud.check_all_floatingips_visible)
    delete = staticmethod(cloud.delete_floatingip)


class HeldFloatingIpPlugin(own_service_plugin.OwnServicePlugin):
    """Reserve existing floating IPs."""

    resource_type = resource_types.HELD_FLOATING_IP
    title = 'Floating IP of its owner'
    service = 'neutron'
    description = 'A floating IP that you have, which is deleted at the end of its lease.'
    options = (
        own_service_plugin.on_end_option(
            resource_types.ON_END[resource_types.HELD_FLOATING_IP], 'floating IP of its owner'
        ),
    )
    schema: ClassVar[Mapping[str, Any]] = {
        **own_service_plugin.end_action_schema(
            resource_types.ON_END[resource_types.HELD_FLOATING_IP]
        ),
        **own_service_plugin.STACK_ID_SCHEMA,
    }
    # Servers and stacks use addresses: addresses are created before them, and deleted after them.
    rank = 3
    calls = _FloatingIpCalls()
    gone_reason = 'The floating IP was deleted'
    lists_all = False

    def reserve(
        self,
        context: 'RequestContext',
        values: Mapping[str, Any],
        lease_id: str = '',  # noqa: ARG002
    ) -> ReservedResource:
        # As Neutron writes it.
        floatingip_id = str(uuid.UUID(values['resource_id']))
        with errors.for_user('resource_id'):
            found = cloud.get_floatingip(self.cloud.user(context), floatingip_id)
            if found['project_id'] != context.project_id:
                raise errors.Gone(f'There is no floating IP {floatingip_id} in this project.')
        if cloud.is_marked(found):
            raise exceptions.BadRequest(
                f'The floating IP {floatingip_id} was created for a lease and ends with that. '
                'Only one that you have created yourself can be reserved.',
                field='resource_id',
            )
        shown = {'floatingips': [found['floating_ip_address']]}
        return ReservedResource(
            floatingip_id,
            {**self._normalized_params(values), **shown},
            {resource_types.FLOATING_IPS: 1},
            parent_id=values.get(own_service_plugin.STACK_ID_KEY),
        )

    def blocks(self, own: 'Reservation', other: 'Reservation') -> bool:  # noqa: ARG002
        """Block stacks, whose templates may use it. Servers get addresses after their start."""
        return other.resource_type == resource_types.STACK

    def _wake(self, context: StepContext, resource: Mapping[str, Any]) -> PollAgain | None:
        """Do nothing: the check that it exists is all."""

    def _end(self, context: EndContext, resource: Mapping[str, Any]) -> PollAgain | None:  # noqa: ARG002
        if context.on_end == 'delete':
            cloud.delete_floatingip(context.conn, context.resource_id)
        return None

    def _list_existing(self, conn: 'connections.Connection', ids: Collection[str]) -> set[str]:
        # Those of leases are few among all that a cloud has.
        return neutron.find_existing(conn, 'floatingip', ids)

    def _reserved_since(self, resource: Mapping[str, Any]) -> datetime.datetime | None:  # noqa: ARG002
        return None
