# SPDX-License-Identifier: Apache-2.0
"""A reserved boot, from the hints to RESERVED, and what can be done with such a server."""

from nova import objects
from nova.tests.functional.api import client

from tests.functional.lease_service import refusal
from tests.functional.nova.base import SERVICE_TOKEN, NovaTest
from tests.support.kinds import kind_cell

#: Every action on servers of nova 34 that makes no sense before the start, with a body for it.
ACTIONS = {
    'reboot': {'type': 'HARD'},
    'os-start': None,
    'os-stop': None,
    'pause': None,
    'unpause': None,
    'suspend': None,
    'resume': None,
    'shelve': None,
    'shelveOffload': None,
    'unshelve': None,
    'resize': {'flavorRef': '2'},
    'confirmResize': None,
    'revertResize': None,
    'rebuild': {'imageRef': '155d900f-4e14-4e4c-a73d-069cbf4541e6'},
    'rescue': {},
    'unrescue': None,
    'createImage': {'name': 'image'},
    'createBackup': {'name': 'b', 'backup_type': 'daily', 'rotation': 1},
    'changePassword': {'adminPass': 'secret'},
    'restore': None,
    'migrate': None,
    'os-migrateLive': {'host': None, 'block_migration': 'auto'},
    'evacuate': {},
    'trigger_crash_dump': None,
}


class TestReserve(NovaTest):
    @kind_cell('Existing servers, volumes and stacks', 'immediate')
    def test_reserved_server_is_held_started_and_deleted(self):
        server = self.reserve()
        found = self.assert_status(server, 'RESERVED')
        assert found['OS-EXT-STS:vm_state'] == 'reserved'
        assert found['OS-EXT-STS:power_state'] == 0
        assert self.guests() == []
        held = self.allocations(server)
        assert len(held) == 1
        assert self.api.get_limits()['absolute']['totalInstancesUsed'] == 1

        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.guests() == [server['id']]
        assert held == self.allocations(server)

        self.delete(server)
        assert self.allocations(server) == {}
        assert self.guests() == []
        assert self.api.get_limits()['absolute']['totalInstancesUsed'] == 0

    def test_lease_is_created_with_the_token_and_request_id_of_the_user(self):
        seen = []

        def ask(request):
            for each in request.json['reservations']:
                seen.append(self.api.get_server(each['resource_id'])['status'])

        self.lease_service.on_post = ask
        server = self.reserve()
        self.assert_status(server, 'RESERVED')
        # The lease service can show the server meanwhile.
        assert seen == ['BUILD']
        (request,) = self.lease_service.requests
        assert request.headers['X-Auth-Token'] == 'token-of-fake'
        booted = self.api.api_get(f'/servers/{server["id"]}/os-instance-actions').body
        (action,) = [a for a in booted['instanceActions'] if a['action'] == 'create']
        # The id that nova logs the boot under is the one that the lease service logs, too.
        assert request.headers['X-Openstack-Request-Id'] == action['request_id']
        lease = self.lease_service.lease
        assert lease['name'] == 'lease1'
        assert lease['reservations'] == [
            {'resource_type': 'virtual:instance', 'resource_id': server['id']}
        ]

    def test_reserved_server_is_listed_by_its_status(self):
        server = self.reserve()
        other = self.boot()
        for api in (self.api, self.admin_api):
            found = api.get_servers(search_opts={'status': 'RESERVED'})
            assert [each['id'] for each in found] == [server['id']]
            found = api.get_servers(search_opts={'status': 'ACTIVE'})
            assert [each['id'] for each in found] == [other['id']]
        assert {each['status'] for each in self.api.get_servers()} == {'RESERVED', 'ACTIVE'}

    def test_action_on_a_reserved_server_is_409(self):
        server = self.reserve()
        for action, body in ACTIONS.items():
            with self.subTest(action=action):
                self.admin_api.api_post(
                    f'/servers/{server["id"]}/action', {action: body}, check_response_status=[409]
                )
        self.admin_api.api_post(
            f'/servers/{server["id"]}/os-volume_attachments',
            {'volumeAttachment': {'volumeId': self.cinder.IMAGE_BACKED_VOL}},
            check_response_status=[409],
        )
        (service,) = self.admin_api.get_services(binary='nova-compute')
        self.admin_api.api_delete(f'/os-services/{service["id"]}', check_response_status=[409])
        self.assert_status(server, 'RESERVED')
        assert self.guests() == []
        self.wake_up(self.boot(), status=409)

    def test_capacity_is_held_until_the_delete_that_is_notified(self):
        flavor = {'name': 'big', 'ram': 6144, 'vcpus': 1, 'disk': 1, 'id': 'big'}
        self.admin_api.post_flavor({'flavor': flavor})
        server = self.reserve(flavorRef='big')
        other = self.boot(flavorRef='big')
        assert 'No valid host' in self.assert_status(other, 'ERROR')['fault']['message']
        self.notifier.reset()
        self.delete(server)
        (start,) = self.notifier.wait_for_versioned_notifications('instance.delete.start')
        assert start['payload']['nova_object.data']['state'] == 'reserved'
        self.assert_status(self.boot(flavorRef='big'), 'ACTIVE')

    def test_soft_delete_and_force_delete_leave_nothing(self):
        self.flags(reclaim_instance_interval=3600)
        for force in (False, True):
            with self.subTest(force=force):
                server = self.reserve(networks=self.network())
                if force:
                    self.api.post_server_action(server['id'], {'forceDelete': None})
                    self._wait_until_deleted(server)
                else:
                    self.delete(server)
                assert self.allocations(server) == {}
                assert self.ports(server) == []

    def test_servers_of_one_request_share_a_lease(self):
        answer = self.post(
            {'reserved': 'True', 'lease_params': '{"name": "three"}'},
            min_count=3,
            max_count=3,
            return_reservation_id=True,
        )
        assert answer.body['reservation_id']
        servers = self.api.get_servers()
        assert [each['status'] for each in servers] == ['RESERVED'] * 3
        held = {each['resource_id'] for each in self.lease_service.lease['reservations']}
        assert held == {each['id'] for each in servers}


class TestRefusedLease(NovaTest):
    def failed(self, server, *words):
        fault = self.assert_status(server, 'ERROR')['fault']['message']
        for word in words:
            assert word in fault, fault
        assert self.allocations(server) == {}
        assert self.instance(server).host is None
        assert self.guests() == []
        assert self.ports(server) == []
        (node,) = objects.ComputeNodeList.get_all(self.ctxt)
        assert (node.vcpus_used, node.running_vms) == (0, 0)

    def boot_with_port(self):
        return self.boot({'reserved': 'True'}, networks=self.network())

    def test_refusal_and_outage_are_the_fault_of_the_server(self):
        for status, reason, requests, *words in [
            (403, 'Your project has no leases left', 1),
            (503, 'maintenance', 4, 'lease service', '503'),
        ]:
            with self.subTest(status=status):
                self.lease_service.requests.clear()
                self.lease_service.answer = refusal(status, reason)
                self.failed(self.boot_with_port(), *(words or [reason]))
                assert len(self.lease_service.requests) == requests
        self.flags(endpoint_override='http://127.0.0.1:9/v1', group='climate')
        self.failed(self.boot_with_port(), 'lease service')

    def test_lost_answer_of_the_lease_service_is_requested_again(self):
        self.lease_service.fail_first_request()
        self.assert_status(self.boot_with_port(), 'RESERVED')
        assert len(self.lease_service.requests) == 2
        assert len(self.lease_service.lease['reservations']) == 1
        # A refusal keeps a port of the user.
        self.lease_service.answer = refusal(409, 'no')
        self.lease_service.on_post = lambda request: None
        port = self.neutron.port_1
        server = self.boot({'reserved': 'True'}, networks=[{'port': port['id']}])
        self.assert_status(server, 'ERROR')
        assert not self.neutron.show_port(port['id'])['port'].get('device_id')


class TestWakeUpPolicy(NovaTest):
    def setUp(self):
        super().setUp()
        self.server = self.reserve()

    def test_only_the_service_with_the_trust_of_the_owner_can(self):
        self.wake_up(self.server, api=self.api, status=403)
        other = client.TestOpenStackClient(
            'other', self.api_fixture.base_url, project_id='other', roles=['reader', 'member']
        )
        other.microversion = self.microversion
        self.wake_up(self.server, api=other, status=404, headers=dict(SERVICE_TOKEN))
        self.assert_status(self.server, 'RESERVED')
        self.wake_up(self.server, api=self.api, headers=dict(SERVICE_TOKEN))
        self.assert_status(self.server, 'ACTIVE')

    def test_wrong_body_is_400_and_no_such_server_404(self):
        for body in ({'now': True}, 'yes'):
            self.wake_up(self.server, body=body, status=400)
        self.wake_up({'id': '11111111-2222-3333-4444-555555555555'}, status=404)
        self.wake_up(self.server, body={})

    def test_locked_server_is_409_but_for_an_administrator_who_wakes_it_once(self):
        self.api.post_server_action(self.server['id'], {'lock': None})
        answer = self.wake_up(self.server, api=self.api, status=409, headers=dict(SERVICE_TOKEN))
        assert 'locked' in answer.body['conflictingRequest']['message']
        self.api.api_delete(f'/servers/{self.server["id"]}', check_response_status=[409])
        self.assert_status(self.server, 'RESERVED')
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        self.wake_up(self.server, status=409)
        assert self.guests() == [self.server['id']]
        actions = [each['action'] for each in self.api.get_instance_actions(self.server['id'])]
        assert actions[0] == 'wake_up'
        assert actions.count('wake_up') == 1
        other = self.reserve()
        for action in ('lock', 'unlock'):
            self.api.post_server_action(other['id'], {action: None})
        self.wake_up(other, api=self.api, headers=dict(SERVICE_TOKEN))
