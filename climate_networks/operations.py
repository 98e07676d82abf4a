# SPDX-License-Identifier: Apache-2.0
"""Register floating IPs and network segments for leases, remove and check them, for operators.

Neutron is only read, with the rights of the service: operators keep addresses out of the
allocation pools, and segments out of the ranges that Neutron chooses from.
"""

import contextlib
import dataclasses
import ipaddress
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from oslo_db import exception as db_exc
from sqlalchemy import orm

from climate_common import dates, words
from climate_core import exceptions
from climate_core.calendar.model import Access
from climate_core.cloud import Cloud, errors
from climate_core.cloud.connections import Connection
from climate_core.context import RequestContext
from climate_core.db import registered_units
from climate_core.db.engine import Database
from climate_core.operations.remote import remote
from climate_core.packages import PoolCheck
from climate_networks import cloud, db, policies, units

#: Maximum number of names in an error: there may be hundreds.
_MAX_NAMED: Final = 5


@dataclasses.dataclass
class FloatingIpOperations:
    """Register floating IPs for leases, and remove them."""

    database: Database
    cloud: Cloud

    @remote(policies.CREATE_FLOATING_IPS, for_operators=True, writes=True)
    def create_floatingips(
        self,
        context: RequestContext,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> list[int]:
        """Register addresses of an external network for leases, all of them or none.

        :param values: ``floating_network_id``, and ``floating_ip_address`` or
            ``floating_ip_range``
        :returns: their ids, in the order of the addresses
        :raises climate_core.exceptions.BadRequest: naming the field
        :raises climate_core.exceptions.FloatingIpInUse: a port has one of them
        :raises climate_core.exceptions.FloatingIpExists: one is registered
        :raises climate_core.exceptions.ServiceUnavailable: Neutron does not answer, or does not
            allow it to the service user
        """
        field, addresses = units.read_addresses(dict(values))
        network_id = values['floating_network_id']
        registered = self.database.read(
            db.find_registered_addresses, network_id, map(str, addresses)
        )
        check_unregistered(exceptions.FloatingIpExists, field, registered)
        conn = self.cloud.service()
        with errors.require_services():
            _check_external_network(conn, network_id)
            subnets = cloud.list_subnets(conn, network_id)
            found = {str(each): units.check_address(each, subnets, field) for each in addresses}
            used = cloud.find_used_addresses(conn, network_id, found)
        if used:
            address, owner = min(used.items())
            raise exceptions.FloatingIpInUse(
                f'{field}: {address} is in use in Neutron ({owner}). Free it first.', field=field
            )
        with reject_duplicates(exceptions.FloatingIpExists, field, len(found)):
            return self.database.write(db.insert_floatingips, network_id, found)

    @remote(policies.DELETE_FLOATING_IPS, for_operators=True)
    def delete_floatingip(self, context: RequestContext, floating_ip_id: int) -> None:  # noqa: ARG002
        """Remove an address; nothing is changed in Neutron.

        :raises climate_core.exceptions.FloatingIpNotFound: there is none
        :raises climate_core.exceptions.FloatingIpInUse: it is allocated to reservations
        """
        self.database.write(_delete_floatingip, floating_ip_id)


def _check_external_network(conn: Connection, network_id: str) -> None:
    """Reject a network that does not exist, or has no floating IPs."""
    field = 'floating_network_id'
    try:
        network = cloud.get_network(conn, network_id)
    except errors.Gone as exc:
        raise exceptions.ResourceNotFound(
            f'{field}: there is no network {network_id}.', field=field
        ) from exc
    if not network.get('router:external'):
        raise exceptions.BadRequest(
            f'{field}: must be an external network, and {network["name"]} is none.', field=field
        )


def _delete_floatingip(session: orm.Session, floating_ip_id: int) -> None:
    address = db.FLOATING_IPS.get(session, floating_ip_id, lock=True).address
    name = f'Floating IP {address}'
    check_unallocated(session, floating_ip_id, name, exceptions.FloatingIpInUse)
    db.FLOATING_IPS.delete(session, floating_ip_id)


_ATTRIBUTE_NOUNS: Final = {'network_type': 'network type', 'physical_network': 'physical network'}
#: Where Neutron is configured to know it.
_CONFIGURED_BY: Final = {
    'network_type': 'Its [ml2] type_drivers must have it.',
    'physical_network': 'Its [ml2_type_vlan] network_vlan_ranges must have it, with or without a '
    'range.',
}


@dataclasses.dataclass
class NetworkOperations:
    """Register network segments for leases, change and remove them."""

    database: Database
    cloud: Cloud

    @remote(policies.CREATE_NETWORKS, for_operators=True, writes=True)
    def create_networks(
        self,
        context: RequestContext,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> list[int]:
        """Register segments for leases, all of them or none.

        :param values: ``network_type``, ``physical_network`` for VLANs, and ``segment_id`` or
            ``segment_range``; perhaps ``available`` (default true), ``extra`` (properties by
            name), ``project_ids`` and ``domain_ids``, of the projects that may reserve them
        :returns: their ids, in the order of the segments
        :raises climate_core.exceptions.BadRequest: naming the field, also if Neutron does not know
            them, or chooses one of them for others
        :raises climate_core.exceptions.NetworkInUse: a network has one of them
        :raises climate_core.exceptions.NetworkExists: one is registered
        :raises climate_core.exceptions.ServiceUnavailable: Neutron does not answer, or does not
            allow it to the service user
        """
        extra = {name: each for name, each in values.get('extra', {}).items() if each is not None}
        units.check_segment_properties(extra)
        field, segments = units.read_segments(values)
        check_unregistered(
            exceptions.NetworkExists,
            field,
            self.database.read(db.find_registered_segments, segments),
        )
        with errors.require_services():
            _check_segments_free(self.cloud.service(), segments, field)
        unit = {'available': values.get('available', True), 'access': _read_access(values, None)}
        with reject_duplicates(exceptions.NetworkExists, field, len(segments)):
            return self.database.write(db.insert_segments, segments, unit, extra)

    @remote(policies.UPDATE_NETWORKS, for_operators=True, writes=True)
    def update_network(
        self,
        context: RequestContext,  # noqa: ARG002
        network_id: int,
        values: Mapping[str, Any],
    ) -> int:
        """Change what the operator set of a segment; its allocations stay.

        :param values: any of ``available``, ``project_ids``, ``domain_ids`` and ``extra``
            (properties by name; None removes one); ``generation`` that the segment must have
        :returns: the id of the segment
        :raises climate_core.exceptions.NetworkChanged: it has another generation
        :raises climate_core.exceptions.NetworkNotFound: there is none
        """
        units.check_segment_properties(values.get('extra', {}))
        self.database.write(_update_segment, network_id, values)
        return network_id

    @remote(policies.DELETE_NETWORKS, for_operators=True)
    def delete_network(self, context: RequestContext, network_id: int) -> None:  # noqa: ARG002
        """Remove a segment; nothing is changed in Neutron.

        :raises climate_core.exceptions.NetworkNotFound: there is none
        :raises climate_core.exceptions.NetworkInUse: it is allocated to reservations
        """
        self.database.write(_delete_segment, network_id)

    @remote(policies.UPDATE_NETWORK_PROPERTIES, for_operators=True)
    def set_network_property(self, context: RequestContext, name: str, private: bool) -> None:  # noqa: ARG002
        """Set whether users may see an extra property of segments.

        :raises climate_core.exceptions.NetworkPropertyNotFound: no segment has it
        """
        self.database.write(db.SEGMENTS.set_private, name, private)


def _check_segments_free(conn: Connection, segments: Sequence[units.Segment], field: str) -> None:
    """Reject segments that Neutron does not know, chooses for other projects, or uses.

    :param segments: all of the same physical network
    :param field: that has their numbers
    """
    unknown = cloud.find_unknown_attribute(conn, segments[0])
    if unknown is not None:
        raise exceptions.BadRequest(
            f'{unknown}: Neutron has no {_ATTRIBUTE_NOUNS[unknown]} {segments[0].facts[unknown]}. '
            f'{_CONFIGURED_BY[unknown]}',
            field=unknown,
        )
    problem = next(_find_in_ranges(conn, segments), None)
    if problem is not None:
        raise exceptions.BadRequest(f'{field}: {problem}', field=field)
    used = cloud.find_used_segments(conn, segments)
    if used:
        segment, network = min(used.items(), key=lambda each: each[0].segment_id)
        raise exceptions.NetworkInUse(
            f'{field}: {segment} is in use in Neutron, by network {network["id"]}. Delete '
            'that first.',
            field=field,
        )


def _read_access(
    values: Mapping[str, Any], present: units.RegisteredSegment | None
) -> dict[str, list[str]] | None:
    """Return which projects may reserve a segment, as the database stores it.

    :param present: the stored segment; None: it is new
    """
    ids = {
        name: values.get(name, getattr(present, name, ()))
        for name in ('project_ids', 'domain_ids')
    }
    return Access(**{name: frozenset(each) for name, each in ids.items()}).dump()


def _update_segment(session: orm.Session, network_id: int, values: Mapping[str, Any]) -> None:
    present = db.SEGMENTS.get(session, network_id, lock=True)
    if values.get('generation') not in (None, present.generation):
        raise exceptions.NetworkChanged(
            f'{present.segment} has generation {present.generation} by now, not '
            f'{values["generation"]}. Read it again.',
            field='generation',
        )
    changed = {**present.extra, **values.get('extra', {})}
    extra = {name: value for name, value in changed.items() if value is not None}
    unit = {
        'available': values.get('available', present.available),
        'access': _read_access(values, present),
        'properties': present.properties(extra),
    }
    generation = db.SEGMENTS.table.c.generation + 1
    db.SEGMENTS.update(session, network_id, unit, {'extra': extra, 'generation': generation})


def _delete_segment(session: orm.Session, network_id: int) -> None:
    segment = db.SEGMENTS.get(session, network_id, lock=True).segment
    check_unallocated(session, network_id, str(segment), exceptions.NetworkInUse)
    db.SEGMENTS.delete(session, network_id)


def _find_in_ranges(conn: Connection, segments: Iterable[units.Segment]) -> Iterator[str]:
    """Yield which segments Neutron chooses for other projects; one call."""
    ranges, project_id = cloud.list_segment_ranges(conn), str(conn.current_project_id)
    for segment in segments:
        found = units.find_range(segment, ranges, project_id)
        if found is not None:
            yield units.describe_range(segment, found, project_id)


class AddressCheck(PoolCheck):
    """Check that Neutron allocates no registered floating IP to other projects."""

    title = 'Floating IPs for leases'
    unchecked = 'Whether each floating IP is free for leases could not be checked'
    empty = 'No floating IP is registered for leases.'
    limits = (
        "Climate cannot check Neutron's policy. Without the lines for its policy.yaml that are in "
        'the documents (Floating IPs, for operators) the manager of any project can create a '
        'floating IP with an address that is registered for leases, and owners can change the '
        'tags by which Climate finds the floating IPs of leases.'
    )

    def find_problems(self, database: Database, conn: Connection) -> list[str] | None:
        """Return what is wrong with registered addresses, one call for each network."""
        registered: dict[str, list[str]] = defaultdict(list)
        for unit in db.FLOATING_IPS.iterate_all(database):
            registered[unit.network_id].append(unit.address)
        if not registered:
            return None
        problems = []
        for network_id, addresses in sorted(registered.items()):
            subnets = cloud.list_subnets(conn, network_id)
            for address in addresses:
                field = f'Floating IP {address}'
                try:
                    units.check_address(ipaddress.IPv4Address(address), subnets, field)
                except exceptions.BadRequest as exc:
                    problems.append(exc.message)
        return problems


class SegmentCheck(PoolCheck):
    """Check that Neutron allocates no registered segment to other projects."""

    title = 'Networks for leases'
    unchecked = 'Whether each network segment is free for leases could not be checked'
    empty = 'No network segment is registered for leases.'
    limits = (
        'Climate can check from which segments Neutron chooses only with its plugin '
        'network_segment_range. Without it the registered segments must be outside of '
        'network_vlan_ranges and its like.'
    )

    def find_problems(self, database: Database, conn: Connection) -> list[str] | None:
        """Return which registered segments other projects have, or may get.

        One call for each physical network, and one for the ranges.
        """
        registered: dict[tuple[str, str], list[units.Segment]] = defaultdict(list)
        for unit in db.SEGMENTS.iterate_all(database):
            segment = unit.segment
            registered[segment.network_type, segment.physical_network or ''].append(segment)
        if not registered:
            return None
        groups = [segments for _, segments in sorted(registered.items())]
        chosen = [*_find_in_ranges(conn, itertools.chain(*groups))]
        used = [
            f'{segment} is registered for leases, but network {network["id"]} has it, which is '
            'of none.'
            for segments in groups
            for segment, network in cloud.find_used_segments(conn, segments).items()
            if not cloud.is_marked(network)
        ]
        return used + chosen


@contextlib.contextmanager
def reject_duplicates(error: type[exceptions.Conflict], field: str, count: int) -> Iterator[None]:
    """Raise an error of the field that names something that is registered already.

    :param count: the number of things that are registered together
    """
    try:
        yield
    except db_exc.DBDuplicateEntry as exc:
        verb = 'it is' if count == 1 else 'one of them is'
        raise error(
            f'{field}: {verb} registered for leases already. List them, and leave out what is '
            'in the list.',
            field=field,
        ) from exc


def check_unregistered(
    error: type[exceptions.Conflict], field: str, registered: Sequence[object]
) -> None:
    """Reject the registration of what is registered already: a lease may use it.

    :param registered: which of the requested things are registered
    """
    if registered:
        listed = ', '.join(map(str, registered[:_MAX_NAMED]))
        more = f' and {len(registered) - _MAX_NAMED} more' if len(registered) > _MAX_NAMED else ''
        verb = 'is' if len(registered) == 1 else 'are'
        raise error(
            f'{field}: {listed}{more} {verb} registered for leases already. Leave out what is.',
            field=field,
        )


def check_unallocated(
    session: orm.Session, unit_id: int, name: str, error: type[exceptions.Conflict]
) -> None:
    """Reject the removal of a unit that is allocated to leases.

    :param name: the name of the unit, for messages
    :param error: the type of the error
    """
    allocated = registered_units.find_last_allocation(session, unit_id)
    if allocated is not None:
        count, end = allocated
        raise error(
            f'{name} is allocated to {words.counted(count, "reservation")}, the last until '
            f'{dates.sentence(end)}. End their leases first.'
        )
