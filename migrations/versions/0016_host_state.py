# SPDX-License-Identifier: Apache-2.0
"""Write what is done with a host, or was found of it, apart from the reason that is shown.

Databases that were made between two releases have the state in the wording of the reason. MariaDB
and MySQL commit a column at once, so one that is there is left.
"""

import sqlalchemy as sa
from alembic import op

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None
phase = 'expand'

_EMPTYING = 'The host is being emptied for lease '
_RETURNING = 'The host is being given back to ordinary servers. '
_FAILED = 'Failed: '
_WHOLE = {
    'enrolling': 'The host is being enrolled.',
    'not_enrolled': 'The host could not be enrolled.',
    'leaving': 'The host is being taken out of its pool.',
}


def upgrade() -> None:
    present = {each['name'] for each in sa.inspect(op.get_bind()).get_columns('hosts')}
    for column in (
        sa.Column('state', sa.String(16), nullable=False, server_default='enrolled'),
        sa.Column('emptied_for', sa.String(36)),
    ):
        if column.name not in present:
            op.add_column('hosts', column)
    names = ('state', 'disabled_reason', 'emptied_for')
    hosts = sa.table('hosts', *(sa.column(name) for name in names))
    reason = hosts.c.disabled_reason

    def write(condition: sa.ColumnElement[bool], **values: object) -> None:
        op.execute(sa.update(hosts).where(condition).values(**values))

    def rest(start: str) -> sa.ColumnElement[str | None]:
        return sa.func.nullif(sa.func.substr(reason, len(start) + 1), '')

    for state, text in _WHOLE.items():
        write(reason == text, state=state, disabled_reason=None)
    # MariaDB sets the columns one after the other, so the reason comes last.
    write(reason.startswith(_EMPTYING), state='emptying', emptied_for=rest(_EMPTYING))
    write(hosts.c.state == 'emptying', disabled_reason=None)
    write(reason.startswith(_RETURNING), state='returning', disabled_reason=rest(_RETURNING))
    write(reason.startswith(_FAILED), state='failed', disabled_reason=rest(_FAILED))
