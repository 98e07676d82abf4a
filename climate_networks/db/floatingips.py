# SPDX-License-Identifier: Apache-2.0
"""Read and write the floating IPs that are set apart: each is a unit of the calendar."""

import dataclasses
from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy import orm

from climate_core import exceptions
from climate_core.db import tables
from climate_networks.db import registered_units
from climate_networks.domain import floatingips
from climate_networks.domain.floatingips import FloatingIp

_UNIT = tables.UNITS
_FLOATING_IP = tables.FLOATING_IPS

_ALL = sa.select(
    _UNIT.c.id,
    _UNIT.c.available,
    *(_FLOATING_IP.c[name] for name in ('network_id', 'subnet_id', 'address', 'created_at')),
).join_from(_FLOATING_IP, _UNIT, _FLOATING_IP.c.unit_id == _UNIT.c.id)


@dataclasses.dataclass(frozen=True, slots=True)
class FloatingIpQuery:
    """The filters and the page of a listing, which is in the order of the ids.

    :param marker: the id of the last one of the page before
    :param limit: how many at most
    """

    network_id: str | None = None
    address: str | None = None
    marker: int = 0
    limit: int = 1000


def get(session: orm.Session, floating_ip_id: int, lock: bool = False) -> FloatingIp:
    """Read one floating IP.

    :param lock: keep other transactions from promising it until the end of this one
    :raises climate_core.exceptions.FloatingIpNotFound: there is none
    """
    row = registered_units.find(session, _ALL, floating_ip_id, lock)
    if row is None:
        raise not_found(str(floating_ip_id))
    return FloatingIp(**row)


def not_found(floating_ip_id: str) -> exceptions.FloatingIpNotFound:
    """Return the error for a floating IP that is not set apart."""
    return exceptions.FloatingIpNotFound(f'Floating IP {floating_ip_id} was not found.')


def page(session: orm.Session, query: FloatingIpQuery) -> tuple[list[FloatingIp], bool]:
    """Read a page of floating IPs, and whether there are more; one statement."""
    wanted = {_FLOATING_IP.c.network_id: query.network_id, _FLOATING_IP.c.address: query.address}
    where = [column == value for column, value in wanted.items() if value is not None]
    found, more = registered_units.page(session, _ALL.where(*where), query.marker, query.limit)
    return [FloatingIp(**row) for row in found], more


def registered(session: orm.Session, network_id: str, addresses: Iterable[str]) -> list[str]:
    """Return those of the addresses of a network that are set apart; one statement."""
    wanted = [*addresses]
    column = _FLOATING_IP.c.address
    query = sa.select(column).where(_FLOATING_IP.c.network_id == network_id, column.in_(wanted))
    found = {*session.scalars(query)}
    return [each for each in wanted if each in found]


def insert(session: orm.Session, network_id: str, subnets: Mapping[str, str]) -> list[int]:
    """Write new floating IPs and their units; return their ids, in order.

    :param subnets: address -> the id of its subnet
    :raises oslo_db.exception.DBDuplicateEntry: one of them is there already
    """
    made = [
        (
            {'network_id': network_id, 'address': address},
            {'network_id': network_id, 'subnet_id': subnet_id, 'address': address},
        )
        for address, subnet_id in subnets.items()
    ]
    unit = {'kind': floatingips.KIND, 'pool': network_id}
    return registered_units.insert(session, _FLOATING_IP, unit, made)


def delete(session: orm.Session, floating_ip_id: int) -> None:
    """Delete a floating IP with its unit; one that is gone is fine."""
    registered_units.delete(session, floating_ip_id, floatingips.KIND)
