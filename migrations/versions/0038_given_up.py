# SPDX-License-Identifier: Apache-2.0
"""Say of a reservation whether its lease gave it up for another one, which its reason told alone.

MariaDB and MySQL commit each step at once, so what is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0038'
down_revision = '0037'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('reservations')}
    if 'given_up' not in present:
        op.add_column('reservations', sa.Column('given_up', sa.Boolean()))
