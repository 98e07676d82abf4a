# SPDX-License-Identifier: Apache-2.0
"""Drop the indexes of leases that 0002 has better ones for.

``leases_listed_idx`` and ``leases_all_idx`` begin with the same columns. The first release has no
query that names an index, so it would only lose the time to find that out; the drops wait for the
contract phase all the same, because on MariaDB they lock the table for a moment.
"""

from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None
phase = 'contract'


def upgrade() -> None:
    op.drop_index('leases_project_idx', 'leases')
    op.drop_index('leases_deleted_idx', 'leases')
