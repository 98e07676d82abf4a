# SPDX-License-Identifier: Apache-2.0
"""Servers with volumes that are reserved in their lease: whose are taken, whose are refused."""

import json

import fixtures
from nova import exception, objects

from tests.functional.lease_service import refusal
from tests.functional.nova.reserved_volumes import (
    DATA,
    HELD,
    LEASE,
    ORDINARY,
    OTHER,
    ROOT,
    VolumesTest,
    disk,
)


class TestAccepted(VolumesTest):
    def check(self, server, *volumes):
        self.assert_waits(server)
        assert self.volumes.made('attachment_create') == []
        self.assert_wakes(server, *volumes)
        self.delete(server)
        assert self.attached(server) == []
        assert self.volumes.made('detach') == self.volumes.made('terminate_connection') == []
        del self.volumes.calls[:]

    def test_reserved_volumes_are_accepted(self):
        self.compute.manager.driver.capabilities['supports_device_tagging'] = True
        lease = self.lease_service.leases[LEASE]
        again = {'id': LEASE, 'name': 'l', 'start': lease['start_date'], 'end': lease['end_date']}
        for disks, hints in (
            ([disk(ROOT, 0)], None),
            ([disk(DATA)], None),
            ([disk(ROOT, 0), disk(DATA)], None),
            ([disk(DATA, tag='data')], None),
            # The hints of the lease, repeated.
            ([disk(ROOT, 0)], {'lease_params': json.dumps(again)}),
        ):
            with self.subTest(disks=disks, hints=hints):
                server = self.join(*disks, hints=hints)
                reservation = self.lease_service.lease['reservations'][-1]
                assert reservation['resource_id'] == server['id']
                self.check(server, *(each['uuid'] for each in disks))
                self.volumes.statuses |= {ROOT: HELD, DATA: HELD}
        self.api.microversion = self.admin_api.microversion = '2.1'
        mapping = [{'device_name': '/dev/vda', 'volume_id': ROOT}]
        server = self.boot(
            {'lease_id': LEASE}, imageRef='', networks=None, block_device_mapping=mapping
        )
        self.check(server, ROOT)

    def test_ordinary_volume_beside_a_reserved_one_is_attached(self):
        server = self.join(disk(ORDINARY, 0), disk(DATA))
        self.assert_status(server, 'RESERVED')
        assert self.attached(server) == [ORDINARY]
        self.awake(DATA)
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')
        assert self.disks() == sorted([ORDINARY, DATA])

    def test_volume_that_is_being_created_is_accepted(self):
        """The lease is starting: cinder would attach a volume whose image is still copied."""
        for status in ('creating', 'downloading'):
            with self.subTest(status=status):
                self.volumes.statuses[DATA] = status
                server = self.join(disk(DATA))
                self.assert_waits(server)
                self.delete(server)

    def test_volume_of_the_lease_that_exists_is_attached(self):
        server = self.join(disk(ROOT, 0))
        (found,) = self.show(server)['os-extended-volumes:volumes_attached']
        assert found['id'] == ROOT
        assert self.api.get_server_volumes(server['id']) == []
        self.api.microversion = '2.88'
        (found,) = self.api.get_server_volumes(server['id'])
        assert found['volumeId'] == ROOT
        self.api.microversion = self.microversion
        self.delete(server)
        self.awake(ROOT)
        server = self.join(disk(ROOT, 0))
        self.assert_status(server, 'RESERVED')
        assert self.attached(server) == [ROOT]
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')


class TestRefused(VolumesTest):
    def check(self, volume, *words, **kwargs):
        """Check that the answer is 400 with these words, and that there is nothing."""
        for number, given in enumerate([disk(volume, 0), disk(volume)]):
            with self.subTest(disk=number):
                message = self.join(given, status=400, **kwargs)
                for word in (volume, HELD, 'hint lease_id=..., the lease of the volume', *words):
                    assert word in message, message
        assert self.api.get_servers() == []
        assert len(objects.BuildRequestList.get_all(self.ctxt)) == 0
        (lease,) = self.lease_service.leases.values()
        assert all(each['resource_type'] == 'virtual:volume' for each in lease['reservations'])

    def test_volume_of_no_or_another_lease_is_400(self):
        for hints in ({}, {'reserved': 'False'}):
            self.check(ROOT, 'Create the server with', hints=hints)
        for hints in ({'reserved': 'True'}, {'lease_params': json.dumps({'name': 'l'})}):
            self.check(ROOT, 'These hints make a new lease', 'instead', hints=hints)
        self.check(OTHER, f'not in lease {LEASE}')
        # Only reservations of volumes count, and only those that did not leave the lease.
        (first, _) = self.lease_service.lease['reservations']
        first['resource_type'] = 'virtual:instance'
        assert f'not in lease {LEASE}' in self.join(disk(ROOT, 0), status=400)
        for status in ('deleting', 'deleted'):
            with self.subTest(status=status):
                self.make_lease(LEASE, ROOT, status=status)
                self.check(ROOT, f'not in lease {LEASE}')

    def test_other_refusals_are_answered(self):
        self.volumes.statuses[ORDINARY] = 'backing-up'
        for hints in ({}, {'lease_id': LEASE}):
            message = self.join(disk(ORDINARY), hints=hints, status=400)
            assert 'the current status is backing-up' in message
            assert 'lease_id' not in message
        self.lease_service.answer = refusal(500, 'broken')
        assert 'lease service' in self.join(disk(ROOT, 0), status=503)
        self.lease_service.answer = None
        self.volumes.gone.add(ROOT)
        assert ROOT in self.join(disk(ROOT, 0), status=400)
        assert self.api.get_servers() == []
        server = self.boot()
        answer = self.api.api_post(
            f'/servers/{server["id"]}/os-volume_attachments',
            {'volumeAttachment': {'volumeId': DATA}},
            check_response_status=[400],
        )
        assert HELD in answer.body['badRequest']['message']


class TestTwoServers(VolumesTest):
    """Without an attachment cinder does not know that a volume is taken."""

    NUMBER_OF_CELLS = 2
    CELLS = ('cell1', 'cell2')

    def _setup_compute_service(self):
        for number, cell in enumerate(self.CELLS, 1):
            self._start_compute(f'host{number}', cell_name=cell)
        return self.computes['host1']

    def test_second_server_with_a_volume_is_400_in_any_cell(self):
        """In whatever cell the first is, or in none yet."""
        for host in self.computes:
            with self.subTest(host=host):
                others = [each for each in self.computes if each != host]
                for each in others:
                    self.lose(each)
                server = self.join(disk(ROOT, 0))
                assert self.assert_status(server, 'RESERVED')['OS-EXT-SRV-ATTR:host'] == host
                message = self.join(disk(ROOT, 0), status=400)
                assert server['id'] in message
                assert ROOT in message
                self.delete(server)
                for each in others:
                    self.lose(each, False)
        # A cell that does not answer keeps nobody from a volume: wake_up still looks.
        with fixtures.MonkeyPatch('nova_ext.api.volumes._in_cell', _silent):
            server = self.join(disk(ROOT, 0))
        self.assert_waits(server)
        self.delete(server)
        # Nor does a server without a host.
        for host in self.computes:
            self.lose(host)
        self.assert_status(self.join(disk(ROOT, 0)), 'ERROR')
        self.lose('host1', False)
        server = self.join(disk(ROOT, 0))
        self.assert_waits(server)
        self.delete(server)
        with fixtures.MonkeyPatch(
            'nova.conductor.api.ComputeTaskAPI.schedule_and_build_instances', lambda *a, **k: None
        ):
            server = self.join(disk(ROOT, 0))
        assert server['id'] in self.join(disk(ROOT), status=400)
        self.assert_waits(self.join(disk(DATA)))

    def test_multiattach_volume_is_taken_by_many_servers(self):
        many = self.cinder.MULTIATTACH_VOL
        self.volumes.statuses[many] = HELD
        self.make_lease(LEASE, many)
        self.compute.manager.driver.capabilities['supports_multiattach'] = True
        self.lose('host2')
        servers = [self.join(disk(many)) for _ in range(2)]
        self.awake(many)
        for server in servers:
            self.wake_up(server)
            self.assert_status(server, 'ACTIVE')
            assert self.attached(server) == [many]

    def test_second_of_two_simultaneous_servers_is_409_at_its_start(self):
        """The second to start says why it cannot."""
        first = self.join(disk(ROOT, 0))
        with fixtures.MonkeyPatch('nova_ext.api.volumes._waiting', lambda *args: iter(())):
            second = self.join(disk(ROOT, 0))
        self.awake(ROOT)
        self.wake_up(first)
        answer = self.wake_up(second, status=409)
        message = answer.body['conflictingRequest']['message']
        assert ROOT in message
        assert 'in-use' in message
        self.assert_waits(second)


def _silent(*args):
    raise exception.CellTimeout()
