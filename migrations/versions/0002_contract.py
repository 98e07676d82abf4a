# SPDX-License-Identifier: Apache-2.0
"""The lease as a contract: history, start policy, heads-up, webhooks, usage, limits, progress.

Everything is added: the release before this one goes on working on the same database. Columns
that it does not write have a default or may be NULL.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None
phase = 'expand'

_OPTIONS = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4'}
_SERIAL = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')


def _time() -> sa.types.TypeEngine:
    return sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def _json() -> sa.types.TypeEngine:
    return sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    _columns()
    _indexes()
    _history()
    _deliveries()
    op.create_table(
        'usage_periods',
        sa.Column('start', _time(), primary_key=True),
        sa.Column('end', _time(), nullable=False),
        **_OPTIONS,
    )
    op.create_table(
        'stray_trusts',
        sa.Column('id', sa.String(255), primary_key=True),
        sa.Column('since', _time(), nullable=False),
        **_OPTIONS,
    )
    op.create_table(
        'projects',
        sa.Column('id', sa.String(255), primary_key=True),
        sa.Column('generation', sa.Integer(), nullable=False),
        **_OPTIONS,
    )


def _columns() -> None:
    policy = sa.Column('start_policy', sa.String(16), nullable=False, server_default='auto')
    op.add_column('leases', policy)
    op.add_column('leases', sa.Column('before_start', _json()))
    op.add_column('leases', sa.Column('webhook', _json()))
    op.add_column('leases', sa.Column('request_digest', sa.String(64)))
    op.add_column('reservations', sa.Column('amounts', _json()))
    op.add_column('reservations', sa.Column('woken_at', _time()))
    op.add_column('reservations', sa.Column('freed_at', _time()))
    op.add_column('reservations', sa.Column('parent_id', sa.String(255)))
    op.add_column('reservations', sa.Column('progress', _json()))
    op.add_column('events', sa.Column('reservation_id', sa.String(36)))


def _indexes() -> None:
    listed = ['project_id', 'deleted_at', 'created_at', 'id']
    op.create_index('leases_listed_idx', 'leases', listed)
    op.create_index('leases_all_idx', 'leases', ['deleted_at', 'created_at', 'id'])
    op.create_index('leases_live_idx', 'leases', ['project_id', 'status'])
    op.create_index('leases_name_idx', 'leases', ['name'])
    status = ['status', 'deleted_at', 'created_at', 'id']
    op.create_index('leases_status_idx', 'leases', status)
    time = ['deleted_at', 'end_date', 'start_date']
    op.create_index('leases_time_idx', 'leases', time)
    op.create_index('leases_project_time_idx', 'leases', ['project_id', *time])
    op.create_index('reservations_freed_idx', 'reservations', ['freed_at', 'created_at'])
    op.create_index('reservations_resource_idx', 'reservations', ['resource_id'])


def _history() -> None:
    op.create_table(
        'lease_history',
        sa.Column('id', _SERIAL, primary_key=True),
        sa.Column(
            'lease_id',
            sa.String(36),
            sa.ForeignKey('leases.id', name='lease_history_lease_fkey', ondelete='CASCADE'),
            nullable=False,
        ),
        sa.Column('time', _time(), nullable=False),
        sa.Column('action', sa.String(128), nullable=False),
        sa.Column('result', sa.String(16), nullable=False),
        sa.Column('reason', sa.Text()),
        sa.Column('user_id', sa.String(255)),
        sa.Column('request_id', sa.String(64)),
        sa.Column('changes', _json(), nullable=False),
        **_OPTIONS,
    )
    op.create_index('lease_history_lease_idx', 'lease_history', ['lease_id', 'id'])


def _deliveries() -> None:
    op.create_table(
        'webhook_deliveries',
        sa.Column('id', _SERIAL, primary_key=True),
        sa.Column(
            'lease_id',
            sa.String(36),
            sa.ForeignKey('leases.id', name='webhook_deliveries_lease_fkey', ondelete='CASCADE'),
            nullable=False,
        ),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('event_id', sa.String(36), nullable=False),
        sa.Column('event_type', sa.String(128), nullable=False),
        sa.Column('payload', _json(), nullable=False),
        sa.Column('target', sa.String(255), nullable=False),
        sa.Column('url', sa.Text(), nullable=False),
        sa.Column('secret', sa.String(255), nullable=False),
        sa.Column('attempts', sa.Integer(), nullable=False),
        sa.Column('claim', sa.String(36)),
        sa.Column('next_at', _time(), nullable=False),
        sa.Column('created_at', _time(), nullable=False),
        **_OPTIONS,
    )
    op.create_index('webhook_deliveries_next_idx', 'webhook_deliveries', ['next_at', 'id'])
    op.create_index('webhook_deliveries_claim_idx', 'webhook_deliveries', ['claim'])
    op.create_index('webhook_deliveries_lease_idx', 'webhook_deliveries', ['lease_id'])
