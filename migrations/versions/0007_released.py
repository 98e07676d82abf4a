# SPDX-License-Identifier: Apache-2.0
"""Tell by a column what a reservation gave up while its lease ran.

It was told by its end, which is earlier than that of the rest. MariaDB and MySQL commit the column
at once, so it is there when this is repeated after it was cut off.
"""

import sqlalchemy as sa
from alembic import op

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None
phase = 'expand'

_ALLOCATIONS = sa.table(
    'allocations',
    *(sa.column(name) for name in ('unit_id', 'unit_generation', 'reservation_id', 'released')),
    sa.column('end', sa.DateTime()),
)


def upgrade() -> None:
    bind = op.get_bind()
    if 'released' not in {each['name'] for each in sa.inspect(bind).get_columns('allocations')}:
        op.add_column('allocations', sa.Column('released', sa.Boolean()))
    own, other = _ALLOCATIONS.c, _ALLOCATIONS.alias().c
    last = sa.select(other.reservation_id).group_by(other.reservation_id)
    last = last.having(sa.func.min(other.end) < sa.func.max(other.end))
    found = bind.execute(
        sa.select(own.unit_id, own.unit_generation, own.reservation_id, own.end).where(
            own.reservation_id.in_(last)
        )
    ).all()
    ends: dict[str, object] = {}
    for _, _, reservation_id, end in found:
        ends[reservation_id] = max(end, ends.get(reservation_id, end))
    for unit_id, generation, reservation_id, end in found:
        if end < ends[reservation_id]:
            ours = sa.and_(own.unit_id == unit_id, own.unit_generation == generation)
            bind.execute(sa.update(_ALLOCATIONS).where(ours).values(released=True))
