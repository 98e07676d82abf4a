# SPDX-License-Identifier: Apache-2.0
"""Have the power state of hosts, and for how long they slept.

MariaDB and MySQL commit a column at once, so what is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0030'
down_revision = '0029'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
    columns = {
        'units': [sa.Column('asleep', sa.Boolean(), nullable=False, server_default='0')],
        'hosts': [
            sa.Column('power', sa.String(16)),
            sa.Column('power_since', time),
            sa.Column('slept_at', time),
            sa.Column('kept_on', sa.Boolean(), nullable=False, server_default='0'),
            sa.Column('wake_seconds', sa.Integer()),
        ],
    }
    for table, wanted in columns.items():
        present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns(table)}
        for column in wanted:
            if column.name not in present:
                op.add_column(table, column)
    _make_sleeps(time)


def _make_sleeps(time: sa.types.TypeEngine) -> None:
    if not sa.inspect(op.get_bind()).has_table('host_sleeps'):
        serial = sa.BigInteger().with_variant(sa.Integer(), 'sqlite')
        op.create_table(
            'host_sleeps',
            sa.Column('id', serial, primary_key=True, nullable=False),
            sa.Column('unit_id', serial, nullable=False),
            sa.Column('hypervisor_hostname', sa.String(255), nullable=False),
            sa.Column('start', time, nullable=False),
            sa.Column('end', time),
            mysql_engine='InnoDB',
            mysql_charset='utf8mb4',
        )
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_indexes('host_sleeps')}
    for name, columns in (
        ('host_sleeps_unit_idx', ['unit_id', 'start']),
        ('host_sleeps_end_idx', ['end', 'start']),
    ):
        if name not in present:
            op.create_index(name, 'host_sleeps', columns)
