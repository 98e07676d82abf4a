# SPDX-License-Identifier: Apache-2.0
"""Give leases that wait a priority.

MariaDB and MySQL commit the column at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('leases')}
    if 'priority' not in present:
        priority = sa.Column('priority', sa.SmallInteger(), nullable=False, server_default='0')
        op.add_column('leases', priority)
