# SPDX-License-Identifier: Apache-2.0
"""Mark leases whose promises others may take.

MariaDB and MySQL commit the column at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0020'
down_revision = '0019'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('leases')}
    if 'preemptible' not in present:
        column = sa.Column('preemptible', sa.Boolean(), nullable=False, server_default='0')
        op.add_column('leases', column)
    indexes = {each['name'] for each in sa.inspect(op.get_bind()).get_indexes('leases')}
    if 'leases_preemptible_idx' not in indexes:
        op.create_index('leases_preemptible_idx', 'leases', ['preemptible', 'start_date'])
