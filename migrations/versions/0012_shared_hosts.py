# SPDX-License-Identifier: Apache-2.0
"""Have hosts that serve ordinary servers until a lease needs them.

MariaDB and MySQL commit the column at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('hosts')}
    if 'lent' not in present:
        op.add_column('hosts', sa.Column('lent', sa.Boolean()))
