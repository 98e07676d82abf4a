# SPDX-License-Identifier: Apache-2.0
"""Tell names of pools and properties apart by case, count the changes of pools, mend the indexes.

MariaDB and MySQL compared names without regard to case. Who may use a pool that differs from
another one by case alone is what its units have. ``units_changed_idx`` had one column in databases
that were made between two releases.

MariaDB and MySQL commit each step at once, so what an upgrade that was cut off has done is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None
phase = 'expand'

_INDEXES = (
    ('units', 'units_changed_idx', ['changed_at', 'generation']),
    ('hosts', 'hosts_provider_idx', ['provider_id']),
)
_NAMES = (('units', 'pool'), ('host_pools', 'name'), ('host_properties', 'name'))
_MISSING = """
INSERT INTO host_pools (name, access)
SELECT units.pool, MIN(units.access)
FROM units LEFT JOIN host_pools ON host_pools.name = units.pool
WHERE host_pools.name IS NULL AND units.access IS NOT NULL
GROUP BY units.pool
"""


def upgrade() -> None:
    bind = op.get_bind()
    inspector = sa.inspect(bind)
    if 'generation' not in {each['name'] for each in inspector.get_columns('host_pools')}:
        op.add_column(
            'host_pools', sa.Column('generation', sa.Integer(), nullable=False, server_default='0')
        )
    for table, name, columns in _INDEXES:
        present = {each['name']: each['column_names'] for each in inspector.get_indexes(table)}
        if name in present and present[name] != columns:
            op.drop_index(name, table)
        if present.get(name) != columns:
            op.create_index(name, table, columns)
    if bind.dialect.name in ('mysql', 'mariadb'):
        exact = mysql.VARCHAR(255, collation='utf8mb4_bin')
        for table, column in _NAMES:
            op.alter_column(table, column, existing_nullable=False, type_=exact)
        op.execute(_MISSING)
