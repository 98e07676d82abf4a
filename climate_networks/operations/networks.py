# SPDX-License-Identifier: Apache-2.0
"""Do what operators ask of network segments: set them apart for leases, and give them back.

Neutron is only asked, with the rights of the service: that others do not get a segment is seen to
by the operator, who keeps it out of the ranges that Neutron chooses from. Those that it shows are
looked at.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import orm

from climate_core import exceptions
from climate_core.calendar.model import Access
from climate_core.context import RequestContext
from climate_core.db import extra_properties
from climate_core.db.engine import Database
from climate_core.operations.operator_registration import (
    check_unallocated,
    check_unregistered,
    reject_duplicates,
    require_services,
)
from climate_core.operations.services import ServiceConnector
from climate_networks.cloud import segments
from climate_networks.db import networks as db
from climate_networks.domain import networks

if TYPE_CHECKING:
    from climate_core.cloud import connections

_NOUNS: Final = {'network_type': 'network type', 'physical_network': 'physical network'}
#: Where Neutron knows it from.
_CONFIGURED: Final = {
    'network_type': 'Its [ml2] type_drivers must have it.',
    'physical_network': 'Its [ml2_type_vlan] network_vlan_ranges must have it, with or without a '
    'range.',
}


@dataclasses.dataclass
class NetworkOperations:
    """Do what operators ask of network segments."""

    database: Database
    cloud: ServiceConnector

    def create_networks(
        self,
        context: RequestContext,  # noqa: ARG002
        values: Mapping[str, Any],
    ) -> list[int]:
        """Set segments apart for leases, all of them or none.

        :param values: ``network_type``, ``physical_network`` for VLANs, and ``segment_id`` or
            ``segment_range``; perhaps ``available`` (default true), ``extra`` (properties by
            name), ``project_ids`` and ``domain_ids``, of the projects that may be promised them
        :returns: their ids, in the order of the segments
        :raises climate_core.exceptions.BadRequest: naming the field, also if Neutron does not know
            them, or chooses one of them for others
        :raises climate_core.exceptions.NetworkInUse: a network has one of them
        :raises climate_core.exceptions.NetworkExists: one is set apart already
        :raises climate_core.exceptions.ServiceUnavailable: Neutron does not answer, or does not
            let the service user ask
        """
        extra = {name: each for name, each in values.get('extra', {}).items() if each is not None}
        networks.check_extra(extra)
        field, wanted = networks.read_segments(values)
        check_unregistered(
            exceptions.NetworkExists, field, self.database.read(db.registered, wanted)
        )
        with require_services():
            _check_free(self.cloud.service(), wanted, field)
        unit = {'available': values.get('available', True), 'access': _access(values, None)}
        with reject_duplicates(exceptions.NetworkExists, field, len(wanted)):
            return self.database.write(db.insert, wanted, unit, extra)

    def update_network(
        self,
        context: RequestContext,  # noqa: ARG002
        network_id: int,
        values: Mapping[str, Any],
    ) -> int:
        """Change what the operator says of a segment; what is promised of it already stays.

        :param values: any of ``available``, ``project_ids``, ``domain_ids`` and ``extra``
            (properties by name; None takes one away); ``generation`` that the segment must have
        :returns: the id of the segment
        :raises climate_core.exceptions.NetworkChanged: it has another generation by now
        :raises climate_core.exceptions.NetworkNotFound: there is none
        """
        networks.check_extra(values.get('extra', {}))
        self.database.write(_update, network_id, values)
        return network_id

    def delete_network(self, context: RequestContext, network_id: int) -> None:  # noqa: ARG002
        """Give a segment back; nothing is changed in Neutron.

        :raises climate_core.exceptions.NetworkNotFound: there is none
        :raises climate_core.exceptions.NetworkInUse: it is promised to reservations
        """
        self.database.write(_delete, network_id)

    def set_network_property(self, context: RequestContext, name: str, private: bool) -> None:  # noqa: ARG002
        """Set whether users may see an extra property of segments.

        :raises climate_core.exceptions.NetworkPropertyNotFound: no segment has it
        """
        self.database.write(extra_properties.SEGMENTS.set_private, name, private)


def _check_free(
    conn: 'connections.Connection', wanted: Sequence[networks.Segment], field: str
) -> None:
    """Refuse segments that Neutron does not know, chooses for others, or has a network of.

    :param wanted: all of the same physical network
    :param field: that has their numbers
    """
    unknown = segments.find_unknown(conn, wanted[0])
    if unknown is not None:
        raise exceptions.BadRequest(
            f'{unknown}: Neutron has no {_NOUNS[unknown]} {wanted[0].facts[unknown]}. '
            f'{_CONFIGURED[unknown]}',
            field=unknown,
        )
    ranges, project_id = segments.list_ranges(conn), str(conn.current_project_id)
    for each in wanted:
        found = networks.find_range(each, ranges, project_id)
        if found is not None:
            told = networks.describe_range(each, found, project_id)
            raise exceptions.BadRequest(f'{field}: {told}', field=field)
    used = segments.used(conn, wanted)
    if used:
        segment, network = min(used.items(), key=lambda each: each[0].segment_id)
        raise exceptions.NetworkInUse(
            f'{field}: {segment} is in use in Neutron, by network {network["id"]}. Delete '
            'that first.',
            field=field,
        )


def _access(
    values: Mapping[str, Any], present: networks.RegisteredSegment | None
) -> dict[str, list[str]] | None:
    """Return who may be promised a segment, as the database keeps it.

    :param present: the segment as it is, if it is there
    """
    ids = {
        name: values.get(name, getattr(present, name, ()))
        for name in ('project_ids', 'domain_ids')
    }
    return Access(**{name: frozenset(each) for name, each in ids.items()}).dump()


def _update(session: orm.Session, network_id: int, values: Mapping[str, Any]) -> None:
    one = db.get(session, network_id, lock=True)
    if values.get('generation') not in (None, one.generation):
        raise exceptions.NetworkChanged(
            f'{one.segment} has generation {one.generation} by now, not {values["generation"]}. '
            'Read it again.',
            field='generation',
        )
    changed = {**one.extra, **values.get('extra', {})}
    extra = {name: each for name, each in changed.items() if each is not None}
    unit = {
        'available': values.get('available', one.available),
        'access': _access(values, one),
        'properties': one.properties(extra),
    }
    db.update(session, network_id, unit, extra)


def _delete(session: orm.Session, network_id: int) -> None:
    one = db.get(session, network_id, lock=True)
    check_unallocated(session, network_id, str(one.segment), exceptions.NetworkInUse)
    db.delete(session, network_id)
