# SPDX-License-Identifier: Apache-2.0
"""climate-status upgrade check."""

import pathlib
from unittest import mock

import amqp
import pytest
from kombu.transport import pyamqp

from climate_core import conf as configuration
from climate_core.cloud import Cloud
from climate_core.cmd import status
from climate_core.context import RequestContext
from climate_core.db.engine import Database
from climate_hosts.operations.hosts import HostOperations
from climate_networks import db
from climate_networks.cloud import mark
from climate_networks.units import Segment
from tests.functional.api.programs.checked import READY, check, words
from tests.support.fakes import cinder, cloud_server, neutron, neutron_networks, settings


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
    assert 'Climate cannot check whether every nova-scheduler' in said


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
    file: pathlib.Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    slept: list[float] = []
    monkeypatch.setattr('kombu.utils.functional.sleep', slept.append)
    file.write_text(file.read_text() + READY.replace('127.0.0.1', '127.0.0.1:1'))
    assert check(file) == 1
    assert 'RabbitMQ could not be checked: ' in ' '.join(words(capsys))
    assert slept == []


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
    assert 'No floating IP is registered for leases.' in ' '.join(words(capsys))
    database.write(db.insert_floatingips, neutron.PUBLIC, {'203.0.113.20': neutron.SUBNET})
    assert check(file) == 0
    said = ' '.join(words(capsys))
    assert 'the manager of any project can create a floating IP with an address' in said
    # As if the pool had become larger since then.
    database.write(db.insert_floatingips, neutron.PUBLIC, {'203.0.113.205': neutron.SUBNET})
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
    assert 'No network segment is registered for leases.' in ' '.join(words(capsys))
    segments = [Segment('vlan', 'physnet1', number) for number in (100, 101)]
    segments.append(Segment('vxlan', None, 100))
    for each in segments:
        database.write(db.insert_segments, [each], {'available': True, 'access': None}, {})
    for number, description in ((100, 'mine'), (101, mark('reservation'))):
        provider = {'network_type': 'vlan', 'physical_network': 'physnet1'}
        provider |= {'segmentation_id': number}
        fields = {f'provider:{name}': value for name, value in provider.items()}
        neutron_networks.add(hosts_cloud.state, description=description, **fields)
    assert check(file) == 1
    said = ' '.join(words(capsys))
    assert 'VLAN 100 of physnet1 is registered for leases, but network' in said
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
    assert 'The database cannot be used' in capsys.readouterr().out


def test_status_with_a_bad_policy(
    file: pathlib.Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = file.parent / 'policy.yaml'
    policy.write_text('"climate:leases:get": "rule:climate:leases:get"\n')
    file.write_text(file.read_text() + READY + f'[oslo_policy]\npolicy_file = {policy}\n')
    assert check(file) == 2
    assert 'policy' in capsys.readouterr().out
