# SPDX-License-Identifier: Apache-2.0
"""What operators find, measure and repair, on the real cloud."""

import json
import urllib.request
import uuid

import kombu
import pytest
import sqlalchemy as sa

from climate_core import conf as configuration
from climate_core.cmd import status
from tests.cloud.booking import Booking
from tests.cloud.people import (
    CONF,
    STATE,
    Person,
    at,
    configured,
    manage,
    upgrade_check,
    wait_for,
)


@pytest.mark.alone
def test_a_server_that_lost_its_lease_is_found_and_repaired(booking: Booking) -> None:
    server = booking.reserve(start=at(hours=1))
    lease = booking.lease_of(server.id)
    lose(lease.id)
    status, found = manage('orphans')
    assert status == 1
    assert server.id in json.dumps(found)
    manage('repair', '--safe', '0')
    assert booking.person.sdk.compute.get_server(server.id).status == 'RESERVED'
    status, _ = manage('repair', '--safe', '0', '--yes')
    assert status == 0
    booking.wait_gone(server.id)
    assert server.id not in json.dumps(manage('orphans')[1])


def lose(lease_id: str) -> None:
    """Delete a lease from the database behind the service's back."""
    with sa.create_engine(configured('database', 'connection')).begin() as database:
        database.execute(sa.text('DELETE FROM leases WHERE id = :id'), {'id': lease_id})


def test_queues_that_nobody_consumes_are_found(admin: Person) -> None:
    assert 'Queues of notifications Result: Success' in upgrade_check()
    conf = configuration.load([], [str(CONF)])
    topics = [f'tests-{uuid.uuid4().hex[:8]}' for _ in range(2)]
    conf.set_override('topics', topics, 'oslo_messaging_notifications')
    unread, consumed = (f'{each}.info' for each in topics)
    url = admin.environment['CLIMATE_CLOUD_TRANSPORT_URL'].replace('rabbit://', 'amqp://')
    with kombu.Connection(url) as broker, broker.channel() as channel:
        for name in (unread, consumed):
            channel.queue_declare(name, exclusive=False, auto_delete=False)
        try:
            producer = broker.Producer(channel)
            for _ in range(10_001):
                producer.publish('x', routing_key=unread, delivery_mode='transient')
                producer.publish('x', routing_key=consumed, delivery_mode='transient')
            channel.basic_consume(consumed, no_ack=False, callback=lambda _message: None)
            found = wait_for(lambda: [*status._unread_queues(conf)], 'a queue that grows')
            assert [each.partition(' ')[0] for each in found] == [unread]
        finally:
            for name in (unread, consumed):
                channel.queue_delete(name)


def test_metrics_count_the_start(booking: Booking) -> None:
    url = f'http://{configured("metrics", "listen")}/metrics'

    def started() -> float:
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        lines = [line for line in text.splitlines() if line.startswith('climate_')]
        counts = [
            line.split()[-1]
            for line in lines
            if '_count{' in line and 'late' in line and '"start_lease"' in line
        ]
        return sum(map(float, counts))

    before = started()
    server = booking.reserve(start='now')
    booking.wait(server.id, 'ACTIVE')
    wait_for(lambda: started() > before, 'one more start in the metrics')


def test_one_request_id_leads_through_the_logs(booking: Booking) -> None:
    """Nova's log of the wake-up has the id that the history of the lease has."""
    server = booking.reserve(start='now')
    booking.wait(server.id, 'ACTIVE')
    lease = booking.lease_of(server.id)
    booking.wait_lease(lease.id, 'ACTIVE')
    entries = {each.action: each for each in booking.person.leases.history(lease.id)}
    request_id = entries['event.start_lease'].request_id
    assert request_id
    assert request_id in (STATE / 'logs' / 'nova-api.log').read_text(errors='replace')
    made_by = entries['lease.create'].request_id
    actions = booking.person.sdk.compute.get(f'/servers/{server.id}/os-instance-actions')
    assert made_by in {each['request_id'] for each in actions.json()['instanceActions']}
