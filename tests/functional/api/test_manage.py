# SPDX-License-Identifier: Apache-2.0
"""The console scripts climate-manage and climate-status."""

import dataclasses
import datetime
import pathlib
import subprocess
import sys
from types import ModuleType
from unittest import mock

import amqp
import pytest
import requests
import sqlalchemy as sa
from cryptography.fernet import Fernet
from kombu.transport import pyamqp
from oslo_config import cfg
from sqlalchemy import orm

from climate_core import conf as configuration
from climate_core.cloud import Cloud
from climate_core.cmd import manage, manager, status
from climate_core.cmd.manage import serve
from climate_core.context import RequestContext
from climate_core.db import floatingips, leases, migration, networks, store, tables
from climate_core.db.engine import Database
from climate_core.lease import schedule
from climate_core.lease.history import Cause
from climate_core.lease.marks import mark
from climate_core.lease.networks import Segment
from climate_core.operations.hosts import HostOperations
from tests.functional.api import written
from tests.support.fakes import cinder, cloud_server, neutron, neutron_networks, settings

NO_IMAGE = '11111111-1111-4111-8111-111111111111'
LONG_AGO = datetime.datetime(2001, 2, 3, tzinfo=datetime.UTC)


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    written = tmp_path / 'climate.conf'
    written.write_text(f'[database]\nconnection = sqlite:///{tmp_path}/new/climate.sqlite\n')
    return written


@pytest.fixture
def database(file: pathlib.Path) -> Database:
    assert manage.main(['--config-file', str(file), 'db', 'upgrade']) == 0
    return Database(configuration.load([], [str(file)]))


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


def test_expand_asks_for_contract_which_ends_the_upgrade(
    file: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file, 'expand') == 0
    assert run(file, 'version') == 0
    assert 'climate-manage db contract' in capsys.readouterr().out
    assert check(file) == 2
    assert 'climate-manage db contract' in ' '.join(words(capsys))
    assert run(file, 'contract') == 0
    assert capsys.readouterr().out.strip() == migration.head()
    assert run(file, 'version') == 0
    assert capsys.readouterr().out.strip() == migration.head()


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


def words(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the words of a table whose cells are broken into lines."""
    return capsys.readouterr().out.replace('|', ' ').split()


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
    assert 'The database does not answer' in capsys.readouterr().out


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
    leases.update(session, lease, deleted_at=when)


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
            lease = lease.with_events(*(schedule.cancel_event(e, None, now) for e in lease.events))
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


def test_purge_removes_all_that_is_of_a_lease(file: pathlib.Path, database: Database) -> None:
    old, kept = written.lease(0), written.lease(1)
    for lease in (old, kept):
        closed = lease.with_events(
            *(schedule.cancel_event(e, None, LONG_AGO) for e in lease.events)
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


def test_serve_makes_its_database_and_keeps_it(tmp_path: pathlib.Path) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path / 'state')]
    for expected in (0, 1):
        conf = configuration.load(words, [], cli=[manage.command()])
        with serve.serving(conf) as url:
            assert len(requests.get(f'{url}/leases', timeout=60).json()['leases']) == expected
            body = {
                'name': 'kept',
                'end_date': '2099-01-01 10:00',
                'start_date': '2098-01-01 1:00',
            }
            assert requests.post(f'{url}/leases', json=body, timeout=60).status_code == 201
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=60)


def test_serve_shows_an_ipv6_address_in_brackets(tmp_path: pathlib.Path) -> None:
    words = ['serve', '--noauth', '--host', '::1', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        assert url.startswith('http://[::1]:')
        assert requests.get(f'{url}/leases', timeout=60).status_code == 200


@pytest.mark.parametrize('name', ['a$b', 'a%41b', 'a#b @:'])
def test_serve_has_its_database_in_any_state_directory(tmp_path: pathlib.Path, name: str) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path / name)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])):
        assert (tmp_path / name / 'climate.sqlite').is_file()


def test_serve_rejects_a_state_directory_that_no_database_url_can_have(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path / 'a?b')]
    with pytest.raises(SystemExit):
        configuration.load(words, [], cli=[manage.command()])
    assert 'it must be a path without "?"' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_serve_pretends_to_reserve_servers(tmp_path: pathlib.Path) -> None:
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        wanted = {
            'resource_type': 'virtual:instance',
            'resource_id': '11111111-1111-4111-8111-111111111111',
            'on_end': 'stop',
        }
        body = {'name': 'n', 'end_date': '2099-01-01 10:00', 'reservations': [wanted]}
        answer = requests.post(f'{url}/leases', json=body, timeout=60)
    assert answer.status_code == 201, answer.text
    shown = answer.json()['lease']['reservations'][0]
    assert {name: shown[name] for name in wanted} == wanted


def test_serve_without_a_cloud_neither_shows_nor_keeps_secrets(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = {'user_data': 'c2VjcmV0IHVzZXIgZGF0YQ==', 'adminPass': 'secret-password'}
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [], cli=[manage.command()])) as url:
        server = {'name': 'web', 'flavorRef': '1', 'imageRef': NO_IMAGE, 'count': 2}
        stack = {
            'name': 'app',
            'template': {'heat_template_version': '2018-08-31', 'resources': {}},
            'parameters': {'password': 'secret-parameter'},
            'environment': {'parameters': {'token': 'secret-environment'}},
            'files': {'start.sh': 'secret-file'},
        }
        reservations = [
            {'resource_type': 'virtual:instance', 'server': {**server, **secrets}},
            {'resource_type': 'virtual:stack', **stack},
        ]
        body = {'name': 'n', 'end_date': '2099-01-01 10:00', 'reservations': reservations}
        made = requests.post(f'{url}/leases', json=body, timeout=60)
        assert made.status_code == 201, made.text
        lease = f'{url}/leases/{made.json()["lease"]["id"]}'
        paths = (lease, f'{lease}/history', f'{url}/leases')
        answers = [made, *(requests.get(each, timeout=60) for each in paths)]
        kept = b''.join(each.read_bytes() for each in tmp_path.iterdir())
    assert {each.status_code for each in answers} == {200, 201}
    assert made.json()['lease']['reservations'][0]['server'] == server
    texts = ' '.join(each.text for each in answers) + caplog.text + kept.decode(errors='replace')
    for secret in (*secrets.values(), 'secret-'):
        assert secret not in texts


def test_serve_without_a_cloud_asks_no_keystone_for_limits(tmp_path: pathlib.Path) -> None:
    """The configuration may be one that has a cloud."""
    file = tmp_path / 'cloud.conf'
    options = settings.cloud_options('http://127.0.0.1:1').items()
    file.write_text('\n'.join(['[cloud]', *(f'{name} = {value}' for name, value in options)]))
    words = ['serve', '--noauth', '--port', '0', '--state-dir', str(tmp_path)]
    with serve.serving(configuration.load(words, [str(file)], cli=[manage.command()])) as url:
        body = {'name': 'n', 'end_date': '2099-01-01 10:00', 'start_date': '2098-01-01 1:00'}
        made = requests.post(f'{url}/leases', json=body, timeout=60)
        shown = requests.get(f'{url}/limits', timeout=60)
    assert (made.status_code, shown.status_code) == (201, 200), made.text
    assert shown.json()['limits']['leases'] == {'limit': 500, 'used': 1}


def check(file: pathlib.Path) -> int:
    return status.main(['--config-file', str(file), 'upgrade', 'check'])


READY = """
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1/
[cloud]
auth_type = password
[keystone_authtoken]
auth_type = password
"""


def test_status_of_a_ready_installation(
    file: pathlib.Path,
    database: Database,
    broker: dict[str, int],
    hosts_cloud: cloud_server.Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_cloud(file, hosts_cloud)
    assert check(file) == 0, capsys.readouterr().out
    assert 'No pool has a host' in ' '.join(words(capsys))
    conf = configuration.load([], [str(file)])
    operations = HostOperations(conf, database, Cloud(conf), lambda _seconds: None)
    operations.create_host(RequestContext(user_id='operator'), {'name': 'cn1'})
    assert check(file) == 1
    said = ' '.join(words(capsys))
    assert '=required: cn1. A nova-scheduler without PoolFilter' in said
    assert 'cannot be seen from here' in said


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Stand for RabbitMQ: return the messages without a consumer by the queue, to be filled."""
    unread: dict[str, int] = {}
    monkeypatch.setattr(status, '_count_unread', lambda _conf, _url, queue: unread.get(queue, 0))
    return unread


def test_status_names_the_queues_that_grow(
    file: pathlib.Path,
    database: Database,
    broker: dict[str, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file.write_text(file.read_text() + READY)
    broker |= {'versioned_notifications.info': 10_001, 'notifications.info': 10_000}
    assert check(file) == 1
    said = ' '.join(words(capsys))
    assert 'consumer grow: versioned_notifications.info (10001 messages). Set a policy' in said


def test_status_without_rabbitmq(
    file: pathlib.Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text() + READY.replace('127.0.0.1', '127.0.0.1:1'))
    assert check(file) == 1
    assert 'RabbitMQ could not be checked: ' in ' '.join(words(capsys))


@pytest.mark.parametrize(
    'error',
    [
        amqp.exceptions.AccessRefused('Login was refused'),
        amqp.exceptions.NotAllowed('vhost / not found'),
    ],
)
def test_status_with_a_rabbitmq_that_rejects_climate(
    file: pathlib.Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    connect = mock.Mock(side_effect=error)
    monkeypatch.setattr(pyamqp.Transport, 'establish_connection', connect)
    file.write_text(file.read_text() + READY)
    assert check(file) == 1
    assert f'RabbitMQ could not be checked: {error}' in ' '.join(words(capsys))


def test_status_asks_the_next_broker_if_the_first_is_away(
    file: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = mock.MagicMock()
    declared = mock.Mock(consumer_count=0, message_count=5)
    connection.channel.return_value.queue_declare.return_value = declared

    def connect(transport: pyamqp.Transport) -> mock.MagicMock:
        if transport.client.hostname == 'mq1':
            raise ConnectionRefusedError
        return connection

    monkeypatch.setattr(pyamqp.Transport, 'establish_connection', connect)
    monkeypatch.setattr('kombu.utils.functional.sleep', lambda _seconds: None)
    conf = configuration.load([], [str(file)])
    url = 'rabbit://climate:p@mq1,climate:p@mq2/climate'
    assert status._count_unread(conf, url, 'notifications.info') == 5


def configure_cloud(file: pathlib.Path, cloud: cloud_server.Server) -> None:
    """Write into the configuration where the cloud is."""
    options = settings.cloud_options(cloud.url).items()
    section = '[cloud]\n' + ''.join(f'{name} = {value}\n' for name, value in options)
    file.write_text(file.read_text() + READY + section)


def test_status_says_what_neutron_may_give_to_others(
    file: pathlib.Path,
    database: Database,
    broker: dict[str, int],
    hosts_cloud: cloud_server.Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_cloud(file, hosts_cloud)
    assert check(file) == 0
    assert 'No floating IP is set apart for leases.' in ' '.join(words(capsys))
    database.write(floatingips.insert, neutron.PUBLIC, {'203.0.113.20': neutron.SUBNET})
    assert check(file) == 0
    said = ' '.join(words(capsys))
    assert 'the manager of any project can create a floating IP with an address' in said
    # As if the pool had become larger since then.
    database.write(floatingips.insert, neutron.PUBLIC, {'203.0.113.205': neutron.SUBNET})
    assert check(file) == 1
    said = ' '.join(words(capsys))
    assert 'Floating IP 203.0.113.205: 203.0.113.205 is in the allocation pool' in said


def test_status_reports_volumes_that_cinder_lists_and_does_not_show(
    file: pathlib.Path,
    database: Database,
    broker: dict[str, int],
    hosts_cloud: cloud_server.Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_cloud(file, hosts_cloud)
    volume_id = cinder.add(hosts_cloud.state)['id']
    assert check(file) == 0
    capsys.readouterr()
    fault = {'method': 'GET', 'path': f'/volumes/{volume_id}', 'status': 404, 'count': 1}
    hosts_cloud.state.faults.append(fault)
    assert check(file) == 2
    said = ' '.join(words(capsys))
    assert f'Cinder lists volume {volume_id}' in said
    assert 'xena_system_admin_or_project_reader' in said


def test_status_says_which_segments_others_have(
    file: pathlib.Path,
    database: Database,
    broker: dict[str, int],
    hosts_cloud: cloud_server.Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_cloud(file, hosts_cloud)
    assert check(file) == 0
    assert 'No network segment is set apart for leases.' in ' '.join(words(capsys))
    segments = [Segment('vlan', 'physnet1', number) for number in (100, 101)]
    segments.append(Segment('vxlan', None, 100))
    for each in segments:
        database.write(networks.insert, [each], {'available': True, 'access': None}, {})
    for number, description in ((100, 'mine'), (101, mark('reservation'))):
        provider = {'network_type': 'vlan', 'physical_network': 'physnet1'}
        provider |= {'segmentation_id': number}
        fields = {f'provider:{name}': value for name, value in provider.items()}
        neutron_networks.add(hosts_cloud.state, description=description, **fields)
    assert check(file) == 1
    said = ' '.join(words(capsys))
    assert 'VLAN 100 of physnet1 is set apart for leases, but network' in said
    assert 'VLAN 101' not in said


@pytest.mark.parametrize(
    ('text', 'code', 'said'),
    [
        ('', 2, '[cloud] auth_type'),
        (READY, 1, 'Placement could not be checked'),
        (READY + '[manager]\nplugins = nope\n', 2, 'nope'),
        (READY + '[manager]\nplugins =\n', 1, 'is empty'),
        (READY + '[api]\nauth_strategy = noauth\n', 1, 'noauth'),
        (READY.replace('rabbit://guest:guest@127.0.0.1', 'fake:'), 1, 'transport_url is fake'),
        (READY + '[upgrade_levels]\nmanager = 1.0\n', 1, '[upgrade_levels] manager is 1.0'),
    ],
)
def test_status_says_what_is_wrong(
    file: pathlib.Path,
    database: Database,
    broker: dict[str, int],
    capsys: pytest.CaptureFixture[str],
    text: str,
    code: int,
    said: str,
) -> None:
    file.write_text(file.read_text() + text)
    assert check(file) == code
    assert said in ' '.join(words(capsys))


def test_status_without_a_database(file: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(file.read_text() + READY)
    assert check(file) == 2
    assert 'does not answer' in capsys.readouterr().out


def test_status_with_a_bad_policy(
    file: pathlib.Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = file.parent / 'policy.yaml'
    policy.write_text('"climate:leases:get": "rule:climate:leases:get"\n')
    file.write_text(file.read_text() + READY + f'[oslo_policy]\npolicy_file = {policy}\n')
    assert check(file) == 2
    assert 'policy' in capsys.readouterr().out


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
