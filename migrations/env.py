# SPDX-License-Identifier: Apache-2.0
"""How Alembic runs our migrations: on the connection that ``climate_core.db.migration`` gives."""

from alembic import context

from climate_core.db import tables


def run() -> None:
    connection = context.config.attributes['connection']
    context.configure(
        connection=connection,
        target_metadata=tables.Base.metadata,
        render_as_batch=connection.dialect.name == 'sqlite',
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
