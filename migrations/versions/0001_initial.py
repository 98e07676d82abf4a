# SPDX-License-Identifier: Apache-2.0
"""Create the tables of release 1.0.0.

MariaDB and MySQL commit each statement immediately. Tables and indexes that exist are left, so
that an interrupted upgrade can be repeated.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None
phase = 'expand'

_UUID = sa.String(36)
#: A name whose case counts, also on MariaDB and MySQL.
_NAME = sa.String(255).with_variant(
    mysql.VARCHAR(255, collation='utf8mb4_bin'), 'mysql', 'mariadb'
)
_SERIAL = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
#: UTC without an offset, with microseconds.
_TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
_JSON = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    _create_leases()
    _create_outbox()
    _create_owners()
    _create_calendar()
    _create_hosts()
    _create_networks()


def _create_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(name):
        op.create_table(name, *parts, mysql_engine='InnoDB', mysql_charset='utf8mb4', **options)
        return
    present = {index['name'] for index in inspector.get_indexes(name)}
    for index in parts:
        if isinstance(index, sa.Index) and index.name not in present:
            op.create_index(index.name, name, index.expressions)


def _required(name: str, type_: Any, *more: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, *more, nullable=False, **options)


def _foreign_key(target: str, name: str) -> sa.ForeignKey:
    return sa.ForeignKey(target, name=name, ondelete='CASCADE')


def _create_leases() -> None:
    _create_table(
        'leases',
        _required('id', _UUID, primary_key=True),
        _required('name', sa.String(255)),
        _required('project_id', sa.String(255)),
        _required('user_id', sa.String(255)),
        _required('start_date', _TIME),
        _required('end_date', _TIME),
        sa.Column('before_end_date', _TIME),
        _required('status', sa.String(16)),
        sa.Column('status_reason', sa.Text()),
        _required('degraded', sa.Boolean()),
        sa.Column('trust_id', sa.String(255)),
        _required('generation', sa.Integer()),
        _required('created_at', _TIME),
        sa.Column('updated_at', _TIME),
        sa.Column('deleted_at', _TIME),
        _required('start_policy', sa.String(16), server_default='auto'),
        _required('before_start', _JSON),
        sa.Column('webhook', _JSON),
        sa.Column('request_digest', sa.String(64)),
        _required('kind', sa.String(16), server_default='immediate'),
        sa.Column('retries_left', sa.Integer()),
        sa.Column('duration', sa.Integer()),
        _required('priority', sa.SmallInteger(), server_default='0'),
        _required('preemptible', sa.Boolean(), server_default='0'),
        sa.Index('leases_all_idx', 'deleted_at', 'created_at', 'id'),
        sa.Index('leases_listed_idx', 'project_id', 'deleted_at', 'created_at', 'id'),
        sa.Index('leases_live_idx', 'project_id', 'status'),
        sa.Index('leases_name_idx', 'name'),
        sa.Index('leases_preemptible_idx', 'preemptible', 'start_date'),
        sa.Index('leases_project_time_idx', 'project_id', 'deleted_at', 'end_date', 'start_date'),
        sa.Index('leases_status_idx', 'status', 'deleted_at', 'created_at', 'id'),
        sa.Index('leases_time_idx', 'deleted_at', 'end_date', 'start_date'),
        sa.Index('leases_trust_idx', 'trust_id'),
    )
    _create_table(
        'reservations',
        _required('id', _UUID, primary_key=True),
        _required('lease_id', _UUID, _foreign_key('leases.id', 'reservations_lease_fkey')),
        _required('resource_type', sa.String(66)),
        _required('resource_id', sa.String(255)),
        sa.Column('hold', sa.SmallInteger()),
        _required('status', sa.String(16)),
        sa.Column('status_reason', sa.Text()),
        _required('params', _JSON),
        _required('missing_resources', sa.Boolean()),
        _required('resources_changed', sa.Boolean()),
        _required('created_at', _TIME),
        sa.Column('updated_at', _TIME),
        _required('amounts', _JSON),
        sa.Column('woken_at', _TIME),
        sa.Column('freed_at', _TIME),
        sa.Column('parent_id', sa.String(255)),
        sa.Column('progress', _JSON),
        sa.Column('unit_kind', sa.String(66)),
        _required('given_up', sa.Boolean()),
        sa.Column('short_params', _JSON),
        sa.UniqueConstraint('resource_type', 'resource_id', 'hold', name='reservations_hold_key'),
        sa.Index('reservations_freed_idx', 'freed_at', 'created_at'),
        sa.Index('reservations_held_idx', 'resource_type', 'hold', 'id'),
        sa.Index('reservations_lease_idx', 'lease_id'),
        sa.Index('reservations_resource_idx', 'resource_id'),
    )
    _create_table(
        'events',
        _required('id', _UUID, primary_key=True),
        _required('lease_id', _UUID, _foreign_key('leases.id', 'events_lease_fkey')),
        _required('event_type', sa.String(66)),
        _required('time', _TIME),
        _required('status', sa.String(16)),
        sa.Column('status_reason', sa.Text()),
        _required('generation', sa.Integer()),
        _required('attempts', sa.Integer()),
        _required('priority', sa.SmallInteger()),
        sa.Column('resource_types', sa.String(1024)),
        sa.Column('next_at', _TIME),
        _required('created_at', _TIME),
        sa.Column('updated_at', _TIME),
        sa.Column('reservation_id', _UUID),
        sa.Index('events_lease_idx', 'lease_id'),
        sa.Index('events_next_idx', 'next_at', 'priority'),
    )
    _create_table(
        'lease_history',
        _required('id', _SERIAL, primary_key=True),
        _required('lease_id', _UUID, _foreign_key('leases.id', 'lease_history_lease_fkey')),
        _required('time', _TIME),
        _required('action', sa.String(128)),
        _required('result', sa.String(16)),
        sa.Column('reason', sa.Text()),
        sa.Column('user_id', sa.String(255)),
        sa.Column('request_id', sa.String(64)),
        _required('changes', _JSON),
        sa.Index('lease_history_lease_idx', 'lease_id', 'id'),
    )
    _create_table(
        'feeds',
        _required('id', _UUID, primary_key=True),
        _required('name', sa.String(255)),
        _required('project_id', sa.String(255)),
        _required('user_id', sa.String(255)),
        _required('secret_digest', sa.String(64)),
        _required('trust_id', sa.String(255)),
        _required('created_at', _TIME),
        sa.Index('feeds_user_idx', 'user_id', 'project_id', 'created_at'),
    )


def _create_outbox() -> None:
    _create_table(
        'notifications',
        _required('id', _SERIAL, primary_key=True),
        _required('event_id', _UUID),
        _required('event_type', sa.String(128)),
        _required('payload', _JSON),
        sa.Column('claim', _UUID),
        _required('next_at', _TIME),
        _required('created_at', _TIME),
        sa.Index('notifications_claim_idx', 'claim'),
        sa.Index('notifications_next_idx', 'next_at', 'id'),
    )
    _create_table(
        'webhook_deliveries',
        _required('id', _SERIAL, primary_key=True),
        _required('lease_id', _UUID, _foreign_key('leases.id', 'webhook_deliveries_lease_fkey')),
        _required('project_id', sa.String(255)),
        _required('event_id', _UUID),
        _required('event_type', sa.String(128)),
        _required('payload', _JSON),
        _required('target', sa.String(255)),
        _required('url', sa.Text()),
        _required('secret', sa.String(255)),
        _required('attempts', sa.Integer()),
        sa.Column('claim', _UUID),
        _required('next_at', _TIME),
        _required('created_at', _TIME),
        sa.Index('webhook_deliveries_claim_idx', 'claim'),
        sa.Index('webhook_deliveries_lease_idx', 'lease_id'),
        sa.Index('webhook_deliveries_next_idx', 'next_at', 'id'),
    )
    _create_table(
        'usage_periods',
        _required('start', _TIME, primary_key=True),
        _required('end', _TIME),
    )


def _create_owners() -> None:
    _create_table(
        'stray_trusts',
        _required('id', sa.String(255), primary_key=True),
        _required('since', _TIME),
    )
    _create_table(
        'owner_trusts',
        _required('trust_id', sa.String(255), primary_key=True),
        _required('digest', sa.String(64)),
        _required('user_id', sa.String(255)),
        _required('project_id', sa.String(255)),
        _required('roles', _JSON),
        _required('created_at', _TIME),
        sa.Column('retired_at', _TIME),
        sa.Column('next_at', _TIME),
        sa.Column('attempts', sa.Integer()),
        sa.Index('owner_trusts_live_idx', 'digest', 'retired_at', 'created_at'),
    )
    _create_table(
        'projects',
        _required('id', sa.String(255), primary_key=True),
        _required('generation', sa.Integer()),
    )


def _create_calendar() -> None:
    _create_table(
        'units',
        _required('id', _SERIAL, primary_key=True),
        _required('kind', sa.String(66)),
        _required('pool', _NAME),
        _required('available', sa.Boolean()),
        _required('capacity', _JSON),
        _required('lanes', sa.Integer()),
        _required('properties', _JSON),
        sa.Column('access', _JSON),
        _required('asleep', sa.Boolean(), server_default='0'),
        _required('generation', sa.Integer()),
        _required('changed_at', _TIME),
        sa.Index('units_changed_idx', 'changed_at', 'generation'),
        sqlite_autoincrement=True,
    )
    _create_table(
        'allocations',
        _required(
            'unit_id', _SERIAL, _foreign_key('units.id', 'allocations_unit_fkey'), primary_key=True
        ),
        _required('unit_generation', sa.Integer(), primary_key=True),
        _required(
            'reservation_id',
            _UUID,
            _foreign_key('reservations.id', 'allocations_reservation_fkey'),
        ),
        _required('start', _TIME),
        _required('end', _TIME),
        _required('pieces', sa.Integer()),
        sa.Column('piece', _JSON),
        _required('lane', sa.Integer()),
        sa.Column('released', sa.Boolean()),
        sa.Index('allocations_reservation_idx', 'reservation_id'),
        sa.Index('allocations_time_idx', 'end', 'start'),
    )


def _create_hosts() -> None:
    _create_table(
        'hosts',
        _required(
            'unit_id', _SERIAL, _foreign_key('units.id', 'hosts_unit_fkey'), primary_key=True
        ),
        _required('hypervisor_hostname', sa.String(255)),
        _required('service_name', sa.String(255)),
        _required('provider_id', _UUID),
        _required('lane_ids', _JSON),
        _required('details', _JSON),
        _required('extra', _JSON),
        _required('state', sa.String(16), server_default='enrolled'),
        sa.Column('disabled_reason', sa.Text()),
        sa.Column('emptied_for', _UUID),
        sa.Column('open_to_unreserved', sa.Boolean()),
        sa.Column('power', sa.String(16)),
        sa.Column('power_since', _TIME),
        sa.Column('slept_at', _TIME),
        _required('kept_on', sa.Boolean(), server_default='0'),
        sa.Column('wake_seconds', sa.Integer()),
        _required('created_at', _TIME),
        sa.Column('updated_at', _TIME),
        sa.UniqueConstraint('hypervisor_hostname', name='hosts_hypervisor_hostname_key'),
        sa.Index('hosts_provider_idx', 'provider_id'),
    )
    _create_table(
        'host_sleeps',
        _required('id', _SERIAL, primary_key=True),
        _required('unit_id', _SERIAL),
        _required('hypervisor_hostname', sa.String(255)),
        _required('start', _TIME),
        sa.Column('end', _TIME),
        sa.Index('host_sleeps_end_idx', 'end', 'start'),
        sa.Index('host_sleeps_unit_idx', 'unit_id', 'start'),
    )
    _create_table(
        'host_pools',
        _required('name', _NAME, primary_key=True),
        sa.Column('access', _JSON),
        _required('generation', sa.Integer(), server_default='0'),
    )
    _create_table(
        'host_properties',
        _required('name', _NAME, primary_key=True),
        _required('private', sa.Boolean()),
    )


def _create_networks() -> None:
    _create_table(
        'floatingips',
        _required(
            'unit_id', _SERIAL, _foreign_key('units.id', 'floatingips_unit_fkey'), primary_key=True
        ),
        _required('network_id', _UUID),
        _required('subnet_id', _UUID),
        _required('address', sa.String(15)),
        _required('created_at', _TIME),
        sa.UniqueConstraint('network_id', 'address', name='floatingips_address_key'),
    )
    _create_table(
        'network_segments',
        _required(
            'unit_id',
            _SERIAL,
            _foreign_key('units.id', 'network_segments_unit_fkey'),
            primary_key=True,
        ),
        _required('network_type', sa.String(16)),
        _required('physical_network', _NAME),
        _required('segment_id', sa.BigInteger()),
        _required('extra', _JSON),
        _required('created_at', _TIME),
        sa.Column('updated_at', _TIME),
        _required('generation', sa.Integer(), server_default='0'),
        sa.UniqueConstraint(
            'network_type', 'physical_network', 'segment_id', name='network_segments_segment_key'
        ),
    )
    _create_table(
        'network_segment_properties',
        _required('name', _NAME, primary_key=True),
        _required('private', sa.Boolean()),
    )
