# SPDX-License-Identifier: Apache-2.0
"""Servers that the lease service makes for a lease, by a real engine in a real nova."""

import fixtures
import pytest
from nova.conductor.api import ComputeTaskAPI

from climate_core import exceptions
from climate_core.plugins import provisioned_plugin
from climate_core.plugins.server import ServerPlugin
from tests.functional.nova.made_servers import HOST, SCRIPT, START, MadeServersTest
from tests.support.kinds import kind_cell
from tests.support.world import user


class TestMadeServers(MadeServersTest):
    @kind_cell('New servers', 'immediate')
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
        assert '(1 VCPUs, 512 MB of memory, 1 GB of disk) could not be created: ' in reason
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
            self.time.forward(seconds=provisioned_plugin.IN_FLIGHT_SECONDS)
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
        assert 'DELETED, and Nova still has it' in told
        self.world.run_until_idle(minutes=6)
        self.look_around()
        assert self.state(lease_id)[0] == 'TERMINATED'
        self.assert_nothing_left()

    def test_server_whose_image_the_policy_of_nova_forbids_is_deleted_at_its_end(self):
        self.useFixture(
            fixtures.MonkeyPatch('climate_core.cloud.servers.find_image', lambda *_: None)
        )
        self.policy.set_rules({'os_compute_api:servers:create_image': '!'}, overwrite=False)
        lease_id = self.lease(ending={'on_end': 'create_image'})
        self.look_around()
        self.world.run_until_idle(hours=2)
        assert self.state(lease_id)[0] == 'TERMINATING'
        assert 'Nova answered 403' in self.world.lease(lease_id).status_reason
        self.world.run_until_idle(hours=2)
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
