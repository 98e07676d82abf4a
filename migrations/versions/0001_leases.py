# SPDX-License-Identifier: Apache-2.0
"""Leases, reservations, events and the outbox."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0001'
down_revision = None
branch_labels = None
depends_on = None
phase = 'expand'

_OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}


def _time() -> sa.types.TypeEngine:
    return sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def _json() -> sa.types.TypeEngine:
    return sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    _leases()
    _reservations()
    _events()
    _notifications()


def _leases() -> None:
    op.create_table(
        'leases',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('start_date', _time(), nullable=False),
        sa.Column('end_date', _time(), nullable=False),
        sa.Column('before_end_date', _time()),
        sa.Column('status', sa.String(16), nullable=False),
        sa.Column('status_reason', sa.Text()),
        sa.Column('degraded', sa.Boolean(), nullable=False),
        sa.Column('trust_id', sa.String(255)),
        sa.Column('generation', sa.Integer(), nullable=False),
        sa.Column('created_at', _time(), nullable=False),
        sa.Column('updated_at', _time()),
        sa.Column('deleted_at', _time()),
        **_OPTIONS,
    )
    op.create_index('leases_project_idx', 'leases', ['project_id', 'deleted_at'])
    op.create_index('leases_deleted_idx', 'leases', ['deleted_at'])


def _reservations() -> None:
    op.create_table(
        'reservations',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column(
            'lease_id',
            sa.String(36),
            sa.ForeignKey('leases.id', name='reservations_lease_fkey', ondelete='CASCADE'),
            nullable=False,
        ),
        sa.Column('resource_type', sa.String(66), nullable=False),
        sa.Column('resource_id', sa.String(255), nullable=False),
        sa.Column('hold', sa.SmallInteger()),
        sa.Column('status', sa.String(16), nullable=False),
        sa.Column('status_reason', sa.Text()),
        sa.Column('params', _json(), nullable=False),
        sa.Column('missing_resources', sa.Boolean(), nullable=False),
        sa.Column('resources_changed', sa.Boolean(), nullable=False),
        sa.Column('created_at', _time(), nullable=False),
        sa.Column('updated_at', _time()),
        sa.UniqueConstraint('resource_type', 'resource_id', 'hold', name='reservations_hold_key'),
        **_OPTIONS,
    )
    op.create_index('reservations_lease_idx', 'reservations', ['lease_id'])
    op.create_index('reservations_held_idx', 'reservations', ['resource_type', 'hold', 'id'])


def _events() -> None:
    op.create_table(
        'events',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column(
            'lease_id',
            sa.String(36),
            sa.ForeignKey('leases.id', name='events_lease_fkey', ondelete='CASCADE'),
            nullable=False,
        ),
        sa.Column('event_type', sa.String(66), nullable=False),
        sa.Column('time', _time(), nullable=False),
        sa.Column('status', sa.String(16), nullable=False),
        sa.Column('status_reason', sa.Text()),
        sa.Column('generation', sa.Integer(), nullable=False),
        sa.Column('attempts', sa.Integer(), nullable=False),
        sa.Column('priority', sa.SmallInteger(), nullable=False),
        sa.Column('next_at', _time()),
        sa.Column('created_at', _time(), nullable=False),
        sa.Column('updated_at', _time()),
        **_OPTIONS,
    )
    op.create_index('events_lease_idx', 'events', ['lease_id'])
    op.create_index('events_next_idx', 'events', ['next_at', 'priority'])


def _notifications() -> None:
    op.create_table(
        'notifications',
        sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True),
        sa.Column('event_id', sa.String(36), nullable=False),
        sa.Column('event_type', sa.String(128), nullable=False),
        sa.Column('payload', _json(), nullable=False),
        sa.Column('claim', sa.String(36)),
        sa.Column('next_at', _time(), nullable=False),
        sa.Column('created_at', _time(), nullable=False),
        **_OPTIONS,
    )
    op.create_index('notifications_next_idx', 'notifications', ['next_at', 'id'])
    op.create_index('notifications_claim_idx', 'notifications', ['claim'])
