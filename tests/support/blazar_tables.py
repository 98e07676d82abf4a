# SPDX-License-Identifier: Apache-2.0
"""The tables of Blazar 18 as far as an import reads them, and rows as its manager writes them."""

import datetime
import uuid
from typing import Any

import sqlalchemy as sa

from climate_hosts.blazar import source

#: The time of the rows.
NOW = datetime.datetime(2026, 12, 1, 9, 0)
HOUR = datetime.timedelta(hours=1)
_TIMES = {'created_at', 'updated_at', 'start_date', 'end_date', 'time'}
_NUMBERS = {'vcpus', 'memory_mb', 'local_gb', 'disk_gb', 'amount', 'aggregate_id'}
_FLAGS = {
    'affinity',
    'degraded',
    'missing_resources',
    'private',
    'reservable',
    'resources_changed',
}


def _column(name: str) -> sa.Column[Any]:
    if name in _TIMES:
        return sa.Column(name, sa.DateTime)
    if name in _NUMBERS:
        return sa.Column(name, sa.Integer)
    return sa.Column(name, sa.Boolean if name in _FLAGS else sa.String(255))


METADATA = sa.MetaData()
TABLES = {
    name: sa.Table(name, METADATA, *map(_column, columns))
    for name, columns in source.TABLES.items()
}


def new_id() -> str:
    return str(uuid.uuid4())


class Rows:
    """Rows of a Blazar, which a test adds.

    :ivar rows: by their tables
    """

    def __init__(self, now: datetime.datetime = NOW) -> None:
        self.now = now
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in source.TABLES}

    def write(self, url: str) -> None:
        """Create the tables in a database, and write all rows."""
        engine = sa.create_engine(url)
        METADATA.create_all(engine)
        with engine.begin() as conn:
            for name, rows in self.rows.items():
                if rows:
                    conn.execute(TABLES[name].insert(), rows)
        engine.dispose()

    def add(self, table: str, **values: Any) -> dict[str, Any]:
        row = dict.fromkeys(source.TABLES[table]) | values
        self.rows[table].append(row)
        return row

    def host(self, name: str, **extra: str) -> str:
        """Add a host with extra capabilities; return its id."""
        host_id = str(len(self.rows['computehosts']) + 1)
        self.add(
            'computehosts',
            id=host_id,
            hypervisor_hostname=name,
            service_name=name,
            vcpus=8,
            memory_mb=16384,
            local_gb=100,
            reservable=True,
        )
        for key, value in extra.items():
            property_id = new_id()
            self.add(
                'resource_properties',
                id=property_id,
                resource_type='physical:host',
                property_name=key,
                private=False,
            )
            self.add(
                'computehost_extra_capabilities',
                computehost_id=host_id,
                property_id=property_id,
                capability_value=value,
            )
        return host_id

    def address(self, address: str) -> str:
        """Add a floating IP; return its id."""
        row = self.add(
            'floatingips',
            id=new_id(),
            floating_network_id='public',
            subnet_id='subnet',
            floating_ip_address=address,
            reservable=True,
        )
        return str(row['id'])

    def lease(self, status: str = 'PENDING', **values: Any) -> dict[str, Any]:
        """Add a lease from an hour before now if it is ACTIVE, else after, for two hours."""
        start = self.now - HOUR if status == 'ACTIVE' else self.now + HOUR
        lease = self.add(
            'leases',
            **{
                'id': new_id(),
                'name': 'lease1',
                'user_id': 'user',
                'project_id': 'project',
                'start_date': start,
                'end_date': start + 2 * HOUR,
                'status': status,
                'degraded': False,
                'created_at': start - HOUR,
            }
            | values,
        )
        times = {'start_lease': lease['start_date'], 'end_lease': lease['end_date']}
        for event_type, time in times.items():
            done = status == 'ACTIVE' and event_type == 'start_lease'
            self.add(
                'events',
                id=new_id(),
                lease_id=lease['id'],
                event_type=event_type,
                time=time,
                status='DONE' if done else 'UNDONE',
            )
        return lease

    def reserve(self, lease: dict[str, Any], resource_type: str, **values: Any) -> str:
        """Add a reservation to a lease; return its id."""
        row = self.add(
            'reservations',
            **{
                'id': new_id(),
                'lease_id': lease['id'],
                'resource_id': new_id(),
                'resource_type': resource_type,
                'status': lease['status'].lower(),
                'missing_resources': False,
                'resources_changed': False,
            }
            | values,
        )
        return str(row['id'])

    def reserve_hosts(self, lease: dict[str, Any], *host_ids: str, **values: Any) -> str:
        """Add a reservation of whole hosts; return its id."""
        reservation_id = self.reserve(lease, 'physical:host')
        count = len(host_ids)
        wanted = {
            'reservation_id': reservation_id,
            'aggregate_id': 1,
            'resource_properties': '',
            'hypervisor_properties': '',
            'count_range': f'{count}-{count}',
            'before_end': 'default',
        }
        self.add('computehost_reservations', **wanted | values)
        self._allocate(reservation_id, *host_ids)
        return reservation_id

    def reserve_instances(self, lease: dict[str, Any], *host_ids: str, **values: Any) -> str:
        """Add a reservation of an instance by size on each of some hosts; return its id."""
        reservation_id = self.reserve(lease, 'virtual:instance')
        wanted = {
            'reservation_id': reservation_id,
            'vcpus': 2,
            'memory_mb': 2048,
            'disk_gb': 10,
            'amount': len(host_ids),
            'resource_properties': '',
            'flavor_id': reservation_id,
        }
        self.add('instance_reservations', **wanted | values)
        self._allocate(reservation_id, *host_ids)
        return reservation_id

    def reserve_addresses(
        self, lease: dict[str, Any], *address_ids: str, required: tuple[str, ...] = ()
    ) -> str:
        """Add a reservation of floating IPs; return its id."""
        reservation_id = self.reserve(lease, 'virtual:floatingip')
        row = self.add(
            'floatingip_reservations',
            id=new_id(),
            reservation_id=reservation_id,
            network_id='public',
            amount=len(address_ids),
        )
        for each in required:
            self.add('required_floatingips', floatingip_reservation_id=row['id'], address=each)
        for each in address_ids:
            self.add('floatingip_allocations', floatingip_id=each, reservation_id=reservation_id)
        return reservation_id

    def _allocate(self, reservation_id: str, *host_ids: str) -> None:
        for each in host_ids:
            self.add(
                'computehost_allocations', compute_host_id=each, reservation_id=reservation_id
            )
