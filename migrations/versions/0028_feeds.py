# SPDX-License-Identifier: Apache-2.0
"""Have feeds of leases for calendars.

MariaDB and MySQL commit the table at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0028'
down_revision = '0027'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    if sa.inspect(op.get_bind()).has_table('feeds'):
        return
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
    op.create_table(
        'feeds',
        sa.Column('id', sa.String(36), primary_key=True, nullable=False),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('secret_digest', sa.String(64), nullable=False),
        sa.Column('trust_id', sa.String(255), nullable=False),
        sa.Column('created_at', time, nullable=False),
        sa.Index('feeds_user_idx', 'user_id', 'project_id', 'created_at'),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
    )
