# SPDX-License-Identifier: Apache-2.0
"""The console script climate-manage."""

import dataclasses
import datetime
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet
from oslo_config import cfg
from sqlalchemy import orm

from climate_core import conf as configuration
from climate_core.cmd import manage, manager, status
from climate_core.db import leases, migration, store, tables
from climate_core.db.engine import Database
from climate_core.lease import transitions
from climate_core.lease.history import Cause
from tests.functional.api import written
from tests.functional.api.programs.checked import READY, check, words

LONG_AGO = datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC)


def run(file: pathlib.Path, *words: str) -> int:
    return manage.main(['--config-file', str(file), 'db', *words])


def test_upgrade_of_an_empty_database_prints_the_version(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, 'version') == 1
    assert 'climate-manage:' in capsys.readouterr().err
    assert run(file, 'upgrade') == 0
    assert run(file, 'upgrade') == 0
    assert capsys.readouterr().out.split() == [migration.head()] * 2
    assert run(file, 'version') == 0
    assert capsys.readouterr().out.strip() == migration.head()


def test_upgrade_writes_no_word_but_the_version(file: pathlib.Path) -> None:
    command = [sys.executable, '-m', 'climate_core.cmd.manage', '--config-file', str(file)]
    done = subprocess.run([*command, 'db', 'upgrade'], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr, done.returncode) == ([migration.head()], '', 0)


@pytest.mark.parametrize(
    ('word', 'code', 'stream'),
    [('contract', 1, 'err'), ('version', 0, 'out'), ('purge', 1, 'err')],
)
def test_empty_database_has_to_be_upgraded(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str], word: str, code: int, stream: str
) -> None:
    (file.parent / 'new').mkdir()
    assert run(file, word) == code
    assert 'climate-manage db upgrade' in getattr(capsys.readouterr(), stream)
    file.write_text(file.read_text() + READY)
    assert check(file) == 2
    assert 'revision none' in capsys.readouterr().out


def test_the_database_lies_in_the_state_path_if_nothing_is_said(
    tmp_path: pathlib.Path, file: pathlib.Path
) -> None:
    file.write_text(f'[DEFAULT]\nstate_path = {tmp_path}/state\n')
    assert run(file, 'upgrade') == 0
    assert (tmp_path / 'state/climate.sqlite').is_file()


def test_an_empty_connection_is_told(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('[database]\nconnection =\n')
    assert run(file, 'upgrade') == 1
    assert 'climate-manage: Could not parse' in capsys.readouterr().err
    assert check(file) == 2
    assert 'It is set by [database] connection.' in ' '.join(words(capsys))


@pytest.mark.parametrize(
    ('program', 'words'),
    [(manage, ('lease', 'stuck')), (manager, ()), (status, ('upgrade', 'check'))],
)
@pytest.mark.parametrize('name', ['nope.conf', 'bad.conf'])
def test_a_configuration_that_cannot_be_read_is_told(
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    program: ModuleType,
    words: tuple[str, ...],
    name: str,
) -> None:
    (tmp_path / 'bad.conf').write_text('this is no setting\n')
    with pytest.raises(SystemExit) as exited:
        program.main(['--config-file', str(tmp_path / name), *words])
    assert exited.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith('climate-')
    assert str(tmp_path / name) in said
    assert 'Traceback' not in said


def test_a_database_that_does_not_answer_is_named(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, 'version') == 1
    said = capsys.readouterr().err
    assert f'The database is sqlite:///{file.parent}/new/climate.sqlite.' in said
    assert 'sqlalche.me' not in said
    assert 'No climate.conf' not in said
    file.write_text(
        '[database]\nconnection = mysql+pymysql://climate:secret@127.0.0.1:1/climate\n'
        'max_retries = 0\n'
    )
    assert run(file, 'version') == 1
    said = capsys.readouterr().err
    assert 'mysql+pymysql://climate:***@127.0.0.1:1/climate' in said
    assert 'secret' not in said


def test_a_program_without_climate_conf_says_so(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cfg, 'find_config_files', lambda *_args, **_kwargs: [])
    monkeypatch.setattr(cfg, 'find_config_dirs', lambda *_args, **_kwargs: [])
    monkeypatch.setattr(configuration, 'DATABASE', f'sqlite:///{tmp_path}/nope/climate.sqlite')
    assert manage.main(['db', 'version']) == 1
    said = capsys.readouterr().err
    assert f'The database is sqlite:///{tmp_path}/nope/climate.sqlite.' in said
    assert 'No climate.conf was found in ~/.climate, ~, /etc/climate or /etc' in said
    assert status.main(['upgrade', 'check']) == 2
    assert 'No climate.conf was found' in ' '.join(words(capsys))


def delete(session: orm.Session, number: int, when: datetime.datetime) -> None:
    lease = leases.get(session, written.lease(number).id)
    store.update_lease(session, lease, deleted_at=when)


@pytest.mark.parametrize(
    ('words', 'removed'),
    [((), 1), (('--before', 'now'), 2), (('--before', '2001-02-03'), 0)],
)
def test_purge_removes_leases_that_were_deleted_long_ago(
    file: pathlib.Path,
    database: Database,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    removed: int,
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for number, when in enumerate((LONG_AGO, now - datetime.timedelta(days=1), None)):
        lease = written.lease(number)
        if when is not None:
            lease = lease.with_events(
                *(transitions.cancel_event(e, None, now) for e in lease.events)
            )
        database.write(store.create, lease, now, Cause('lease.create'))
        if when is not None:
            database.write(delete, number, when)
    assert run(file, 'purge', '--dry-run', *words) == 0
    assert f'{removed} leases would be removed.' in capsys.readouterr().out
    assert run(file, 'purge', *words) == 0
    assert f'{removed} leases removed.' in capsys.readouterr().out
    assert run(file, 'purge', *words) == 0
    assert '0 leases removed.' in capsys.readouterr().out
    assert database.read(leases.find, written.lease(2).id) is not None


@pytest.mark.parametrize(
    ('days', 'status', 'shown'),
    [(1, 0, '0 leases would'), (0, 1, '--before is required: [manager] purge_days is 0')],
)
def test_purge_days_is_the_default_of_before(
    file: pathlib.Path,
    database: Database,
    capsys: pytest.CaptureFixture[str],
    days: int,
    status: int,
    shown: str,
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    lease = written.lease(0)
    events = (transitions.cancel_event(event, None, now) for event in lease.events)
    database.write(store.create, lease.with_events(*events), now, Cause('lease.create'))
    database.write(delete, 0, now - datetime.timedelta(hours=12))
    file.write_text(f'{file.read_text()}\n[manager]\npurge_days = {days}\n')
    assert run(file, 'purge', '--dry-run') == status
    assert shown in ''.join(capsys.readouterr())
    assert run(file, 'purge', '--dry-run', '--before', 'now') == 0
    assert '1 leases would' in capsys.readouterr().out


def test_purge_removes_all_that_is_of_a_lease(file: pathlib.Path, database: Database) -> None:
    old, kept = written.lease(0), written.lease(1)
    for lease in (old, kept):
        closed = lease.with_events(
            *(transitions.cancel_event(e, None, LONG_AGO) for e in lease.events)
        )
        database.write(store.create, closed, LONG_AGO, Cause('lease.create'))
        with database.writer() as session:
            session.execute(sa.insert(tables.DELIVERIES).values(delivery(lease.id)))
    database.write(delete, 0, LONG_AGO)
    assert run(file, 'purge') == 0
    for table in (tables.RESERVATIONS, tables.EVENTS, tables.HISTORY, tables.DELIVERIES):
        with database.reader() as session:
            assert set(session.scalars(sa.select(table.c.lease_id))) == {kept.id}, table.name


def delivery(lease_id: str) -> dict[str, object]:
    return {
        'lease_id': lease_id,
        'event_id': lease_id,
        'event_type': 'lease.create',
        'payload': {},
        'url': 'https://example.org',
        'project_id': 'project',
        'target': 'example.org:443',
        'secret': 'secret',
        'attempts': 0,
        'next_at': LONG_AGO,
        'created_at': LONG_AGO,
    }


def test_purge_refuses_what_is_no_date(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(file, 'purge', '--before', 'soon')
    assert 'is not a date' in capsys.readouterr().err


def test_secrets_are_checked_and_rotated(
    file: pathlib.Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (Fernet.generate_key().decode() for _ in range(2))

    def secrets(word: str, *keys: str) -> tuple[int, list[str]]:
        text = file.read_text().split('[virtual:instance]')[0]
        file.write_text(f'{text}[virtual:instance]\nsecret_keys = {",".join(keys)}\n')
        capsys.readouterr()
        found = manage.main(['--config-file', str(file), 'secrets', word])
        return found, capsys.readouterr().out.splitlines()

    assert secrets('check') == (0, ['0 secrets, 0 keys'])
    webhook = {'url': 'https://a.example/x', 'secret': 'a' * 16, 'events': []}
    lease = dataclasses.replace(written.lease(1), webhook=webhook)
    database.write(store.create, lease, LONG_AGO, Cause('lease.create'))
    assert secrets('check', old)[0] == 1
    assert secrets('rotate')[0] == 1
    assert secrets('rotate', old) == (0, ['1 rows are sealed with the first key, 0 are left'])
    assert secrets('check', old)[0] == 0
    status, lines = secrets('check', new, old)
    assert (status, lines[-1]) == (1, '1 secrets, 2 keys')
    assert 'webhooks: 1 need key 2' in lines
    assert 'webhooks: 1 that no key opens' in secrets('check', new)[1]
    assert secrets('rotate', new) == (1, ['0 rows are sealed with the first key, 1 are left'])
    assert secrets('rotate', new, old)[0] == 0
    assert secrets('check', new)[0] == 0


@pytest.mark.parametrize('word', ['check', 'rotate'])
def test_secrets_with_what_is_no_key_name_the_option(
    file: pathlib.Path, database: Database, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    database.dispose()
    file.write_text(f'{file.read_text()}[virtual:instance]\nsecret_keys = no-key-at-all\n')
    assert manage.main(['--config-file', str(file), 'secrets', word]) != 0
    told = capsys.readouterr().err
    assert 'secret_keys' in told
    assert 'no-key-at-all' not in told
