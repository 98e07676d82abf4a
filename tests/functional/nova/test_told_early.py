# SPDX-License-Identifier: Apache-2.0
"""Nova tells that a server is awake while the manager that asked for it is still at work."""

import threading

from climate_core import test_hooks
from climate_core.db import events
from climate_core.engine.bulkhead import ServiceBulkhead
from climate_core.engine.event_pool import EventPool
from climate_core.engine.scheduler import Scheduler
from climate_core.lease import model
from climate_core.plugins.server import ServerPlugin
from climate_core.repair.listener import NotificationEndpoint, NotifiedChecks
from tests.functional.nova.made_servers import END, START, MadeServersTest
from tests.support.executor import early_polls
from tests.support.stopping import stop

PATIENCE, WORKERS = 60, 4
DONE = 'instance.create.end'


class Signalling(Scheduler):
    """Tells when the work on an event is over and the next one may begin."""

    def __init__(self, *args):
        super().__init__(*args)
        self.over = threading.Semaphore(0)

    def end_event(self, job):
        super().end_event(job)
        self.over.release()

    def work(self):
        """Begin what is due, and wait for the end of it."""
        self.poll()
        while self.free_places < WORKERS:
            assert self.over.acquire(timeout=PATIENCE)


class TestToldEarly(MadeServersTest):
    def setUp(self):
        super().setUp()
        world = self.world
        bulkhead = ServiceBulkhead(WORKERS, 100)
        pool = EventPool(world.executor, WORKERS, bulkhead)
        self.scheduler = Signalling(world.database, world.clock, pool, 600)
        servers = world.plugins[ServerPlugin.resource_type]
        self.checks = NotifiedChecks(world.database, servers, self.scheduler)
        self.endpoint = NotificationEndpoint(
            ServerPlugin.notifications,
            ServerPlugin.resource_type,
            self.checks,
            early_polls(world.database),
            self.scheduler,
        )
        self.server = self.boot({'reserved': 'True', 'lease_params': '{"name": "lease"}'})
        self.assert_status(self.server, 'RESERVED')
        reservation = {'resource_type': 'virtual:instance', 'resource_id': self.server['id']}
        body = {'name': 'lease', 'start_date': START, 'end_date': END}
        body['reservations'] = [reservation]
        self.lease_id = self.create_lease(self.api.project_id, 'fake', body)
        self.addCleanup(test_hooks.install, None)

    def work(self, **later):
        """Have the lease looked at once, at a later time."""
        self.time.forward(**later)
        self.scheduler.nudge()
        self.scheduler.work()

    def hear(self, point, _info):
        """Start the server, and hand over what Nova tells of it, before this look is written."""
        if point == 'finish.before':
            test_hooks.install(None)
            self.notifier.reset()
            self.deliver(self.message)
            self.hand_over(DONE)

    def hand_over(self, event_type):
        """Hand over what Nova notifies, as oslo.messaging does."""
        (told,) = self.notifier.wait_for_versioned_notifications(event_type)
        message = {}, told['publisher_id'], told['event_type'], told['payload'], {}
        assert self.endpoint.filter_rule.match(*message)
        self.endpoint.info(*message)

    def test_lease_is_active_without_waiting_for_the_next_look(self):
        with self.messages_kept() as queue:
            self.work(hours=1)
            self.assert_status(self.server, 'RESERVED', 'scheduling')
        (self.message,) = queue
        test_hooks.install(self.hear)
        self.work(seconds=5)
        assert self.state(self.lease_id)[0] == 'STARTING'
        self.time.forward(seconds=events.MIN_POLL_SECONDS)
        (start,) = self.world.lease(self.lease_id).events_of(model.START)
        assert start.next_at > self.time()
        self.scheduler.work()
        assert self.state(self.lease_id)[0] == 'ACTIVE'
        self.assert_status(self.server, 'ACTIVE')
        assert stop(self.scheduler)

    def test_server_that_is_deleted_outside_of_its_lease_is_lost_by_the_first_check(self):
        """Nova stores the deletion before it notifies."""
        self.notifier.reset()
        self.api.delete_server(self.server['id'])
        self.hand_over('instance.delete.end')
        self.checks.poll()
        lease = self.world.lease(self.lease_id)
        assert lease.status == 'TERMINATED'
        assert 'The server was deleted outside of the lease.' in lease.status_reason
