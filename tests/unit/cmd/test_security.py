# SPDX-License-Identifier: Apache-2.0
"""climate-status security check: each recommendation that is not followed is reported."""

import contextlib
import json
import pathlib
import socket
import ssl
import textwrap
import threading
from typing import Any

import certifi
import pymysql
import pytest
import sqlalchemy as sa
from cryptography.fernet import Fernet
from oslo_config import cfg
from oslo_db.sqlalchemy import engines
from sqlalchemy.dialects.mysql.pymysql import dialect
from sqlalchemy.orm import Session

from climate_core import conf as configuration
from climate_core.cmd import security, status
from climate_core.db import secrets, tables
from climate_core.db import store as db_store
from climate_core.db.engine import Database
from tests.support import templates
from tests.support.fakes import receiver
from tests.support.leases import lease

#: An installation that follows every recommendation.
GOOD = """
[DEFAULT]
transport_url = rabbit://climate:p@mq.example:5671/climate?ssl=1
[api]
auth_strategy = keystone
[database]
connection = sqlite:///{directory}/climate.sqlite
[oslo_messaging_notifications]
transport_url = rabbit://climate-notify:p@mq.example:5671/notify?ssl=1
[nova_notifications]
enabled = false
[cinder_notifications]
enabled = false
[heat_notifications]
enabled = false
[oslo_messaging_rabbit]
ssl_ca_file = /etc/ssl/certs/rabbitmq-ca.pem
[virtual:instance]
secret_keys = {key}
[limits]
external_endpoint = https://usage.example
external_token = secret
[cloud]
auth_type = password
auth_url = https://keystone.example/v3
username = climate
trust_roles = member, reader
[keystone_authtoken]
auth_type = password
auth_url = https://keystone.example/v3
username = climate
"""


KEY = 'MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE='


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / 'climate.conf'
    made.write_text(GOOD.format(directory=tmp_path, key=KEY))
    templates.migrate(configuration.load([], [str(made)]))
    for path in (made, tmp_path / 'climate.sqlite'):
        path.chmod(0o640)
    return made


def check(
    file: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    *options: str,
    command: str = 'security',
) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = status.main(['--config-file', str(file), *options, command, 'check', '--json'])
    found = json.loads(capsys.readouterr().out)['checks']
    return code, {each['check']: each['details'] for each in found if each['result']}


def test_installation_that_follows_all_recommendations_passes(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(file, capsys) == (0, {})


@pytest.mark.parametrize(
    ('section', 'check_name', 'words'),
    [
        ('[api]\nauth_strategy = noauth', 'Authentication', ['noauth']),
        (
            '[keystone_authtoken]\nmemcached_servers = mq.example:11211',
            'Token cache',
            ['memcache_security_strategy = ENCRYPT'],
        ),
        ('[virtual:instance]\nsecret_keys =', 'Secrets at rest', ['secret_keys']),
        ('[limits]\nexternal_token =', 'External service', ['external_token']),
        (
            '[limits]\nexternal_token =\nexternal_keystone_token = true',
            'External service',
            ['external_keystone_token'],
        ),
        ('[limits]\ndriver = none', 'Limits', ['driver']),
        (
            '[webhooks]\nallowed_networks = 10.0.0.0/8, 203.0.114.0/24, 0.0.0.0/0, ::1/128',
            'Webhooks',
            ['10.0.0.0/8, 0.0.0.0/0, ::1/128.'],
        ),
        (
            '[DEFAULT]\ntransport_url = rabbit://guest:guest@mq.example:5672/',
            'Message bus',
            ['has no TLS', 'user guest', 'virtual host /'],
        ),
        (
            '[DEFAULT]\ntransport_url = rabbit://climate:p@mq.example:5672/climate?ssl=0',
            'Message bus',
            ['transport_url has no TLS'],
        ),
        (
            '[oslo_messaging_rabbit]\nssl_ca_file =',
            'Message bus',
            [
                'transport_url accepts the certificate of any host',
                '[oslo_messaging_notifications] transport_url accepts',
            ],
        ),
        (
            '[oslo_messaging_notifications]\n'
            'transport_url = rabbit://climate:p@mq.example:5671/climate?ssl=1',
            'Notifications',
            ['[oslo_messaging_notifications]'],
        ),
        ('[nova_notifications]\nenabled = true', 'Notifications', ['[nova_notifications]']),
        ('[cloud]\nauth_url = http://keystone.example/v3', 'TLS', ['[cloud] auth_url']),
        ('[limits]\nexternal_endpoint = http://usage.example', 'TLS', ['external_endpoint']),
        (
            '[power]\nnotify_url = http://power.example/t0ken',
            'TLS',
            ['[power] notify_url is http'],
        ),
        (
            '[oslo_limit]\nauth_type = password\nauth_url = http://keystone.example/v3',
            'TLS',
            ['[oslo_limit] auth_url is http'],
        ),
        (
            '[keystone_authtoken]\ninsecure = true',
            'TLS',
            ['[keystone_authtoken] insecure is true: set cafile'],
        ),
        (
            '[cloud]\ncompute_endpoint_override = http://nova.example/',
            'TLS',
            ['compute_endpoint_override'],
        ),
        ('[cloud]\ntrust_roles = member, admin', 'Trusts', ['admin']),
        ('[cloud]\ntrust_roles = member, Cloud_Admin, service_user', 'Trusts', [': Cloud_Admin.']),
    ],
)
def test_recommendation_that_is_not_followed_is_a_warning(
    file: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    section: str,
    check_name: str,
    words: list[str],
) -> None:
    with file.open('a') as opened:
        opened.write(textwrap.dedent(section) + '\n')
    code, found = check(file, capsys)
    assert code == 1
    assert list(found) == [check_name]
    assert [word for word in words if word not in found[check_name]] == []
    assert 'secret ' not in found[check_name]


def is_reported(file: pathlib.Path, connection: str) -> bool:
    """Return whether the check reports the URL of a database."""
    conf = configuration.load([], [str(file)])
    conf.set_override('connection', connection, group='database')
    found = list(security.check_database(conf))
    assert all('does not verify the server' in each for each in found)
    return bool(found)


@pytest.mark.parametrize(
    ('query', 'is_verified'),
    [
        ('', False),
        ('?ssl_ca={ca}', True),
        ('?ssl_capath=/etc/ssl/certs', True),
        ('?ssl_ca={ca}&ssl_check_hostname=false', False),
        ('?ssl_check_hostname=true', False),
        ('?ssl_ca={ca}&ssl_verify_cert=false', False),
        ('?ssl_ca={ca}&ssl_disabled=1', False),
        ('?ssl_verify_cert=true', False),
    ],
)
def test_database_whose_certificate_pymysql_does_not_verify_is_reported(
    file: pathlib.Path, query: str, is_verified: bool
) -> None:
    connection = f'mysql+pymysql://c:p@db.example/c{query.format(ca=certifi.where())}'
    assert is_reported(file, connection) is not is_verified
    _, arguments = dialect().create_connect_args(sa.make_url(connection))
    context = getattr(pymysql.Connection(**arguments, defer_connect=True), 'ctx', None)
    assert is_verified is bool(
        context and context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    )


def test_database_whose_ca_pymysql_does_not_read_is_reported(file: pathlib.Path) -> None:
    missing = 'mysql+pymysql://c:p@db.example/c?ssl_ca=/missing.pem'
    assert not is_reported(file, missing)
    ignored = f'{missing}&ssl_verify_cert=true'
    assert is_reported(file, ignored)
    for connection, is_read in ((missing, True), (ignored, False)):
        _, arguments = dialect().create_connect_args(sa.make_url(connection))
        with pytest.raises(FileNotFoundError) if is_read else contextlib.nullcontext():
            pymysql.Connection(**arguments, defer_connect=True)


@pytest.mark.parametrize(
    ('connection', 'is_safe'),
    [
        ('postgresql://c:p@db.example/c', False),
        ('postgresql://c:p@db.example/c?sslmode=require', False),
        ('postgresql://c:p@db.example/c?sslmode=verify-full', True),
        ('mysql+pymysql://c:p@localhost/c', True),
    ],
)
def test_database_that_is_not_verified_is_reported(
    file: pathlib.Path, connection: str, is_safe: bool
) -> None:
    assert is_reported(file, connection) is not is_safe


@pytest.mark.parametrize(
    ('certified', 'sent'), [('127.0.0.1', b'AMQP'), ('mq.example', None)], ids=['own', 'other']
)
def test_password_is_sent_only_to_the_broker_that_the_certificate_names(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, certified: str, sent: bytes | None
) -> None:
    monkeypatch.setattr('kombu.utils.functional.sleep', lambda _seconds: None)
    context, ca = receiver.certificate(tmp_path, certified)
    conf = configuration.load([], [])
    received: list[bytes] = []

    def accept() -> None:
        # The second try of kombu finds no broker.
        with listener, contextlib.suppress(ssl.SSLError):
            plain, _ = listener.accept()
            with context.wrap_socket(plain, server_side=True) as secure:
                received.append(secure.recv(4))

    listener = socket.create_server(('127.0.0.1', 0))
    broker = threading.Thread(target=accept)
    broker.start()
    url = f'rabbit://c:p@127.0.0.1:{listener.getsockname()[1]}/?ssl=1&ssl_ca_file={ca}'
    with pytest.raises(OSError):
        status._count_unread(conf, url, 'notifications.info')
    broker.join()
    assert received == ([sent] if sent else [])


def test_secrets_in_plain_text_are_reported(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = configuration.load([], [str(file)])
    database = Database(conf)
    webhook = {'url': 'https://example.org/t0ken', 'secret': 's'}

    def store(session: Session, value: dict[str, Any]) -> None:
        session.execute(sa.update(tables.LEASES).values(webhook=value))

    database.write(lambda session: db_store.insert_leases(session, [lease()]))
    database.write(store, {'events': ['*'], **webhook})
    code, found = check(file, capsys)
    assert (code, list(found)) == (1, ['Stored secrets'])
    assert 'climate-manage secrets rotate' in found['Stored secrets']
    assert 't0ken' not in found['Stored secrets']
    assert list(secrets.rotate_keys(database, [KEY])) == [True]
    assert check(file, capsys) == (0, {})


def test_database_that_cannot_be_read_is_reported(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.with_name('climate.sqlite').write_bytes(b'')
    code, found = check(file, capsys)
    assert (code, list(found)) == (1, ['Stored secrets'])
    assert 'could not be read' in found['Stored secrets']


@pytest.fixture
def engines_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the URLs of the engines that are created; none of them may wait for a database."""
    urls: list[str] = []
    create = engines.create_engine

    def create_engine(sql_connection: str, **options: Any) -> sa.Engine:
        urls.append(sql_connection)
        return create(sql_connection, **options)

    monkeypatch.setattr(engines, 'create_engine', create_engine)
    # Calls of sleep raise AttributeError.
    monkeypatch.setattr(engines, 'time', object())
    return urls


@pytest.mark.parametrize(
    ('command', 'code', 'check_name'),
    [('security', 1, 'Stored secrets'), ('upgrade', 2, 'Database')],
)
def test_database_that_does_not_answer_is_reported_without_retries(
    file: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engines_made: list[str],
    command: str,
    code: int,
    check_name: str,
) -> None:
    monkeypatch.setattr(status, '_unread_queues', lambda _conf: [])
    url = 'mysql+pymysql://climate:p4ssword@127.0.0.1:1/climate'
    with file.open('a') as opened:
        opened.write(f'[database]\nconnection = {url}\n[cloud]\nauth_type =\n')
    result, found = check(file, capsys, command=command)
    assert result == code
    assert "Can't connect to MySQL server on '127.0.0.1'" in found[check_name]
    assert 'p4ssword' not in found[check_name]
    assert engines_made == [url]


def test_secret_keys_that_are_no_keys_fail_the_checks(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(GOOD.format(directory=file.parent, key=f'{KEY},n0-key'))
    code, found = check(file, capsys)
    assert (code, list(found)) == (2, ['Secrets at rest', 'Stored secrets'])
    said = '[virtual:instance] secret_keys: a key is invalid: each must be 32 bytes in URL-safe'
    for details in found.values():
        assert said in details
        assert 'n0-key' not in details


@pytest.mark.parametrize(
    ('section', 'check_name', 'words'),
    [
        ('[api]\nauth_strategy = none', 'Authentication', 'Valid values are [keystone, noauth]'),
        ('[DEFAULT]\ntransport_url = rabbit://c:p4ss@mq:port/', 'Message bus', 'transport_url is'),
        ('[database]\nconnection = nowhere', 'Database', '[database] connection'),
    ],
)
def test_option_with_an_invalid_value_fails_its_check(
    file: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    section: str,
    check_name: str,
    words: str,
) -> None:
    with file.open('a') as opened:
        opened.write(f'{section}\n')
    code, found = check(file, capsys)
    assert code == 2
    assert words in found[check_name]
    assert 'p4ss' not in found[check_name]


def test_secrets_whose_key_is_missing_are_counted(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = Database(configuration.load([], [str(file)]))
    webhook = {'url': 'https://example.org/t0ken', 'secret': 's', 'events': ['*']}
    held = [lease(lease_id=name, webhook=webhook) for name in ('a', 'b')]
    database.write(lambda session: db_store.insert_leases(session, held))
    assert check(file, capsys) == (0, {})
    for keys in ('', Fernet.generate_key().decode()):
        file.write_text(GOOD.format(directory=file.parent, key=keys))
        code, found = check(file, capsys)
        assert code == 1
        assert 'The key of 2 secrets in the database is missing' in found['Stored secrets']
        assert 'rotate' not in found['Stored secrets']
    file.write_text(GOOD.format(directory=file.parent, key=f'{keys},{KEY}'))
    _, found = check(file, capsys)
    assert '2 secrets in the database are in plain text or sealed with' in found['Stored secrets']


@pytest.mark.parametrize('command', ['security', 'upgrade'])
def test_files_that_the_checks_read_are_listed(
    file: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setattr(status, '_unread_queues', lambda _conf: [])
    with file.open('a') as opened:
        opened.write('[cloud]\nauth_type =\n')
    directory = file.with_name('climate.conf.d')
    directory.mkdir()
    (directory / 'secrets.conf').touch(mode=0o644)
    words = ['--config-file', str(file), '--config-dir', str(directory)]
    status.main([*words, command, 'check', '--json'])
    first, *others = json.loads(capsys.readouterr().out)['checks']
    assert first['details'] == f'Read: {file}, {directory}/secrets.conf'
    assert first['result'] == 0
    if command == 'security':
        assert f'{directory}/secrets.conf has mode 0644' in others[0]['details']
    monkeypatch.setattr(cfg, 'find_config_files', lambda *_args, **_kwargs: [])
    monkeypatch.setattr(cfg, 'find_config_dirs', lambda *_args, **_kwargs: [])
    monkeypatch.setattr(configuration, 'DATABASE', f'sqlite:///{file.parent}/nope/climate.sqlite')
    status.main([command, 'check', '--json'])
    first, *_ = json.loads(capsys.readouterr().out)['checks']
    assert 'No climate.conf was found in ~/.climate, ~, /etc/climate or /etc' in first['details']
    assert first['result'] == 1


@pytest.mark.parametrize('mode', [0o644, 0o664, 0o666, 0o641])
def test_files_that_all_users_read_are_reported(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    rules = file.with_name('policy.yaml')
    more_rules = file.with_name('policy.d') / 'more.yaml'
    more_options = file.with_name('climate.conf.d') / 'more.conf'
    for path in (more_rules, more_options):
        path.parent.mkdir()
    for path in (rules, more_rules):
        path.write_text('{}')
    more_options.touch()
    paths = (file, more_options, rules, more_rules, file.with_name('climate.sqlite'))
    for path in paths:
        path.chmod(0o640)
    directory = ['--config-dir', str(more_options.parent)]
    assert check(file, capsys, *directory) == (0, {})
    for path in paths:
        path.chmod(mode)
    code, found = check(file, capsys, *directory)
    assert code == 1
    assert list(found) == ['File modes']
    for path in paths:
        assert f'{path} has mode {mode:04o}: set 0640' in found['File modes']


def test_each_check_is_in_the_table() -> None:
    functions = {name for name in vars(security) if name.startswith('check_')}
    assert functions == {function.__name__ for _, function in security.CHECKS}
