# SPDX-License-Identifier: Apache-2.0
"""Find the promises of a time by an index.

MariaDB and MySQL commit the index at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0024'
down_revision = '0023'
branch_labels = None
depends_on = None
phase = 'expand'

_NAME = 'allocations_time_idx'


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_indexes('allocations')}
    if _NAME not in present:
        op.create_index(_NAME, 'allocations', ['end', 'start'])
