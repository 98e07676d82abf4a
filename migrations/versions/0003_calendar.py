# SPDX-License-Identifier: Apache-2.0
"""The calendar: units, what is promised of them and when, and the hosts of the pools."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0003'
down_revision = '0002'
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
    op.add_column('reservations', sa.Column('unit_kind', sa.String(66)))
    op.create_table(
        'units',
        sa.Column('id', _SERIAL, primary_key=True),
        sa.Column('kind', sa.String(66), nullable=False),
        sa.Column('pool', sa.String(255), nullable=False),
        sa.Column('available', sa.Boolean(), nullable=False),
        sa.Column('capacity', _json(), nullable=False),
        sa.Column('lanes', sa.Integer(), nullable=False),
        sa.Column('properties', _json(), nullable=False),
        sa.Column('generation', sa.Integer(), nullable=False),
        sa.Column('changed_at', _time(), nullable=False),
        sqlite_autoincrement=True,
        **_OPTIONS,
    )
    op.create_index('units_changed_idx', 'units', ['changed_at', 'generation'])
    _allocations()
    _hosts()


def _allocations() -> None:
    op.create_table(
        'allocations',
        _unit_id('allocations', primary_key=True),
        sa.Column('unit_generation', sa.Integer(), primary_key=True),
        sa.Column(
            'reservation_id',
            sa.String(36),
            sa.ForeignKey(
                'reservations.id', name='allocations_reservation_fkey', ondelete='CASCADE'
            ),
            nullable=False,
        ),
        sa.Column('start', _time(), nullable=False),
        sa.Column('end', _time(), nullable=False),
        sa.Column('pieces', sa.Integer(), nullable=False),
        sa.Column('piece', _json()),
        sa.Column('lane', sa.Integer(), nullable=False),
        **_OPTIONS,
    )
    op.create_index('allocations_reservation_idx', 'allocations', ['reservation_id'])


def _hosts() -> None:
    op.create_table(
        'hosts',
        _unit_id('hosts', primary_key=True),
        sa.Column('hypervisor_hostname', sa.String(255), nullable=False),
        sa.Column('service_name', sa.String(255), nullable=False),
        sa.Column('provider_id', sa.String(36), nullable=False),
        sa.Column('lane_ids', _json(), nullable=False),
        sa.Column('details', _json(), nullable=False),
        sa.Column('extra', _json(), nullable=False),
        sa.Column('disabled_reason', sa.Text()),
        sa.Column('created_at', _time(), nullable=False),
        sa.Column('updated_at', _time()),
        sa.UniqueConstraint('hypervisor_hostname', name='hosts_hypervisor_hostname_key'),
        **_OPTIONS,
    )
    op.create_table(
        'host_properties',
        sa.Column('name', sa.String(255), primary_key=True),
        sa.Column('private', sa.Boolean(), nullable=False),
        **_OPTIONS,
    )


def _unit_id(table: str, **options: bool) -> sa.Column:
    key = sa.ForeignKey('units.id', name=f'{table}_unit_fkey', ondelete='CASCADE')
    return sa.Column('unit_id', _SERIAL, key, nullable=False, **options)
