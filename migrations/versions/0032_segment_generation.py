# SPDX-License-Identifier: Apache-2.0
"""Count the changes of network segments by operators.

MariaDB and MySQL commit the column at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0032'
down_revision = '0031'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    columns = sa.inspect(op.get_bind()).get_columns('network_segments')
    if 'generation' not in {each['name'] for each in columns}:
        column = sa.Column('generation', sa.Integer(), nullable=False, server_default='0')
        op.add_column('network_segments', column)
