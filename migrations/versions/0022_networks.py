# SPDX-License-Identifier: Apache-2.0
"""Have network segments that are set apart for leases.

MariaDB and MySQL commit the table at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0022'
down_revision = '0021'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table('network_segments'):
        return
    unit = sa.ForeignKey('units.id', name='network_segments_unit_fkey', ondelete='CASCADE')
    serial = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
    exact = mysql.VARCHAR(255, collation='utf8mb4_bin')
    name = sa.String(255).with_variant(exact, 'mysql', 'mariadb')
    json = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
    op.create_table(
        'network_segments',
        sa.Column('unit_id', serial, unit, primary_key=True, nullable=False),
        sa.Column('network_type', sa.String(16), nullable=False),
        sa.Column('physical_network', name, nullable=False),
        sa.Column('segment_id', sa.BigInteger(), nullable=False),
        sa.Column('extra', json, nullable=False),
        sa.Column('created_at', time, nullable=False),
        sa.Column('updated_at', time),
        sa.UniqueConstraint(
            'network_type',
            'physical_network',
            'segment_id',
            name='network_segments_segment_key',
        ),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
    )
