# SPDX-License-Identifier: Apache-2.0
"""The migrations create the tables of ``climate_core.db.tables``, on each database."""

import pathlib
import shutil

import pytest
import sqlalchemy as sa
from alembic import autogenerate, script
from alembic.runtime import migration as runtime
from oslo_config import cfg

from climate_core import conf as config
from climate_core.cmd import manage, status
from climate_core.db import migration, tables
from climate_core.db.engine import Database
from climate_hosts.db import hosts as host_tables
from climate_networks.db import SEGMENTS

#: The migrations of a later release: one of each phase.
EXPANDED, CONTRACTED = '0002_after_0001', '0003'
_LATER = '''\
"""A migration of a later release."""

import sqlalchemy as sa
from alembic import op

revision = '{}'
down_revision = '{}'
phase = '{}'


def upgrade() -> None:
    {}
'''


@pytest.fixture
def conf(database_url: str) -> cfg.ConfigOpts:
    conf = config.load([], [])
    conf.set_override('connection', database_url, group='database')
    return conf


@pytest.fixture
def later_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return the migrations of a later release, which has one more of each phase."""
    folder = tmp_path / 'migrations'
    shutil.copytree(migration._folder(), folder)
    for name, *values in (
        (EXPANDED, '0001', 'expand', "op.add_column('leases', sa.Column('note', sa.Text()))"),
        (CONTRACTED, EXPANDED, 'contract', "op.drop_index('leases_name_idx', 'leases')"),
    ):
        text = _LATER.format(name, *values)
        (folder / 'versions' / f'{name}.py').write_text(text, encoding='utf-8')
    return folder


def _differences(conf: cfg.ConfigOpts) -> list[object]:
    with Database(conf).engine.connect() as connection:
        context = runtime.MigrationContext.configure(
            connection, opts={'compare_type': True, 'compare_server_default': True}
        )
        return list(autogenerate.compare_metadata(context, tables.load_metadata()))


def _names(conf: cfg.ConfigOpts) -> set[str]:
    """Return the names of all columns and indexes."""
    inspector = sa.inspect(Database(conf).engine)
    found = set()
    for table in inspector.get_table_names():
        found |= {f'{table}.{column["name"]}' for column in inspector.get_columns(table)}
        found |= {str(index['name']) for index in inspector.get_indexes(table)}
    return found


def test_upgrade_creates_the_tables_and_repeated_changes_nothing(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(migration.WrongVersion, match='climate-manage db upgrade'):
        migration.check(conf)
    assert migration.version(conf) is None
    for _ in range(2):
        migration.upgrade(conf)
        assert migration.version(conf) == migration.head()
        migration.check(conf)
        assert _differences(conf) == []
    expected = {index.name for t in tables.load_metadata().tables.values() for index in t.indexes}
    assert expected <= _names(conf)


def test_interrupted_upgrade_is_repeated(conf: cfg.ConfigOpts) -> None:
    """MariaDB commits each statement."""
    migration.upgrade(conf)
    with Database(conf).engine.begin() as connection:
        tables.FEEDS.drop(connection)
        (index,) = tables.UNITS.indexes
        index.drop(connection)
        connection.execute(sa.text('DELETE FROM alembic_version'))
    migration.upgrade(conf)
    assert _differences(conf) == []


def test_case_distinguishes_names(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf)
    with Database(conf).engine.begin() as connection:
        for table in (
            host_tables.HOST_POOLS,
            host_tables.HOSTS.properties,
            SEGMENTS.properties,
        ):
            values = {'private': True} if 'private' in table.c else {'generation': 1}
            connection.execute(
                sa.insert(table), [{'name': name, **values} for name in ('rack', 'Rack')]
            )
            query = sa.select(table.c.name).where(table.c.name == 'rack')
            assert connection.scalars(query).all() == ['rack']


def test_services_read_the_phases_that_alembic_reads() -> None:
    revisions = list(script.ScriptDirectory.from_config(migration._config()).walk_revisions())
    phases = {each.revision: each.module.phase for each in reversed(revisions)}
    assert [*migration._order().items()] == [*phases.items()]
    last = '0001'
    for revision, phase in [*phases.items()][1:]:
        if phase == migration.Phase.CONTRACT:
            last = revision
            assert revision.isdecimal()
        else:
            assert revision.endswith(f'_after_{last}')


def _use(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> None:
    """Become the release that has these migrations."""
    monkeypatch.setattr(migration, '_folder', lambda: folder)


def test_expand_adds_and_contract_removes(
    conf: cfg.ConfigOpts, later_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    present, database = migration._folder(), Database(conf)
    migration.upgrade(conf)
    assert migration.is_contracted(database)
    before = _names(conf)

    _use(monkeypatch, later_folder)
    for use in (migration.check, migration.contract):
        with pytest.raises(migration.WrongVersion, match='climate-manage db upgrade'):
            use(conf)
    assert migration.expand(conf) == EXPANDED
    assert _names(conf) == before | {'leases.note'}
    migration.check(conf)
    assert not migration.is_contracted(database)

    # The previous release continues to work, and leaves the database as it is.
    _use(monkeypatch, present)
    migration.check(conf)
    assert migration.is_contracted(database)
    with pytest.raises(migration.WrongVersion, match='later release'):
        migration.upgrade(conf)

    _use(monkeypatch, later_folder)
    assert migration.contract(conf) == CONTRACTED
    assert _names(conf) == before - {'leases_name_idx'} | {'leases.note'}
    migration.check(conf)
    assert migration.is_contracted(database)
    assert migration.expand(conf) == CONTRACTED


def test_commands_ask_for_the_contract(
    conf: cfg.ConfigOpts,
    later_folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / 'climate.conf'
    file.write_text(f'[database]\nconnection = {conf.database.connection}\n')
    words = ['--config-file', str(file)]
    _use(monkeypatch, later_folder)
    for command, is_due in (('expand', True), ('contract', False)):
        assert manage.main([*words, 'db', command]) == 0
        for run, what in ((manage.main, ['db', 'version']), (status.main, ['upgrade', 'check'])):
            capsys.readouterr()
            run([*words, *what])
            shown = ' '.join(capsys.readouterr().out.replace('|', ' ').split())
            assert ('climate-manage db contract' in shown) is is_due


@pytest.mark.parametrize('revision', [CONTRACTED, '0004_after_0003', 'x'])
def test_this_release_rejects_a_database_that_a_later_one_contracted(
    conf: cfg.ConfigOpts, revision: str
) -> None:
    migration.upgrade(conf)
    with Database(conf).engine.begin() as connection:
        values = {'new': revision}
        connection.execute(sa.text('UPDATE alembic_version SET version_num = :new'), values)
    for use in (migration.check, migration.upgrade, migration.contract):
        with pytest.raises(migration.WrongVersion, match='later release'):
            use(conf)
    assert migration.version(conf) == revision
