# SPDX-License-Identifier: Apache-2.0
import threading

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from climate_core import conf as climate_conf
from climate_core.db import outbox
from climate_core.manager import listener
from tests.fakes import leases


@pytest.fixture
def database(tmp_path):
    made = leases.sqlite(tmp_path / 'climate.sqlite')
    yield made
    made.dispose()


@pytest.fixture
def nudged():
    return []


@pytest.fixture
def endpoint(database, nudged):
    return listener.Endpoint(database, lambda: nudged.append(1))


def versioned(server_id):
    return {'nova_object.name': 'InstanceActionPayload', 'nova_object.data': {'uuid': server_id}}


def unversioned(server_id):
    return {'instance_id': server_id, 'state': 'deleted'}


@pytest.mark.parametrize(
    ('event_type', 'payload'),
    [
        ('instance.delete.end', versioned),
        ('compute.instance.delete.end', unversioned),
    ],
)
def test_a_deletion(database, endpoint, nudged, event_type, payload):
    lease = leases.write(database, leases.make(database, ['server-1']))
    endpoint.info({}, 'nova-compute:host', event_type, payload('server-1'), {})
    after = leases.read(database, lease.id)
    assert after.status == 'TERMINATED'
    assert after.reservations[0].missing_resources
    assert 'deleted outside' in after.status_reason
    assert nudged


def test_a_deletion_by_the_end_of_the_lease(database, endpoint):
    lease = leases.make(database, ['server-1'], status='TERMINATING')
    leases.write(database, lease)
    endpoint.info({}, 'host', 'instance.delete.end', versioned('server-1'), {})
    assert leases.read(database, lease.id) == lease


def test_an_evacuation_is_noted_once(database, endpoint):
    lease = leases.write(database, leases.started(leases.make(database, ['server-1'])))
    for _ in range(2):
        endpoint.info({}, 'host', 'instance.evacuate', versioned('server-1'), {})
    after = leases.read(database, lease.id)
    assert after.status == 'ACTIVE'
    assert after.reservations[0].resources_changed
    assert 'evacuated' in after.reservations[0].status_reason
    _, told = database.write(outbox.claim, 60.0, 10)
    assert [notice.event_type for notice in told] == ['lease.update']


def test_an_exhausted_pool(database, endpoint, monkeypatch, caplog):
    def fail(*args):
        raise sa.exc.TimeoutError('no connection left')

    monkeypatch.setattr(database, 'read', fail)
    endpoint.info({}, 'host', 'instance.delete.end', versioned('server-1'), {})
    assert 'was not noted: no connection left' in caplog.text


@pytest.mark.parametrize('payload', [versioned('another'), {}, {'nova_object.data': {}}])
def test_what_no_lease_holds(database, endpoint, payload):
    lease = leases.write(database, leases.make(database, ['server-1']))
    endpoint.info({}, 'host', 'instance.delete.end', payload, {})
    assert leases.read(database, lease.id) == lease


@pytest.mark.parametrize(
    ('event_type', 'heard'),
    [
        ('instance.delete.end', True),
        ('compute.instance.delete.end', True),
        ('instance.evacuate', True),
        ('compute.instance.evacuate', True),
        ('instance.soft_delete.end', False),
        ('compute.instance.soft_delete.end', False),
        ('instance.delete.start', False),
        ('instance.update', False),
        ('volume.instance.delete.end', False),
        ('instance.delete.end.x', False),
    ],
)
def test_what_is_heard(event_type, heard):
    matches = listener.Endpoint.filter_rule.match({}, 'host', event_type, {}, {})
    assert bool(matches) is heard


def test_it_can_be_turned_off(database):
    conf = climate_conf.load([], config_files=[])
    conf.set_override('enabled', False, group='nova_notifications')
    assert listener.make(conf, database) is None


@pytest.mark.parametrize('topic', ['notifications', 'versioned_notifications'])
def test_over_the_bus(database, monkeypatch, topic):
    """Nova's exchange and topics, with the in-process bus of oslo.messaging."""
    noted = threading.Event()
    heard = []

    def info(self, context, publisher_id, event_type, payload, metadata):
        heard.append((event_type, payload))
        noted.set()

    monkeypatch.setattr(listener.Endpoint, 'info', info)
    conf = climate_conf.load([], config_files=[])
    conf.set_override('transport_url', 'fake:/')
    server = listener.make(conf, database)
    server.start()
    conf.set_override('control_exchange', 'nova')
    transport = messaging.get_notification_transport(conf)
    notifier = messaging.Notifier(
        transport, 'nova-compute:host', driver='messaging', topics=[topic]
    )
    notifier.info({}, 'instance.update', {})
    notifier.info({}, 'instance.delete.end', versioned('server-1'))
    assert noted.wait(20)
    server.stop()
    server.wait()
    assert heard == [('instance.delete.end', versioned('server-1'))]
