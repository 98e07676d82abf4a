# SPDX-License-Identifier: Apache-2.0
"""Read and write the network segments that are set apart: each is a unit of the calendar."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import tables
from climate_networks.db import registered_units
from climate_networks.db.registered_units import IsSeen
from climate_networks.domain import networks
from climate_networks.domain.networks import RegisteredSegment, Segment

_UNIT = tables.UNITS
_SEGMENT = tables.NETWORK_SEGMENTS

#: So many rows are read at least, once not all of the first ones were seen.
_LEAST = 500

_ALL = sa.select(
    _UNIT.c.id,
    _UNIT.c.available,
    _UNIT.c.access,
    *(
        _SEGMENT.c[name]
        for name in (*networks.FACTS, 'extra', 'created_at', 'updated_at', 'generation')
    ),
).join_from(_SEGMENT, _UNIT, _SEGMENT.c.unit_id == _UNIT.c.id)


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentQuery:
    """The filters and the page of a listing, which is in the order of the ids.

    :param is_seen: tells whether a segment is seen; takes who may be promised it, as
        :class:`climate_core.calendar.model.Access` dumps that
    :param marker: the id of the last one of the page before
    :param limit: how many at most
    """

    network_type: str | None = None
    physical_network: str | None = None
    segment_id: int | None = None
    is_seen: IsSeen = lambda _access: True
    marker: int = 0
    limit: int = 1000


def get(
    session: orm.Session,
    network_id: int,
    lock: bool = False,
    is_seen: IsSeen = lambda _access: True,
) -> RegisteredSegment:
    """Read one segment.

    :param lock: keep other transactions from promising it until the end of this one
    :param is_seen: as in :class:`SegmentQuery`
    :raises climate_core.exceptions.NetworkNotFound: there is none, or it is not seen
    """
    row = registered_units.find(session, _ALL, network_id, lock)
    if row is None or not is_seen(row['access']):
        raise not_found(str(network_id))
    return _segment(row)


def not_found(network_id: str) -> exceptions.NetworkNotFound:
    """Return the error for a segment that is not set apart."""
    return exceptions.NetworkNotFound(f'Network segment {network_id} was not found.')


def page(session: orm.Session, query: SegmentQuery) -> tuple[list[RegisteredSegment], bool]:
    """Read a page of segments, and whether there are more; one statement if all are seen.

    Else one more for each 500 segments that others may be promised.
    """
    wanted = {name: getattr(query, name) for name in networks.FACTS}
    where = [_SEGMENT.c[name] == value for name, value in wanted.items() if value is not None]
    found: list[RegisteredSegment] = []
    marker, more, size = query.marker, True, query.limit + 1
    while more and len(found) <= query.limit:
        read, more = registered_units.page(session, _ALL.where(*where), marker, size)
        size = max(size, _LEAST)
        found += [_segment(row) for row in read if query.is_seen(row['access'])]
        marker = read[-1]['id'] if read else marker
    return found[: query.limit], len(found) > query.limit


def registered(session: orm.Session, segments: Sequence[Segment]) -> list[Segment]:
    """Return those of segments of one physical network that are set apart; one statement."""
    numbers = [each.segment_id for each in segments]
    kind = {
        _SEGMENT.c.network_type: segments[0].network_type,
        _SEGMENT.c.physical_network: segments[0].physical_network or '',
    }
    where = [column == value for column, value in kind.items()]
    query = sa.select(_SEGMENT.c.segment_id).where(*where, _SEGMENT.c.segment_id.in_(numbers))
    found = {*session.scalars(query)}
    return [each for each in segments if each.segment_id in found]


def insert(
    session: orm.Session,
    segments: Sequence[Segment],
    unit: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> list[int]:
    """Write new segments and their units; return their ids, in order.

    :param unit: ``available`` and ``access`` of the units
    :raises oslo_db.exception.DBDuplicateEntry: one of them is there already
    """
    made = []
    for each in segments:
        row = {**each.facts, 'physical_network': each.physical_network or '', 'extra': extra}
        made.append(({**extra, **each.facts}, row))
    own = {'kind': networks.KIND, 'pool': segments[0].pool, **unit}
    return registered_units.insert(session, _SEGMENT, own, made)


def update(
    session: orm.Session, network_id: int, unit: Mapping[str, Any], extra: Mapping[str, Any]
) -> None:
    """Change columns of the unit of a segment that is locked, and its extra properties."""
    row = {'extra': extra, 'generation': _SEGMENT.c.generation + 1}
    registered_units.update(session, _SEGMENT, network_id, unit, row)


def delete(session: orm.Session, network_id: int) -> None:
    """Delete a segment with its unit; one that is gone is fine."""
    registered_units.delete(session, network_id, networks.KIND)


def _segment(row: sa.RowMapping) -> RegisteredSegment:
    values = dict(row)
    facts = {name: values.pop(name) for name in networks.FACTS}
    access = values.pop('access') or {}
    return RegisteredSegment(**values, segment=Segment.of(facts), **access)
