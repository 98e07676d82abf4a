# SPDX-License-Identifier: Apache-2.0
"""Read and write floating IPs and network segments that operators register for leases.

Each has a row of its own beside its unit of the calendar, and is allocated as a whole.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import calendar, rows, sql, tables
from climate_core.db.engine import Database, signal
from climate_core.db.extra_properties import ExtraProperties, IsSeen
from climate_networks import units
from climate_networks.units import FloatingIp, RegisteredSegment, Segment

_UNIT = tables.UNITS

SEGMENT_PROPERTIES: Final = ExtraProperties(
    tables.NETWORK_SEGMENTS,
    tables.NETWORK_SEGMENT_PROPERTIES,
    'network segment',
    exceptions.NetworkPropertyNotFound,
)


def _insert_units(
    session: orm.Session,
    table: sa.Table,
    unit: Mapping[str, Any],
    made: list[tuple[dict[str, Any], dict[str, Any]]],
) -> list[int]:
    """Write new units and their rows; return their ids, in order.

    :param table: of their rows
    :param unit: what the units have in common: kind, pool and access
    :param made: the properties of each, and its row
    :raises oslo_db.exception.DBDuplicateEntry: one of them exists
    """
    signal(session, calendar.FREED)
    now, ids = sql.now(session), []
    connection = session.connection()
    for properties, row in made:
        one = {'available': True, 'capacity': {}, 'lanes': 1, 'generation': 0, **unit}
        new = sa.insert(_UNIT).values(**one, properties=properties, changed_at=now)
        key = connection.execute(new).inserted_primary_key
        assert key is not None  # nosec B101 # for mypy: it holds already
        connection.execute(sa.insert(table).values(**row, unit_id=key[0], created_at=now))
        ids.append(int(key[0]))
    return ids


def _page_units(
    session: orm.Session, query: sa.Select[Any], marker: int, limit: int
) -> tuple[list[sa.RowMapping], bool]:
    """Read a page in the order of the ids, and whether there are more; one statement.

    :param query: of all
    :param marker: the id of the last unit of the previous page
    """
    select = query.where(_UNIT.c.id > marker).order_by(_UNIT.c.id)
    found = session.execute(select.limit(limit + 1)).mappings().all()
    return list(found[:limit]), len(found) > limit


def list_all(
    database: Database, read: Callable[..., tuple[list[Any], bool]], query: Any
) -> Iterator[Any]:
    """Read all units that a query finds, page by page.

    :param read: returns a page of a query, and whether there are more
    :param query: a dataclass with the ``marker`` of a page
    """
    more = True
    while more:
        page, more = database.read(read, query)
        yield from page
        if page:
            query = dataclasses.replace(query, marker=page[-1].id)


def _find_unit(
    session: orm.Session, query: sa.Select[Any], unit_id: int, lock: bool = False
) -> sa.RowMapping | None:
    """Read one.

    :param lock: keep other transactions from allocating it until the end of this one
    """
    one = query.where(_UNIT.c.id == unit_id)
    return session.execute(one.with_for_update() if lock else one).mappings().first()


def _update_unit(
    session: orm.Session,
    table: sa.Table,
    unit_id: int,
    unit: Mapping[str, Any],
    row: Mapping[str, Any],
) -> None:
    """Change columns of a unit that is locked, and of its row."""
    signal(session, calendar.FREED)
    now = sql.now(session)
    counted = {'generation': _UNIT.c.generation + 1, 'changed_at': now, **unit}
    rows.change(session, sa.update(_UNIT).where(_UNIT.c.id == unit_id).values(counted))
    stamped = {'updated_at': now, **row}
    rows.change(session, sa.update(table).where(table.c.unit_id == unit_id).values(stamped))


def _delete_unit(session: orm.Session, unit_id: int, kind: str) -> None:
    """Delete a unit with its row; one that does not exist is fine."""
    rows.change(session, sa.delete(_UNIT).where(_UNIT.c.id == unit_id, _UNIT.c.kind == kind))


_FLOATING_IP = tables.FLOATING_IPS

_FLOATING_IPS = sa.select(
    _UNIT.c.id,
    _UNIT.c.available,
    *(_FLOATING_IP.c[name] for name in ('network_id', 'subnet_id', 'address', 'created_at')),
).join_from(_FLOATING_IP, _UNIT, _FLOATING_IP.c.unit_id == _UNIT.c.id)


@dataclasses.dataclass(frozen=True, slots=True)
class FloatingIpQuery:
    """The filters and the page of a listing, which is in the order of the ids.

    :param marker: the id of the last unit of the previous page
    :param limit: maximum number
    """

    network_id: str | None = None
    address: str | None = None
    marker: int = 0
    limit: int = 1000


def get_floatingip(session: orm.Session, floating_ip_id: int, lock: bool = False) -> FloatingIp:
    """Read one floating IP.

    :param lock: keep other transactions from allocating it until the end of this one
    :raises climate_core.exceptions.FloatingIpNotFound: there is none
    """
    row = _find_unit(session, _FLOATING_IPS, floating_ip_id, lock)
    if row is None:
        raise floatingip_not_found(str(floating_ip_id))
    return FloatingIp(**row)


def floatingip_not_found(floating_ip_id: str) -> exceptions.FloatingIpNotFound:
    """Return the error for a floating IP that is not registered."""
    return exceptions.FloatingIpNotFound(f'Floating IP {floating_ip_id} was not found.')


def page_floatingips(
    session: orm.Session, query: FloatingIpQuery
) -> tuple[list[FloatingIp], bool]:
    """Read a page of floating IPs, and whether there are more; one statement."""
    wanted = {_FLOATING_IP.c.network_id: query.network_id, _FLOATING_IP.c.address: query.address}
    where = [column == value for column, value in wanted.items() if value is not None]
    found, more = _page_units(session, _FLOATING_IPS.where(*where), query.marker, query.limit)
    return [FloatingIp(**row) for row in found], more


def find_registered_addresses(
    session: orm.Session, network_id: str, addresses: Iterable[str]
) -> list[str]:
    """Return the registered addresses of a network among these; one statement."""
    wanted = [*addresses]
    column = _FLOATING_IP.c.address
    query = sa.select(column).where(_FLOATING_IP.c.network_id == network_id, column.in_(wanted))
    found = {*session.scalars(query)}
    return [each for each in wanted if each in found]


def insert_floatingips(
    session: orm.Session, network_id: str, subnets: Mapping[str, str]
) -> list[int]:
    """Write new floating IPs and their units; return their ids, in order.

    :param subnets: address -> the id of its subnet
    :raises oslo_db.exception.DBDuplicateEntry: one of them exists
    """
    made = [
        (
            {'network_id': network_id, 'address': address},
            {'network_id': network_id, 'subnet_id': subnet_id, 'address': address},
        )
        for address, subnet_id in subnets.items()
    ]
    unit = {'kind': units.FLOATING_IP_KIND, 'pool': network_id}
    return _insert_units(session, _FLOATING_IP, unit, made)


def delete_floatingip(session: orm.Session, floating_ip_id: int) -> None:
    """Delete a floating IP with its unit; one that does not exist is fine."""
    _delete_unit(session, floating_ip_id, units.FLOATING_IP_KIND)


_SEGMENT = tables.NETWORK_SEGMENTS

#: Minimum number of rows that further statements read.
_MIN_PAGE_SIZE = 500

_SEGMENTS = sa.select(
    _UNIT.c.id,
    _UNIT.c.available,
    _UNIT.c.access,
    *(
        _SEGMENT.c[name]
        for name in (*units.SEGMENT_FACTS, 'extra', 'created_at', 'updated_at', 'generation')
    ),
).join_from(_SEGMENT, _UNIT, _SEGMENT.c.unit_id == _UNIT.c.id)


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentQuery:
    """The filters and the page of a listing, which is in the order of the ids.

    :param is_seen: tells whether a segment is seen; takes the access to it, as
        :class:`climate_core.calendar.model.Access` dumps that
    :param marker: the id of the last unit of the previous page
    :param limit: maximum number
    """

    network_type: str | None = None
    physical_network: str | None = None
    segment_id: int | None = None
    is_seen: IsSeen = lambda _access: True
    marker: int = 0
    limit: int = 1000


def get_segment(
    session: orm.Session,
    network_id: int,
    lock: bool = False,
    is_seen: IsSeen = lambda _access: True,
) -> RegisteredSegment:
    """Read one segment.

    :param lock: keep other transactions from allocating it until the end of this one
    :param is_seen: as in :class:`SegmentQuery`
    :raises climate_core.exceptions.NetworkNotFound: there is none, or it is not seen
    """
    row = _find_unit(session, _SEGMENTS, network_id, lock)
    if row is None or not is_seen(row['access']):
        raise segment_not_found(str(network_id))
    return _read_segment(row)


def segment_not_found(network_id: str) -> exceptions.NetworkNotFound:
    """Return the error for a segment that is not registered."""
    return exceptions.NetworkNotFound(f'Network segment {network_id} was not found.')


def page_segments(
    session: orm.Session, query: SegmentQuery
) -> tuple[list[RegisteredSegment], bool]:
    """Read a page of segments, and whether there are more; one statement if all are seen.

    Otherwise one more for each 500 segments that only other projects may reserve.
    """
    wanted = {name: getattr(query, name) for name in units.SEGMENT_FACTS}
    where = [_SEGMENT.c[name] == value for name, value in wanted.items() if value is not None]
    found: list[RegisteredSegment] = []
    marker, more, size = query.marker, True, query.limit + 1
    while more and len(found) <= query.limit:
        read, more = _page_units(session, _SEGMENTS.where(*where), marker, size)
        size = max(size, _MIN_PAGE_SIZE)
        found += [_read_segment(row) for row in read if query.is_seen(row['access'])]
        marker = read[-1]['id'] if read else marker
    return found[: query.limit], len(found) > query.limit


def find_registered_segments(session: orm.Session, segments: Sequence[Segment]) -> list[Segment]:
    """Return the registered segments among these, all of one physical network; one statement."""
    numbers = [each.segment_id for each in segments]
    kind = {
        _SEGMENT.c.network_type: segments[0].network_type,
        _SEGMENT.c.physical_network: segments[0].physical_network or '',
    }
    where = [column == value for column, value in kind.items()]
    query = sa.select(_SEGMENT.c.segment_id).where(*where, _SEGMENT.c.segment_id.in_(numbers))
    found = {*session.scalars(query)}
    return [each for each in segments if each.segment_id in found]


def insert_segments(
    session: orm.Session,
    segments: Sequence[Segment],
    unit: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> list[int]:
    """Write new segments and their units; return their ids, in order.

    :param unit: ``available`` and ``access`` of the units
    :raises oslo_db.exception.DBDuplicateEntry: one of them exists
    """
    made = []
    for each in segments:
        row = {**each.facts, 'physical_network': each.physical_network or '', 'extra': extra}
        made.append(({**extra, **each.facts}, row))
    own = {'kind': units.SEGMENT_KIND, 'pool': segments[0].pool, **unit}
    return _insert_units(session, _SEGMENT, own, made)


def update_segment(
    session: orm.Session, network_id: int, unit: Mapping[str, Any], extra: Mapping[str, Any]
) -> None:
    """Change columns of the unit of a segment that is locked, and its extra properties."""
    row = {'extra': extra, 'generation': _SEGMENT.c.generation + 1}
    _update_unit(session, _SEGMENT, network_id, unit, row)


def delete_segment(session: orm.Session, network_id: int) -> None:
    """Delete a segment with its unit; one that does not exist is fine."""
    _delete_unit(session, network_id, units.SEGMENT_KIND)


def _read_segment(row: sa.RowMapping) -> RegisteredSegment:
    values = dict(row)
    facts = {name: values.pop(name) for name in units.SEGMENT_FACTS}
    access = values.pop('access') or {}
    return RegisteredSegment(**values, segment=Segment.of(facts), **access)
