# SPDX-License-Identifier: Apache-2.0
"""Store params of reservations a second time without what only the creation of a resource needs.

Rows that are there have nothing in the column, and their params are read. MariaDB and MySQL commit
each step at once, so what is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0040'
down_revision = '0039'
branch_labels = None
depends_on = None
phase = 'expand'

_JSON = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('reservations')}
    if 'short_params' not in present:
        op.add_column('reservations', sa.Column('short_params', _JSON))
