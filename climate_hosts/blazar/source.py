# SPDX-License-Identifier: Apache-2.0
"""Read the database of Blazar, and nothing else of Blazar.

The tables are those of the releases 13 to 18. Rows are read in one transaction, and never written.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade

from climate_core.db.engine import DATABASE_ERRORS
from climate_hosts.blazar.plan import Contents, Row

#: The tables and columns that are read.
TABLES: Final[Mapping[str, Sequence[str]]] = {
    'leases': (
        'id',
        'name',
        'user_id',
        'project_id',
        'start_date',
        'end_date',
        'status',
        'degraded',
        'trust_id',
        'created_at',
        'updated_at',
    ),
    'reservations': (
        'id',
        'lease_id',
        'resource_id',
        'resource_type',
        'status',
        'missing_resources',
        'resources_changed',
    ),
    'events': ('id', 'lease_id', 'event_type', 'time', 'status', 'updated_at'),
    'computehost_reservations': (
        'reservation_id',
        'aggregate_id',
        'resource_properties',
        'hypervisor_properties',
        'count_range',
        'before_end',
    ),
    'instance_reservations': (
        'reservation_id',
        'vcpus',
        'memory_mb',
        'disk_gb',
        'amount',
        'affinity',
        'resource_properties',
        'flavor_id',
        'aggregate_id',
        'server_group_id',
    ),
    'floatingip_reservations': ('id', 'reservation_id', 'network_id', 'amount'),
    'required_floatingips': ('floatingip_reservation_id', 'address'),
    'computehosts': (
        'id',
        'hypervisor_hostname',
        'service_name',
        'vcpus',
        'memory_mb',
        'local_gb',
        'reservable',
    ),
    'computehost_extra_capabilities': ('computehost_id', 'property_id', 'capability_value'),
    'resource_properties': ('id', 'resource_type', 'property_name', 'private'),
    'computehost_allocations': ('compute_host_id', 'reservation_id'),
    'floatingips': (
        'id',
        'floating_network_id',
        'subnet_id',
        'floating_ip_address',
        'reservable',
    ),
    'floatingip_allocations': ('floatingip_id', 'reservation_id'),
}
#: The column that every table of Chameleon's fork has, and none of Blazar.
_FORK: Final = 'deleted'


#: The errors of a database, or of a driver that is not installed.
_ERRORS: Final[tuple[type[Exception], ...]] = (*DATABASE_ERRORS, ImportError)


class InvalidSource(Exception):
    """The configuration or the database of Blazar cannot be read."""


def read_connection(path: str) -> str:
    """Return the URL of the database from the configuration file of Blazar.

    :raises InvalidSource: the file cannot be read, or has none
    """
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt('connection', secret=True)], 'database')
    try:
        conf(['--config-file', path], project='blazar', default_config_dirs=[])
    except cfg.Error as exc:
        raise InvalidSource(f'The configuration of Blazar cannot be read: {exc}') from exc
    found: str | None = conf.database.connection
    if not found:
        raise InvalidSource(f'[database] connection is not set in {path}.')
    return found


def read_contents(connection: str) -> Contents:
    """Read the database of Blazar.

    :param connection: its URL
    :raises InvalidSource: it cannot be read, or is not a database of Blazar
    """
    manager = enginefacade.transaction_context()
    manager.configure(connection=connection, max_retries=0)
    try:
        engine = manager.writer.get_engine()
        try:
            if engine.dialect.name not in ('mysql', 'mariadb'):
                raise InvalidSource('The database of Blazar must be MariaDB or MySQL.')
            with engine.connect() as conn:
                _check_tables(sa.inspect(conn))
                rows = {name: _read_rows(conn, name) for name in TABLES}
                return Contents(rows, _read_time(conn), _count_connections(conn))
        finally:
            engine.dispose()
    except _ERRORS as exc:
        # The lines below the first one are SQL, and an address with general advice.
        reason = str(exc).partition('\n')[0]
        raise InvalidSource(f'The database of Blazar cannot be read: {reason}') from exc


def _check_tables(inspector: sa.Inspector) -> None:
    """Reject a database that lacks a table or a column, or has those of a fork."""
    present = set(inspector.get_table_names())
    for name, columns in TABLES.items():
        if name not in present:
            raise InvalidSource(f'The database of Blazar has no table {name}.')
        found = {column['name'] for column in inspector.get_columns(name)}
        if _FORK in found:
            raise InvalidSource(
                f'The table {name} has a column "{_FORK}": the database is that of a fork of '
                'Blazar, which is not supported.'
            )
        missing = [column for column in columns if column not in found]
        if missing:
            raise InvalidSource(
                f'The table {name} has no column {missing[0]}: Blazar 13 to 18 are supported.'
            )


def _read_rows(conn: sa.Connection, name: str) -> list[Row]:
    # Blazar and Climate have tables with equal names: these are of no metadata.
    columns: list[sa.ColumnClause[Any]] = [sa.column(each) for each in TABLES[name]]
    query = sa.select(*columns).select_from(sa.table(name))
    return [dict(row) for row in conn.execute(query).mappings()]


def _read_time(conn: sa.Connection) -> datetime.datetime:
    now: datetime.datetime = conn.execute(sa.text('SELECT UTC_TIMESTAMP()')).scalar_one()
    return now


def _count_connections(conn: sa.Connection) -> int:
    """Count the other connections to the database, as blazar-manager always has one.

    A user without the privilege PROCESS sees those of the same user, which Blazar's services are.
    """
    query = sa.text(
        'SELECT COUNT(*) FROM information_schema.processlist '
        'WHERE db = DATABASE() AND id <> CONNECTION_ID()'
    )
    return int(conn.execute(query).scalar_one())
