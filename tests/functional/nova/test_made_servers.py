# SPDX-License-Identifier: Apache-2.0
"""Servers that the lease service makes for a lease, by a real engine in a real nova."""

import base64
import datetime
import itertools
from unittest import mock

import fixtures
import pytest
import webob
from cryptography.fernet import Fernet
from keystoneauth1 import plugin
from keystoneauth1 import session as ks_session
from nova.conductor.api import ComputeTaskAPI
from openstack import connection

from climate_core import exceptions
from climate_core.cloud import servers
from climate_core.context import RequestContext
from climate_core.db import usage as db
from climate_core.lease import usage
from climate_core.plugins import making
from climate_core.plugins.server.plugin import ServerPlugin
from tests.functional.lease_service import refusal
from tests.functional.nova.hosts import Cloud, Crash, HostsTest
from tests.support.kinds import kind_cell
from tests.support.world import NOON, Time, World, user

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
SCRIPT = base64.b64encode(b'#!/bin/sh\n').decode()
HOUR = datetime.timedelta(hours=1)
HOST = 'OS-EXT-SRV-ATTR:host'
START, END = '2026-12-01 13:00', '2026-12-01 14:00'


class _Owner(plugin.BaseAuthPlugin):
    """The headers of a token of the lease's trust, with the token of the lease service."""

    def __init__(self, project_id):
        super().__init__()
        self._project_id = project_id

    def get_headers(self, _session):
        return {
            'X-Auth-Token': 'owner',
            'X-Auth-User': 'fake',
            'X-Auth-Project-Id': self._project_id,
            'X-Roles': 'reader,member',
            'X-Service-Roles': 'service',
        }


class OwnersCloud(Cloud):
    """A cloud in which requests of the owner of a lease count."""

    def __init__(self, nova_url, placement_url, project_id):
        super().__init__(nova_url, placement_url)
        self.everywhere = True
        session = ks_session.Session(auth=_Owner(project_id))
        send = session.request

        def request(url, method, **kwargs):
            before, self._send = self._send, send
            try:
                return self._request(url, method, **kwargs)
            finally:
                self._send = before

        session.request = request
        self._owner = connection.Connection(session=session, compute_endpoint_override=nova_url)

    def owner(self, _trust_id):
        return self._owner

    def user(self, _context):
        return self._owner


class MadeServersTest(HostsTest):
    COMPUTES = ('host1',)

    def setUp(self):
        super().setUp()
        self.time = Time()
        self.world = World(self.database.engine.url.render_as_string(), self.time)
        self.addCleanup(self.world.database.dispose)
        self.cloud = OwnersCloud(
            self.admin_api.base_url, self.placement_fixture.endpoint, self.api.project_id
        )
        conf = self.world.conf
        conf.register_opts(ServerPlugin.options, group=ServerPlugin.resource_type)
        key = Fernet.generate_key().decode()
        conf.set_override('secret_keys', [key], group=ServerPlugin.resource_type)
        self.plugin = ServerPlugin(conf, self.cloud)
        self.plugin.now = self.time
        self.world.plugins[ServerPlugin.resource_type] = self.plugin
        operations = self.world.operations
        operations.cloud = operations.room.cloud = operations.queue.cloud = self.cloud
        self.lease_service._join = self._join
        # Of glance and neutron nova's fixtures have no HTTP.
        for name in ('images.get', 'networks.check_network'):
            self.useFixture(
                fixtures.MonkeyPatch(f'climate_core.cloud.{name}', lambda *_: {'id': IMAGE})
            )

    def _join(self, lease_id, body):
        """Answer a join of nova-compute as the lease service does."""
        context = RequestContext(
            project_id=self.api.project_id, user_id='fake', service_roles=['service']
        )
        try:
            self.world.operations.add_reservation(context, lease_id, body)
        except exceptions.ClimateError as exc:
            return refusal(exc.http_status, exc.message)
        return webob.Response(status=201, json_body={'reservation': {'id': lease_id, **body}})

    def lease(self, start='now', more=None, groups=1, **server):
        """Create a lease of servers that are to be made; return its id."""
        wanted = {
            'name': 'web',
            'flavorRef': self.flavor['id'],
            'imageRef': IMAGE,
            'networks': self.network(),
            **server,
        }
        wanted = {name: value for name, value in wanted.items() if value is not None}
        body = {'name': 'lease', 'start_date': start, 'end_date': END, **(more or {})}
        body = {name: value for name, value in body.items() if value is not None}
        reservation = {'resource_type': 'virtual:instance', 'server': wanted}
        body['reservations'] = [reservation] * groups
        lease_id = self.world.operations.create_lease(user(self.api.project_id, 'fake'), body)
        shown = {'id': lease_id, 'name': 'lease', 'status': 'PENDING'}
        dates = {'start_date': '2026-12-01T13:00:00', 'end_date': '2026-12-01T14:00:00'}
        self.lease_service.leases[lease_id] = {**shown, **dates}
        return lease_id

    def look_around(self, looks=5):
        """Do what is due, and look again as often as the plugin wants."""
        for _ in range(looks):
            self.world.run_until_idle(seconds=5)

    def state(self, lease_id):
        """Return the status of a lease, and those of its reservations."""
        lease = self.world.lease(lease_id)
        return lease.status, [each.status for each in lease.reservations]

    def servers(self):
        """Name and status of the servers of the project."""
        found = self.api.get_servers(detail=True)
        return sorted((each['name'], each['status']) for each in found)

    def assert_nothing_left(self):
        assert self.servers() == []
        ports = self.neutron.list_ports(is_admin=True)['ports']
        assert not any(each.get('device_id') for each in ports)
        assert self.used() == 0

    def die_at_each_request(self, begin, looks, make_room=lambda: None, step=1):
        """Begin a lease and die after 0, 1, 2 ... requests; each time it has its one server.

        :param begin: returns the id of the lease
        :param looks: how often a manager looks before and after it dies
        :param make_room: called when both have looked
        :param step: die after each so many requests only
        """
        for answered in range(0, 60, step):
            lease_id = begin()
            self.cloud.left = answered
            try:
                self.look_around(looks)
            except Crash:
                pass
            finally:
                died, self.cloud.left = self.cloud.left == 0, None
            self.time.forward(seconds=self.world.conf.engine.claim_ttl + 1)
            self.look_around(looks)
            make_room()
            assert self.state(lease_id) == ('ACTIVE', ['active'])
            assert self.servers() == [('web', 'ACTIVE')]
            self.world.operations.delete_lease(user(self.api.project_id, 'fake'), lease_id)
            self.look_around()
            self.assert_nothing_left()
            if not died:
                break
        else:
            raise AssertionError('it never settled')
        assert answered > 5


class TestMadeServers(MadeServersTest):
    @kind_cell('Servers that are made for the lease', 'immediate')
    def test_made_now_and_woken_at_the_start(self):
        lease_id = self.lease(START, count=2, user_data=SCRIPT, adminPass='secret')
        self.look_around()
        assert self.servers() == [('web-1', 'RESERVED'), ('web-2', 'RESERVED')]
        lease = self.world.lease(lease_id)
        assert {each.resource_id for each in lease.reservations} == {
            each['id'] for each in self.api.get_servers()
        }
        assert self.state(lease_id) == ('PENDING', ['pending'] * 2)
        spawned = self.spy_on()
        self.time.forward(hours=1)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert self.servers() == [('web-1', 'ACTIVE'), ('web-2', 'ACTIVE')]
        assert {each['password'] for each in spawned.calls} == {'secret'}
        assert {each['instance'].user_data for each in spawned.calls} == {SCRIPT}
        self.time.forward(hours=1)
        self.look_around()
        assert self.state(lease_id) == ('TERMINATED', ['deleted'] * 2)
        self.assert_nothing_left()

    def test_servers_of_a_lease_that_starts_now_are_started_at_once(self):
        lease_id = self.lease(count=2)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert self.servers() == [('web-1', 'ACTIVE'), ('web-2', 'ACTIVE')]

    def test_without_room_for_all_none_is_left(self):
        """The host has two VCPUs."""
        self.set_ratio('VCPU', 1.0)
        lease_id = self.lease(count=3)
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 3)
        reason = self.world.lease(lease_id).status_reason
        assert '(1 VCPUs, 512 MB of memory, 1 GB of disk) could not be made: ' in reason
        assert reason.count('No valid host was found') == 1
        assert {str(each.amounts) for each in self.world.lease(lease_id).reservations} == {'{}'}
        self.assert_nothing_left()

    def test_without_room_for_all_reservations_none_is_left(self):
        self.set_ratio('VCPU', 1.0)
        lease_id = self.lease(groups=3)
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 3)
        self.assert_nothing_left()

    def end_after_looks(self, begin, looks):
        """End a lease after so many looks; nothing is left of it.

        :param begin: returns the id of the lease
        :param looks: how many, in turn
        """
        for count in looks:
            lease_id = begin()
            for _ in range(count):
                self.world.run()
                self.time.forward(seconds=1)
            self.world.operations.end_lease(user(self.api.project_id, 'fake'), lease_id)
            self.look_around(2)
            self.time.forward(seconds=making.IN_FLIGHT)
            self.look_around()
            assert self.state(lease_id)[0] == 'TERMINATED'
            self.assert_nothing_left()

    def test_ended_while_they_are_made(self):
        self.end_after_looks(lambda: self.lease(START, count=2), range(1, 6))

    def test_manager_that_dies_before_or_after_any_request_makes_none_twice(self):
        """Before the next request it is after the one before: nobody wrote what that did."""
        self.die_at_each_request(self.lease, looks=5)

    def lose_builds(self, count):
        """Lose the messages to nova-conductor of so many builds."""
        name = 'nova.conductor.api.ComputeTaskAPI.schedule_and_build_instances'
        lost, send = [], ComputeTaskAPI.schedule_and_build_instances

        def build(*args, **kwargs):
            if len(lost) < count:
                lost.append(kwargs)
            else:
                send(*args, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(name, build))

    def test_server_whose_message_is_lost_is_made_again(self):
        self.lose_builds(1)
        lease_id = self.lease(START, count=2)
        self.look_around()
        assert [status for _, status in self.servers()] == ['BUILD', 'RESERVED']
        self.world.run_until_idle(minutes=6)
        reason = self.world.lease(lease_id).status_reason
        assert 'The server has been BUILD without a change for' in reason
        self.world.run_until_idle(minutes=5)
        self.look_around()
        assert self.servers() == [('web-1', 'RESERVED'), ('web-2', 'RESERVED')]
        self.world.run_until_idle(minutes=60)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        self.world.run_until_idle(hours=1)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_manager_that_dies_while_it_makes_a_server_again_makes_one(self):
        def begin():
            self.lose_builds(1)
            lease_id = self.lease(more={'end_date': None, 'duration': '1h'})
            self.look_around()
            self.time.forward(minutes=11)
            return lease_id

        self.die_at_each_request(begin, looks=10)

    def test_lease_that_ends_while_a_server_is_made_again_leaves_nothing(self):
        def begin():
            self.lose_builds(1)
            lease_id = self.lease(START)
            self.look_around()
            self.time.forward(minutes=11)
            return lease_id

        self.end_after_looks(begin, range(1, 5))

    def test_server_that_its_host_does_not_start_is_deleted_hours_after_its_end(self):
        self.world.conf.set_override('on_end', 'stop', group=ServerPlugin.resource_type)
        lease_id = self.lease(START)
        self.look_around()
        (reservation,) = self.world.lease(lease_id).reservations
        # As a host leaves it that dies at the start.
        server = {'id': reservation.resource_id}
        self.write(server, vm_state='building', task_state='spawning')
        self.lose('host1')
        self.world.run_until_idle(hours=2)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATING'
        self.world.run_until_idle(minutes=100)
        assert 'It counts as lost after 180' in self.world.lease(lease_id).status_reason
        self.world.run_until_idle(minutes=90)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        # The host counts anew when it comes back.
        self.lose('host1', lost=False)
        self.restart()
        self.assert_nothing_left()

    def test_server_that_is_deleted_and_not_forgotten_is_deleted_again(self):
        lease_id = self.lease(START)
        self.look_around()
        (reservation,) = self.world.lease(lease_id).reservations
        # As nova-compute leaves it that dies before it destroys the row.
        server = {'id': reservation.resource_id}
        self.write(server, vm_state='deleted', task_state=None)
        self.world.run_until_idle(hours=2)
        self.world.run_until_idle(minutes=6)
        told = self.world.lease(lease_id).status_reason
        assert 'DELETED, and Nova has not forgotten it' in told
        self.world.run_until_idle(minutes=6)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_refusals_name_the_field_and_leave_nothing(self):
        for field, wanted in {
            'flavorRef': {'flavorRef': 'none'},
            'key_name': {'key_name': 'none'},
            'imageRef': {'imageRef': None},
            'networks[0].fixed_ip': {
                'count': 2,
                'networks': [{**self.network()[0], 'fixed_ip': '192.168.1.9'}],
            },
        }.items():
            with pytest.raises(exceptions.ClimateError) as caught:
                self.lease(**wanted)
            assert caught.value.field == f'reservations[0].server.{field}'
        assert self.world.trusts.present == set()


class TestServerGroup(MadeServersTest):
    COMPUTES = ('host1', 'host2')

    def hosts_of(self, **server):
        """Have two servers made; return their hosts."""
        lease_id = self.lease(START, count=2, **server)
        self.look_around()
        found = self.world.lease(lease_id).reservations
        return {self.show({'id': each.resource_id})[HOST] for each in found}

    def test_servers_of_a_group_are_where_its_policy_says(self):
        assert self.hosts_of() == {'host1', 'host2'}
        group = self.api.post_server_groups({'name': 'together', 'policy': 'affinity'})
        assert len(self.hosts_of(scheduler_hints={'group': group['id']})) == 1


class SmallHostTest(MadeServersTest):
    """The host has two VCPUs, and a server takes one."""

    def setUp(self):
        super().setUp()
        self.set_ratio('VCPU', 1.0)

    def others(self, count):
        """Have another user boot servers; return them."""
        made = [self.boot(name='other') for _ in range(count)]
        for each in made:
            self.assert_status(each, 'ACTIVE')
        return made

    def held_at(self):
        """Since when reservations are billed."""
        period = usage.Span(NOON, NOON + datetime.timedelta(hours=2))
        found = self.world.database.read(lambda session: list(db.uses(session, period)))
        return {each.held_at for each in found}


class TestScheduled(SmallHostTest):
    def scheduled(self, start=START, end=END, **server):
        return self.lease(start, more={'kind': 'scheduled', 'end_date': end}, **server)

    @kind_cell('Servers that are made for the lease', 'scheduled')
    def test_made_shortly_before_the_start_and_woken_at_it(self):
        lease_id = self.scheduled(count=2)
        self.world.run_until_idle(minutes=54)
        assert self.state(lease_id) == ('PENDING', ['pending'] * 2)
        self.assert_nothing_left()
        self.world.run_until_idle(minutes=1)
        self.look_around()
        assert self.servers() == [('web-1', 'RESERVED'), ('web-2', 'RESERVED')]
        self.world.run_until_idle(minutes=5)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert self.held_at() == {NOON + datetime.timedelta(hours=1)}

    def test_room_that_another_user_took_is_told_and_nothing_left(self):
        lease_id = self.scheduled(count=2)
        self.others(1)
        self.world.run_until_idle(minutes=55)
        self.look_around(10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        reason = self.world.lease(lease_id).status_reason
        assert 'No valid host was found' in reason
        assert 'there is too little VCPU on 1 host.' in reason
        assert self.servers() == [('other', 'ACTIVE')]
        assert self.used() == 1
        self.world.run_until_idle(minutes=10)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        self.world.operations.delete_lease(user(self.api.project_id, 'fake'), lease_id)
        self.look_around(2)
        assert self.state(lease_id)[0] == 'TERMINATED'

    def test_without_room_it_is_refused_until_a_lease_frees_some(self):
        self.lease(count=2)
        self.look_around()
        with pytest.raises(exceptions.NotEnough, match='too little VCPU on 1 host') as caught:
            self.scheduled(end='2026-12-01 13:30')
        assert caught.value.available_from == '2026-12-01T14:00:00.000000'
        assert caught.value.field == 'reservations[0].server'
        self.scheduled('2026-12-01 14:00', '2026-12-01 15:00')

    def test_other_scheduled_leases_take_their_room(self):
        self.scheduled(count=2)
        with pytest.raises(exceptions.NotEnough) as caught:
            self.scheduled('2026-12-01 13:30', '2026-12-01 14:30')
        assert caught.value.available_from == '2026-12-01T14:00:00.000000'
        self.scheduled('2026-12-01 14:00', '2026-12-01 15:00', count=2)

    def test_dates_change_only_if_they_will_find_room_then(self):
        owner = user(self.api.project_id, 'fake')
        lease_id, _ = self.scheduled(count=2), self.scheduled(END, '2026-12-01 15:00', count=2)
        for field, start, end in (
            ('end_date', START, '2026-12-01 14:30'),
            ('start_date', '2026-12-01 13:30', '2026-12-01 14:30'),
        ):
            with pytest.raises(exceptions.NotEnough, match='too little') as caught:
                self.world.operations.update_lease(
                    owner, lease_id, {'start_date': start, 'end_date': end}
                )
            assert caught.value.field == field
            assert caught.value.available_from == '2026-12-01T15:00:00.000000'
        earlier = {'start_date': '2026-12-01 12:30', 'end_date': '2026-12-01 13:30'}
        self.world.operations.update_lease(owner, lease_id, earlier)
        assert self.world.lease(lease_id).start_date == NOON + datetime.timedelta(minutes=30)

    def test_dry_run_says_whether_they_are_expected_to_find_room(self):
        self.others(1)
        kinds = ('immediate', 'scheduled', 'retry')
        for kind, (count, granted) in itertools.product(kinds, ((1, True), (2, False))):
            server = {'name': 'web', 'flavorRef': self.flavor['id'], 'imageRef': IMAGE}
            found = self.world.operations.check_lease(
                user(self.api.project_id, 'fake'),
                {
                    'name': 'lease',
                    'start_date': START,
                    'end_date': END,
                    'kind': kind,
                    'reservations': [
                        {'resource_type': 'virtual:instance', 'server': {**server, 'count': count}}
                    ],
                },
            )
            assert (found['granted'], found['waits']) == (granted, kind == 'retry' and not granted)
            assert granted or 'do not fit together' in found['refusals'][0]['error_message']
        assert self.servers() == [('other', 'ACTIVE')]


class TestRetry(SmallHostTest):
    def retry(self, more=None, **server):
        more = {'kind': 'retry', 'end_date': None, 'duration': '1h', **(more or {})}
        return self.lease(more=more, **server)

    def granted_too_late(self, **more):
        """Ask for two servers while there is room; return the lease and who is faster."""
        lease_id = self.retry(more, count=2)
        assert self.world.lease(lease_id).status == 'PENDING'
        return lease_id, self.others(1)[0]

    @kind_cell('Servers that are made for the lease', 'retry')
    def test_waits_until_there_is_room_and_is_made_then(self):
        first, _ = self.others(2)
        lease_id = self.retry(count=1)
        lease = self.world.lease(lease_id)
        assert (lease.status, {str(each.amounts) for each in lease.reservations}) == (
            'WAITING',
            {'{}'},
        )
        assert 'too little VCPU on 1 host' in lease.status_reason
        self.world.run_until_idle(minutes=5)
        assert self.world.lease(lease_id).status == 'WAITING'
        assert self.servers() == [('other', 'ACTIVE')] * 2
        self.delete(first)
        self.world.operations.queue.look()
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'])
        assert self.servers() == [('other', 'ACTIVE'), ('web', 'ACTIVE')]
        lease = self.world.lease(lease_id)
        assert lease.end_date - lease.start_date == datetime.timedelta(hours=1)
        assert lease.reservations[0].amounts['vcpus'] == 1
        assert self.held_at() == {lease.start_date}
        assert lease.start_date > lease.created_at

    def test_what_is_made_long_before_the_start_is_billed_from_when_it_is_made(self):
        lease_id = self.lease(START, more={'kind': 'retry', 'end_date': END}, count=1)
        self.look_around()
        assert (self.state(lease_id), self.servers()) == (
            ('PENDING', ['pending']),
            [('web', 'RESERVED')],
        )
        assert self.held_at() == {NOON}

    def test_with_room_it_does_not_wait(self):
        lease_id = self.retry(count=2)
        self.look_around()
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)

    def test_what_finds_no_room_after_the_grant_waits_again(self):
        lease_id, other = self.granted_too_late()
        self.look_around(6)
        lease = self.world.lease(lease_id)
        assert self.state(lease_id) == ('WAITING', ['pending'] * 2)
        assert 'No valid host was found' in lease.status_reason
        assert lease.retries_left == self.world.conf.queue.max_retries - 1
        assert not any(each.amounts for each in lease.reservations)
        assert self.servers() == [('other', 'ACTIVE')]
        assert self.used() == 1
        self.delete(other)
        self.world.run_until_idle(minutes=1)
        self.look_around()
        lease = self.world.lease(lease_id)
        assert self.state(lease_id) == ('ACTIVE', ['active'] * 2)
        assert (lease.end_date - lease.start_date, lease.retries_left) == (HOUR, None)
        assert lease.start_date > lease.created_at
        self.world.run_until_idle(hours=1)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_it_waits_as_often_as_it_may_be_tried(self):
        lease_id, _ = self.granted_too_late(max_retries=1)
        self.look_around(6)
        assert self.state(lease_id)[0] == 'WAITING'
        self.world.run_until_idle(minutes=1)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        assert 'as often as it was tried' in self.world.lease(lease_id).status_reason
        assert self.servers() == [('other', 'ACTIVE')]

    def test_it_fails_for_another_reason_at_once(self):
        lease_id = self.retry(count=2)
        with mock.patch.object(servers, 'create', side_effect=exceptions.Permanent('Quota.')):
            self.look_around(6)
        assert self.state(lease_id) == ('ERROR', ['error'] * 2)
        self.assert_nothing_left()

    def test_it_ends_while_what_was_made_is_freed(self):
        for looks in range(1, 8):
            lease_id, other = self.granted_too_late()
            for _ in range(looks):
                self.world.run()
            self.world.operations.end_lease(user(self.api.project_id, 'fake'), lease_id)
            self.look_around(20)
            assert self.state(lease_id)[0] == 'TERMINATED'
            assert self.servers() == [('other', 'ACTIVE')]
            self.delete(other)
            self.assert_nothing_left()

    def test_manager_that_dies_frees_what_it_made_and_waits_again(self):
        others = []

        def begin():
            lease_id = self.retry()
            others.extend(self.others(2))
            return lease_id

        def make_room():
            assert self.servers() == [('other', 'ACTIVE')] * 2
            while others:
                self.delete(others.pop())
            self.world.run_until_idle(minutes=5)
            self.look_around()

        self.die_at_each_request(begin, looks=6, make_room=make_room, step=4)

    def test_those_that_wait_are_granted_no_more_than_there_is(self):
        """A small one may pass a large one."""
        first, _ = self.others(2)
        waiting = []
        for count in (2, 1, 1):
            waiting.append(self.retry(count=count))
            self.time.forward(seconds=1)
        self.delete(first)
        self.world.operations.queue.look()
        self.look_around()
        found = [self.world.lease(each).status for each in waiting]
        assert found == ['WAITING', 'ACTIVE', 'WAITING']

    def test_a_small_one_passes_a_large_one_only_if_that_makes_it_no_later(self):
        """The large one has its room when a lease ends in an hour."""
        self.lease(more={'end_date': '2026-12-01 13:00'})
        self.look_around()
        waiting = []
        for count, lasts in ((2, '1h'), (1, '2h'), (1, '30m')):
            waiting.append(self.retry({'duration': lasts}, count=count))
            self.time.forward(seconds=1)
        self.world.operations.queue.look()
        self.look_around()
        found = [self.world.lease(each).status for each in waiting]
        assert found == ['WAITING', 'WAITING', 'ACTIVE']

    def test_cancelled_while_it_waits(self):
        self.others(2)
        lease_id = self.retry()
        self.world.operations.end_lease(user(self.api.project_id, 'fake'), lease_id)
        self.look_around(1)
        assert self.state(lease_id)[0] == 'TERMINATED'
        assert self.servers() == [('other', 'ACTIVE')] * 2
