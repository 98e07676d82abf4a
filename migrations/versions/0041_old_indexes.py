# SPDX-License-Identifier: Apache-2.0
"""Drop the indexes of leases that 0002 has better ones for.

``leases_listed_idx`` and ``leases_all_idx`` begin with the same columns. The first release has no
query that names an index, so it would only lose the time to find that out; the drops wait for the
contract phase all the same, because on MariaDB they lock the table for a moment. A database that
was made between two releases has dropped them already.
"""

import sqlalchemy as sa
from alembic import op

revision = '0041'
down_revision = '0040'
branch_labels = None
depends_on = None
phase = 'contract'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_indexes('leases')}
    for name in ('leases_project_idx', 'leases_deleted_idx'):
        if name in present:
            op.drop_index(name, 'leases')
