# SPDX-License-Identifier: Apache-2.0
"""Have trusts that leases of an owner share, and find the leases of a trust.

MariaDB and MySQL commit each step at once, so what is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0034'
down_revision = '0033'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_indexes('leases')}
    if 'leases_trust_idx' not in present:
        op.create_index('leases_trust_idx', 'leases', ['trust_id'])
    if sa.inspect(op.get_bind()).has_table('owner_trusts'):
        return
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
    text = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
    op.create_table(
        'owner_trusts',
        sa.Column('trust_id', sa.String(255), primary_key=True, nullable=False),
        sa.Column('digest', sa.String(64), nullable=False),
        sa.Column('user_id', sa.String(255), nullable=False),
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('roles', text, nullable=False),
        sa.Column('created_at', time, nullable=False),
        sa.Column('retired_at', time),
        sa.Index('owner_trusts_live_idx', 'digest', 'retired_at', 'created_at'),
        mysql_engine='InnoDB',
        mysql_charset='utf8mb4',
    )
