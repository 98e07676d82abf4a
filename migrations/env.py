# SPDX-License-Identifier: Apache-2.0
"""Run the migrations with Alembic, on the connection that ``climate_core.db.migration`` gives."""

from alembic import context


def run() -> None:
    connection = context.config.attributes['connection']
    metadata = context.config.attributes['target_metadata']
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == 'sqlite',
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
