# SPDX-License-Identifier: Apache-2.0
"""Change nothing: what stood here is 0041 now, and databases between two releases have the name.

All that only adds comes before what takes away, so that the two phases of an upgrade are apart.
"""

revision = '0027'
down_revision = '0026'
branch_labels = None
depends_on = None
phase = 'expand'


def upgrade() -> None:
    """Change nothing."""
