# SPDX-License-Identifier: Apache-2.0
"""Rows in Blazar's tables, as its API leaves them, for hosts and leases that nobody measures.

Tables and columns: ``blazar/db/sqlalchemy/models.py`` of the release 18.0.0. A create through the
API costs about a second each; what is measured later is the same either way.
"""

import datetime
import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import pymysql.connections

from tests.bench.cloud import PROJECT_ID, USER

#: What libvirt reports, in three inventories; traits are left out, in favour of Blazar.
INVENTORIES = (('VCPU', 64, 16.0), ('MEMORY_MB', 262144, 1.5), ('DISK_GB', 2000, 1.0))
HOURS = 24


class Rows:
    """Writes them.

    :param trust_id: an existing trust, for the leases
    """

    def __init__(self, connection: pymysql.connections.Connection, trust_id: str) -> None:
        self._connection, self._trust_id = connection, trust_id
        self._hosts: list[str] = []
        self._now = f'{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S}'
        self._numbers = itertools.count(1)

    def _insert(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        if not rows:
            return
        columns = ('created_at', *rows[0])
        marks = ', '.join(['%s'] * len(columns))
        statement = f'INSERT INTO {table} ({", ".join(columns)}) VALUES ({marks})'
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, [(self._now, *row.values()) for row in rows])

    def set_hosts(self, count: int) -> list[str]:
        """Replace all hosts by new ones, which no lease holds; return their names."""
        with self._connection.cursor() as cursor:
            for table in ('computehost_allocations', 'computehost_resource_inventory'):
                cursor.execute(f'DELETE FROM {table}')
            cursor.execute('DELETE FROM computehosts')
        self._hosts = [str(number) for number in itertools.islice(self._numbers, count)]
        self._insert('computehosts', [_host(number) for number in self._hosts])
        self._insert(
            'computehost_resource_inventory',
            [_inventory(host, *each) for host in self._hosts for each in INVENTORIES],
        )
        return [_name(number) for number in self._hosts]

    def add_leases(self, start: float, aggregates: Sequence[int], allocate: bool = False) -> None:
        """Write PENDING leases of one host each.

        :param start: when they start, unix time
        :param aggregates: the id in Nova of the aggregate of each
        :param allocate: give each a host
        """
        begin = datetime.datetime.fromtimestamp(start, datetime.UTC).replace(tzinfo=None)
        leases = [_lease(begin, number, self._trust_id) for number in range(len(aggregates))]
        reservations = [_reservation(lease['id']) for lease in leases]
        self._insert('leases', leases)
        self._insert('reservations', reservations)
        self._insert(
            'computehost_reservations',
            [_host_reservation(*pair) for pair in zip(reservations, aggregates, strict=True)],
        )
        if allocate:
            self._insert(
                'computehost_allocations',
                [
                    {'id': _id(), 'compute_host_id': self._hosts.pop(), 'reservation_id': r['id']}
                    for r in reservations
                ],
            )
        self._insert('events', [event for lease in leases for event in _events(lease)])


def _id() -> str:
    return str(uuid.uuid4())


def _name(number: str) -> str:
    return f'cn{number:>05}'


def _host(number: str) -> dict[str, Any]:
    return {
        'id': number,
        'vcpus': 64,
        'cpu_info': '{"arch": "x86_64", "model": "EPYC", "vendor": "AMD"}',
        'hypervisor_type': 'QEMU',
        'hypervisor_version': 7002000,
        'hypervisor_hostname': _name(number),
        'service_name': _name(number),
        'memory_mb': 262144,
        'local_gb': 2000,
        'availability_zone': 'nova',
        'trust_id': uuid.uuid4().hex,
        'reservable': True,
    }


def _inventory(host: str, name: str, total: int, ratio: float) -> dict[str, Any]:
    return {
        'id': _id(),
        'computehost_id': host,
        'resource_class': name,
        'total': total,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': ratio,
    }


def _lease(start: datetime.datetime, number: int, trust_id: str) -> dict[str, Any]:
    return {
        'id': _id(),
        'name': f'seeded-{number}',
        'user_id': f'{USER}-id',
        'project_id': PROJECT_ID,
        'start_date': start,
        'end_date': start + datetime.timedelta(hours=HOURS),
        'trust_id': trust_id,
        'status': 'PENDING',
        'degraded': False,
    }


def _reservation(lease_id: str) -> dict[str, Any]:
    return {
        'id': _id(),
        'lease_id': lease_id,
        'resource_id': _id(),
        'resource_type': 'physical:host',
        'status': 'pending',
        'missing_resources': False,
        'resources_changed': False,
    }


def _host_reservation(reservation: dict[str, Any], aggregate: int) -> dict[str, Any]:
    return {
        'id': reservation['resource_id'],
        'reservation_id': reservation['id'],
        'aggregate_id': aggregate,
        'resource_properties': '',
        'hypervisor_properties': '',
        'count_range': '1-1',
        'before_end': 'default',
    }


def _events(lease: dict[str, Any]) -> list[dict[str, Any]]:
    times = {
        'start_lease': lease['start_date'],
        'before_end_lease': lease['end_date'] - datetime.timedelta(hours=1),
        'end_lease': lease['end_date'],
    }
    return [
        {'id': _id(), 'lease_id': lease['id'], 'event_type': kind, 'time': at, 'status': 'UNDONE'}
        for kind, at in times.items()
    ]
