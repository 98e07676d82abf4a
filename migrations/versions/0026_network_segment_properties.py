# SPDX-License-Identifier: Apache-2.0
"""Have properties of network segments that users may not see.

MariaDB and MySQL commit the table at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0026'
down_revision = '0025'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table('network_segment_properties'):
        return
    exact = mysql.VARCHAR(255, collation='utf8mb4_bin')
    name = sa.String(255).with_variant(exact, 'mysql', 'mariadb')
    op.create_table(
        'network_segment_properties',
        sa.Column('name', name, primary_key=True, nullable=False),
        sa.Column('private', sa.Boolean(), nullable=False),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
    )
