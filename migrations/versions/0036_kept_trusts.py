# SPDX-License-Identifier: Apache-2.0
"""Keep shared trusts for a while, and count how often Keystone has refused to delete one.

MariaDB and MySQL commit each step at once, so what is there is left.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0036'
down_revision = '0035'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('owner_trusts')}
    time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
    for name, kind in (('next_at', time), ('attempts', sa.Integer())):
        if name not in present:
            op.add_column('owner_trusts', sa.Column(name, kind))
