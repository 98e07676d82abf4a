# SPDX-License-Identifier: Apache-2.0
"""Have floating IPs that are set apart for leases.

MariaDB and MySQL commit the table at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table('floatingips'):
        return
    unit = sa.ForeignKey('units.id', name='floatingips_unit_fkey', ondelete='CASCADE')
    serial = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
    op.create_table(
        'floatingips',
        sa.Column('unit_id', serial, unit, primary_key=True, nullable=False),
        sa.Column('network_id', sa.String(36), nullable=False),
        sa.Column('subnet_id', sa.String(36), nullable=False),
        sa.Column('address', sa.String(15), nullable=False),
        sa.Column('created_at', time, nullable=False),
        sa.UniqueConstraint('network_id', 'address', name='floatingips_address_key'),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
    )
