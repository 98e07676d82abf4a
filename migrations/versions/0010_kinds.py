# SPDX-License-Identifier: Apache-2.0
"""Give leases a kind, and what those have that wait until there is enough for them.

MariaDB and MySQL commit each column at once, so those that are there are left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None
phase = 'expand'

#: What the calendar promises was made by leases of this kind, which had no name.
_SCHEDULED = """
UPDATE leases SET kind = 'scheduled'
WHERE id IN (SELECT lease_id FROM reservations WHERE unit_kind IS NOT NULL)
AND id NOT IN (SELECT lease_id FROM reservations WHERE unit_kind IS NULL)
"""


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('leases')}
    kind = sa.Column('kind', sa.String(16), nullable=False, server_default='immediate')
    for column in (
        kind,
        sa.Column('retries_left', sa.Integer()),
        sa.Column('duration', sa.Integer()),
    ):
        if column.name not in present:
            op.add_column('leases', column)
    op.execute(_SCHEDULED)
