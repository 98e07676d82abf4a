# SPDX-License-Identifier: Apache-2.0
"""The migrations lead to the tables of ``climate_core.db.tables``, on each database."""

import pytest
import sqlalchemy as sa
from alembic import autogenerate
from alembic.runtime import migration as runtime
from oslo_config import cfg

from climate_core import conf as config
from climate_core.db import migration, tables
from climate_core.db.engine import Database


@pytest.fixture
def conf(database_url: str) -> cfg.ConfigOpts:
    conf = config.load([], [])
    conf.set_override('connection', database_url, group='database')
    return conf


def _differences(connection: sa.Connection) -> list[object]:
    context = runtime.MigrationContext.configure(
        connection, opts={'compare_type': True, 'compare_server_default': True}
    )
    return list(autogenerate.compare_metadata(context, tables.Base.metadata))


def test_upgrade_leads_to_the_models(conf: cfg.ConfigOpts) -> None:
    assert migration.version(conf) is None
    migration.upgrade(conf)
    assert migration.version(conf) == migration.head()
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


def test_upgrade_twice_changes_nothing(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf)
    migration.upgrade(conf)
    migration.check(conf)


def test_an_old_database_is_refused_with_what_to_do(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(migration.WrongVersion, match='climate-manage db upgrade'):
        migration.check(conf)


def test_every_index_of_the_models_exists(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf)
    inspector = sa.inspect(Database(conf).engine)
    for table in tables.Base.metadata.tables.values():
        present = {index['name'] for index in inspector.get_indexes(table.name)}
        assert {index.name for index in table.indexes} <= present


def test_there_is_one_head_and_no_gap() -> None:
    script = migration.script.ScriptDirectory.from_config(migration._config())
    revisions = [each.revision for each in script.walk_revisions()]
    assert revisions[0] == migration.head()
    assert revisions == sorted(revisions, reverse=True)
