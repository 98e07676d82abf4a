# SPDX-License-Identifier: Apache-2.0
"""The migrations lead to the tables of ``climate_core.db.tables``, on each database."""

import datetime
import pathlib
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import autogenerate, script
from alembic.runtime import migration as runtime
from oslo_config import cfg

from climate_core import conf as config
from climate_core.db import migration, tables
from climate_core.db import reservations as db_reservations
from climate_core.db import usage as db_usage
from climate_core.db.engine import Database
from climate_core.lease import usage
from climate_hosts.db import tables as host_tables
from climate_networks import tables as network_tables


@pytest.fixture
def conf(database_url: str) -> cfg.ConfigOpts:
    conf = config.load([], [])
    conf.set_override('connection', database_url, group='database')
    return conf


def _differences(connection: sa.Connection) -> list[object]:
    context = runtime.MigrationContext.configure(
        connection, opts={'compare_type': True, 'compare_server_default': True}
    )
    return list(autogenerate.compare_metadata(context, tables.load_metadata()))


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
    for table in tables.load_metadata().tables.values():
        present = {index['name'] for index in inspector.get_indexes(table.name)}
        assert {index.name for index in table.indexes} <= present


def test_a_database_of_between_two_releases_gets_the_same_index(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf, '0006')
    with Database(conf).engine.begin() as connection:
        (index,) = tables.UNITS.indexes
        index.drop(connection)
        old = sa.Table('units', sa.MetaData(), sa.Column('changed_at', sa.DateTime))
        sa.Index(index.name, old.c.changed_at).create(connection)
    migration.upgrade(conf)
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


def test_names_are_told_apart_by_case(conf: cfg.ConfigOpts) -> None:
    """Before that, who may use a pool of another case was written for the first one."""
    unit = "'host', '{}', true, '{{}}', 1, '{{}}', 0, '2026-01-01', '{{\"project_ids\": []}}'"
    migration.upgrade(conf, '0006')
    engine = Database(conf).engine
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO host_pools (name) VALUES ('gpu')"))
        for pool in ('gpu', 'GPU'):
            values = sa.text(
                'INSERT INTO units (kind, pool, available, capacity, lanes, properties, '
                f'generation, changed_at, access) VALUES ({unit.format(pool)})'.replace(':', '\\:')
            )
            connection.execute(values)
    migration.upgrade(conf)
    with engine.begin() as connection:
        found = [row.name for row in connection.execute(sa.select(host_tables.HOST_POOLS))]
        assert found == (['GPU', 'gpu'] if engine.dialect.name == 'mysql' else ['gpu'])
        for table in (
            host_tables.HOST_POOLS,
            host_tables.HOST_PROPERTIES,
            network_tables.NETWORK_SEGMENT_PROPERTIES,
        ):
            rows = [{'name': name, 'private': True} for name in ('rack', 'Rack')]
            connection.execute(
                sa.insert(table), [{k: v for k, v in r.items() if k in table.c} for r in rows]
            )
        query = sa.select(tables.UNITS.c.id).where(tables.UNITS.c.pool == 'gpu')
        assert len(connection.execute(query).all()) == 1


def test_state_of_a_host_is_read_out_of_its_reason(conf: cfg.ConfigOpts) -> None:
    """Databases that were made between two releases have it there."""
    lease_id = 'a' * 36
    returning = 'The host is being given back to ordinary servers. '
    reasons = {
        None: ('enrolled', None, None),
        'disk': ('enrolled', 'disk', None),
        'The host is being enrolled.': ('enrolling', None, None),
        'The host could not be enrolled.': ('not_enrolled', None, None),
        'The host is being taken out of its pool.': ('leaving', None, None),
        f'The host is being emptied for lease {lease_id}': ('emptying', None, lease_id),
        returning: ('returning', None, None),
        f'{returning}disk': ('returning', 'disk', None),
        'Failed: down': ('failed', 'down', None),
    }
    migration.upgrade(conf, '0015')
    engine = Database(conf).engine
    unit = "'host', 'default', false, '{{}}', 1, '{{}}', 0, '2026-01-01'"
    host = "'a', '{root}', '[]', '{{}}', '{{}}', '2026-01-01'"
    with engine.begin() as connection:
        for number, reason in enumerate(reasons, 1):
            for statement in (
                'INSERT INTO units (id, kind, pool, available, capacity, lanes, properties, '
                f'generation, changed_at) VALUES (:id, {unit.format()})',
                'INSERT INTO hosts (unit_id, hypervisor_hostname, disabled_reason, service_name, '
                'provider_id, lane_ids, details, extra, created_at) '
                f'VALUES (:id, :name, :reason, {host.format(root=number)})',
            ):
                values = {'id': number, 'name': f'cn{number}', 'reason': reason}
                connection.execute(sa.text(statement), values)
    migration.upgrade(conf)
    columns = (host_tables.HOSTS.c[name] for name in ('state', 'disabled_reason', 'emptied_for'))
    with engine.connect() as connection:
        query = sa.select(*columns).order_by(host_tables.HOSTS.c.unit_id)
        assert [tuple(row) for row in connection.execute(query)] == [*reasons.values()]


def test_there_is_one_head_and_no_gap() -> None:
    found = script.ScriptDirectory.from_config(migration._config()).walk_revisions()
    phases = {each.revision: each.module.phase for each in found}
    assert [*phases] == sorted(phases, reverse=True)
    # The service reads them without Alembic.
    assert [*migration._order().items()] == [*phases.items()][::-1]


def _tables_of(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Table -> its columns and, with a mark, its indexes."""
    inspector = sa.inspect(Database(conf).engine)
    return {
        name: {c['name'] for c in inspector.get_columns(name)}
        | {f'index {i["name"]}' for i in inspector.get_indexes(name)}
        for name in inspector.get_table_names()
    }


def _at(conf: cfg.ConfigOpts, revision: str) -> None:
    """Say that the database has a revision."""
    with Database(conf).engine.begin() as connection:
        connection.execute(
            sa.text('UPDATE alembic_version SET version_num = :new'), {'new': revision}
        )


@pytest.mark.parametrize('name', ['units_changed_idx', 'hosts_provider_idx'])
def test_upgrade_that_was_cut_off_is_repeated(conf: cfg.ConfigOpts, name: str) -> None:
    """MariaDB commits each step at once, also that an index is dropped to be made anew."""
    migration.upgrade(conf, '0008')
    (index,) = (i for t in (tables.UNITS, host_tables.HOSTS) for i in t.indexes if i.name == name)
    with Database(conf).engine.begin() as connection:
        index.drop(connection)
    _at(conf, '0006')
    migration.upgrade(conf)
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


def test_index_that_is_there_already_is_left(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf, '0023')
    (index,) = (each for each in tables.ALLOCATIONS.indexes if each.name == 'allocations_time_idx')
    with Database(conf).engine.begin() as connection:
        index.create(connection)
    migration.upgrade(conf)
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


def test_trusts_of_leases_are_found_after_an_upgrade_that_was_cut_off(
    conf: cfg.ConfigOpts,
) -> None:
    """MariaDB has the index of the leases by then, and not the table."""
    migration.upgrade(conf, '0033')
    (index,) = (each for each in tables.LEASES.indexes if each.name == 'leases_trust_idx')
    with Database(conf).engine.begin() as connection:
        index.create(connection)
    migration.upgrade(conf)
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


@pytest.mark.parametrize(('revision', 'name'), [('0037', 'given_up'), ('0039', 'short_params')])
def test_column_that_is_there_already_is_left(
    conf: cfg.ConfigOpts, revision: str, name: str
) -> None:
    migration.upgrade(conf, revision)
    engine = Database(conf).engine
    kind = tables.RESERVATIONS.c[name].type.compile(engine.dialect)
    with engine.begin() as connection:
        connection.execute(sa.text(f'ALTER TABLE reservations ADD COLUMN {name} {kind}'))
    migration.upgrade(conf)
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


@pytest.mark.parametrize('revision', [*migration._order()])
def test_upgrade_from_each_version_leads_to_the_models(
    tmp_path: pathlib.Path, revision: str
) -> None:
    conf = config.load([], [])
    conf.set_override('connection', f'sqlite:///{tmp_path}/old.sqlite', group='database')
    migration.upgrade(conf, revision)
    migration.upgrade(conf)
    with Database(conf).engine.connect() as connection:
        assert _differences(connection) == []


@pytest.mark.parametrize('revision', ['0020', '0036'])
def test_what_was_given_up_before_is_told_by_its_reason(
    conf: cfg.ConfigOpts, revision: str
) -> None:
    """The older ones of these releases know nothing of the columns that came later."""
    migration.upgrade(conf, revision)
    now = datetime.datetime(2026, 12, 1, 12)
    hour = datetime.timedelta(hours=1)
    period = usage.Span(*(each.replace(tzinfo=datetime.UTC) for each in (now, now + hour)))
    reasons = {'b': 'Given up for another lease on 2026-12-01 12:00:00 UTC.', 'c': 'Over.'}
    engine = Database(conf).engine
    with engine.begin() as connection:
        _insert(connection, 'leases', _lease(now - hour, now + hour))
        for name, reason in reasons.items():
            held = {'id': name, 'lease_id': 'a', 'resource_type': 't', 'resource_id': name}
            flags = dict.fromkeys(('missing_resources', 'resources_changed'), False)
            freed = {'freed_at': now, 'status': 'deleted', 'status_reason': reason, 'params': '{}'}
            created = {'created_at': now - hour, 'amounts': '{"servers": 1}'}
            _insert(connection, 'reservations', {**held, **flags, **freed, **created})
    migration.upgrade(conf)
    found = Database(conf).read(lambda session: list(db_usage.read_uses(session, period)))
    assert [each.resource_id for each in found] == ['b']


def test_contract_removes_short_params_that_the_release_before_did_not_update(
    conf: cfg.ConfigOpts,
) -> None:
    migration.expand(conf)
    now = datetime.datetime(2026, 12, 1, 12)
    held = {'id': 'b', 'lease_id': 'a', 'resource_type': 't', 'resource_id': 'b', 'hold': 1}
    flags = dict.fromkeys(('missing_resources', 'resources_changed'), False)
    stored = {'status': 'pending', 'params': '{"max": 2}', 'short_params': '{"max": 1}'}
    with Database(conf).engine.begin() as connection:
        _insert(connection, 'leases', _lease(now, now))
        _insert(connection, 'reservations', {**held, **flags, **stored, 'created_at': now})
    migration.contract(conf)
    query = sa.select(*db_reservations.SHORT_COLUMNS)
    with Database(conf).reader() as session:
        (row,) = session.execute(query)
        assert db_reservations.build_reservation(session, row).params == {'max': 2}


def _lease(start: datetime.datetime, end: datetime.datetime) -> dict[str, Any]:
    return {
        **dict.fromkeys(('id', 'name', 'project_id', 'user_id', 'status', 'start_policy'), 'a'),
        **dict.fromkeys(('generation', 'priority'), 1),
        'kind': 'immediate',
        'degraded': False,
        'preemptible': True,
        'created_at': start,
        'start_date': start,
        'end_date': end,
    }


def _insert(connection: sa.Connection, table: str, values: dict[str, Any]) -> None:
    names, marks = ', '.join(values), ', '.join(f':{name}' for name in values)
    connection.execute(sa.text(f'INSERT INTO {table} ({names}) VALUES ({marks})'), values)


def test_expand_takes_nothing_away_and_contract_does(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf, '0001')
    first = _tables_of(conf)
    assert migration.expand(conf) == migration.expanded()
    expanded = _tables_of(conf)
    assert all(first[name] <= expanded[name] for name in first)
    assert not migration.contracted(conf)
    assert not migration.is_at(Database(conf), migration.head())
    assert migration.is_at(Database(conf), migration.expanded())
    migration.check(conf)
    assert migration.contract(conf) == migration.head()
    assert 'index leases_project_idx' not in _tables_of(conf)['leases']
    assert migration.contracted(conf)
    assert migration.is_at(Database(conf), '0001')
    migration.check(conf)


def test_expand_after_contract_changes_nothing(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf)
    assert migration.expand(conf) == migration.head()


def test_contract_wants_to_be_expanded_first(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf, '0001')
    with pytest.raises(migration.WrongVersion):
        migration.contract(conf)
    assert migration.version(conf) == '0001'


def test_what_the_first_release_does_not_write_may_be_missing(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf, '0001')
    first = _tables_of(conf)
    migration.expand(conf)
    inspector = sa.inspect(Database(conf).engine)
    for table in sorted(set(first) - {'alembic_version'}):
        for column in inspector.get_columns(table):
            if column['name'] not in first[table]:
                assert column['nullable'] or column['default'], (table, column['name'])


#: The next migrations, of a later release.
LATER = [f'{int(migration.head()) + number:04}' for number in (1, 2)]
#: One that only adds.
EXPANDED = f'{LATER[0]}_after_{migration.head()}'


def test_a_later_release_that_only_expanded_is_fine(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf)
    _at(conf, EXPANDED)
    migration.check(conf)
    assert migration.contracted(conf)


@pytest.mark.parametrize('revision', [LATER[0], f'{LATER[1]}_after_{LATER[0]}', 'x'])
def test_a_later_release_that_contracted_is_refused(conf: cfg.ConfigOpts, revision: str) -> None:
    migration.upgrade(conf)
    _at(conf, revision)
    with pytest.raises(migration.WrongVersion, match='later release'):
        migration.check(conf)


def test_a_database_of_a_later_release_is_not_upgraded(conf: cfg.ConfigOpts) -> None:
    migration.upgrade(conf)
    _at(conf, EXPANDED)
    with pytest.raises(migration.WrongVersion, match='later release'):
        migration.upgrade(conf)
    assert migration.version(conf) == EXPANDED


def test_every_migration_has_a_phase_and_a_name_that_tells_it() -> None:
    last = None
    for revision, phase in migration._order().items():
        if phase is migration.Phase.CONTRACT:
            last = revision
            assert revision.isdecimal()
        elif last is not None:
            assert revision.endswith(f'_after_{last}')
