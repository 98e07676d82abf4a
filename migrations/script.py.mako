# SPDX-License-Identifier: Apache-2.0
"""${message}

An expand migration only adds, so that the previous release continues to work; its revision is
``<number>_after_<last contract>``, or ``<number>_after_0001`` before the first contract. A contract
migration removes what only the previous release needed; its revision is ``<number>``.
"""

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None
# expand or contract
phase = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
