# SPDX-License-Identifier: Apache-2.0
"""The pools of hosts, and who may use them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None
phase = 'expand'


def _json() -> sa.types.TypeEngine:
    return sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    op.add_column('units', sa.Column('access', _json()))
    op.create_table(
        'host_pools',
        sa.Column('name', sa.String(255), primary_key=True),
        sa.Column('access', _json()),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
    )
