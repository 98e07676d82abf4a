# SPDX-License-Identifier: Apache-2.0
"""${message}

An expand migration may only add: the release before this one goes on working with it. Its revision
is ``<number>_after_<last contract>``, which tells that release whether it does. What takes
something away is a contract migration; its revision is ``<number>``.
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
