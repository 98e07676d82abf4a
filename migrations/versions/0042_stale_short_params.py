# SPDX-License-Identifier: Apache-2.0
"""Remove the short params of reservations, which services of N-1 do not update.

N-1 changes ``params`` of rows that N has inserted. Climate reads ``params`` where ``short_params``
is NULL. Reservations that hold nothing are in no forecast and in no queue.
"""

import sqlalchemy as sa
from alembic import op

revision = '0042'
down_revision = '0041'
branch_labels = None
depends_on = None
phase = 'contract'

_ROW = sa.table('reservations', sa.column('hold'), sa.column('short_params'))


def upgrade() -> None:
    is_stale = sa.and_(_ROW.c.hold == 1, _ROW.c.short_params.is_not(None))
    op.execute(sa.update(_ROW).where(is_stale).values(short_params=sa.null()))
