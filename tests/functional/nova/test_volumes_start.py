# SPDX-License-Identifier: Apache-2.0
"""Servers with volumes that are reserved in their lease: the start, the end, and what it costs."""

import fixtures
from nova import objects, rpc
from nova.compute import manager

from tests.functional import cost
from tests.functional.lease_service import refusal
from tests.functional.nova.pool import LOOKUP
from tests.functional.nova.reserved_volumes import (
    DATA,
    HELD,
    ON_THE_HOST,
    ORDINARY,
    ROOT,
    VolumesTest,
    disk,
)


def _die(*args):
    raise RuntimeError('killed')


class TestWake(VolumesTest):
    def setUp(self):
        super().setUp()
        self.server = self.join(disk(ROOT, 0), disk(DATA))

    def refuse(self, *words):
        answer = self.wake_up(self.server, status=409)
        message = answer.body['conflictingRequest']['message']
        for word in words:
            assert word in message, message
        self.assert_status(self.server, 'RESERVED')
        assert self.spawned.calls == []

    def test_wake_up_before_each_volume_can_be_attached_is_409(self):
        for status in (HELD, 'creating', 'downloading', 'error'):
            with self.subTest(status=status):
                self.volumes.statuses[ROOT] = status
                self.refuse(ROOT, status)
                self.assert_waits(self.server)
        self.awake(ROOT)
        for _ in range(2):
            self.refuse(DATA, HELD)
            assert self.attached(self.server) == [ROOT]
        # Another server has it, or reserves it; or it is deleted.
        self.volumes.statuses[DATA] = 'in-use'
        self.refuse(DATA, 'in-use')
        self.cinder.create_vol_attachment(DATA, 'another-server')
        self.volumes.statuses[DATA] = 'reserved'
        self.refuse(DATA, 'reserved')
        self.cinder.delete_vol_attachment(DATA)
        self.volumes.gone.add(DATA)
        self.refuse(DATA, 'could not be found')
        self.volumes.gone.clear()
        self.assert_wakes(self.server, ROOT, DATA)
        assert len(self.cinder.attachment_ids_for_instance(self.server['id'])) == 2
        self.wake_up(self.server, status=409)
        assert self.attached(self.server) == [ROOT, DATA]
        assert len(self.spawned.calls) == 1

    def test_attachment_of_a_broken_wake_up_is_used(self):
        """Cinder has made the attachment, and nobody lived to note its id."""
        self.awake(ROOT, DATA)
        with fixtures.MonkeyPatch('nova.objects.BlockDeviceMapping.save', _die):
            self.wake_up(self.server, status=500)
        assert self.attached(self.server) == [ROOT]
        self.assert_status(self.server, 'RESERVED')
        self.volumes.statuses[ROOT] = 'reserved'
        self.wake_up(self.server)
        self.assert_status(self.server, 'ACTIVE')
        assert self.disks() == self.attached(self.server) == [ROOT, DATA]
        assert len(self.cinder.attachment_ids_for_instance(self.server['id'])) == 2

    def test_volume_that_is_reserved_for_nobody_is_attached(self):
        """Cinder's database stopped before the attachment was written."""
        self.awake(ROOT, DATA)
        self.volumes.statuses[DATA] = 'reserved'
        self.assert_wakes(self.server, ROOT, DATA)

    def test_volumes_are_attached_after_a_restart_and_kept_by_a_failed_start(self):
        self.restart()
        self.spawned = self.spy_on('host1')
        self.assert_waits(self.server)
        self.awake(ROOT, DATA)
        self.spawned.fail_with = RuntimeError('the array is on fire')
        self.wake_up(self.server)
        found = self.assert_status(self.server, 'RESERVED')
        assert 'on fire' in found['fault']['message']
        assert self.attached(self.server) == [ROOT, DATA]
        self.spawned.fail_with = None
        self.assert_wakes(self.server, ROOT, DATA)


class TestDelete(VolumesTest):
    COMPUTES = ('host1', 'host2')

    def remove(self, server):
        """Delete it; give what was asked of cinder."""
        del self.volumes.calls[:]
        self.delete(server)
        return [call for call in self.volumes.calls if call[0] != 'get']

    def test_delete_before_the_start_asks_cinder_only_to_delete_on_termination(self):
        server = self.join(disk(ROOT, 0), disk(DATA))
        assert self.remove(server) == []
        assert self.allocations(server) == {}
        self.assert_waits(self.join(disk(ROOT, 0)))
        self.delete(self.api.get_servers()[0])
        server = self.join(disk(ROOT, 0), disk(ORDINARY))
        assert self.remove(server) == []
        assert self.attached(server) == []
        server = self.join(disk(ROOT, 0, delete_on_termination=True), disk(DATA))
        assert self.remove(server) == [('delete', ROOT)]

    def test_delete_shuts_down_the_other_disks(self):
        server, real, disks = self.join(disk(DATA)), manager.ComputeManager._shutdown_instance, []

        def note(manager, context, instance, bdms, *args, **kwargs):
            disks.extend(bdm.source_type for bdm in bdms)
            real(manager, context, instance, bdms, *args, **kwargs)

        with fixtures.MonkeyPatch('nova.compute.manager.ComputeManager._shutdown_instance', note):
            self.delete(server)
        assert disks == ['image']

    def test_delete_does_not_detach_a_volume_from_another_server(self):
        """Nova would tell cinder to detach it, without saying from whom."""
        for host in (None, 'host1'):
            with self.subTest(lost=host):
                server = self.join(disk(DATA))
                self.awake(DATA)
                self.cinder.create_vol_attachment(DATA, 'another-server')
                if host:
                    self.lose(self.show(server)['OS-EXT-SRV-ATTR:host'])
                assert self.remove(server) == []
                self.cinder.delete_vol_attachment(DATA)
                self.volumes.statuses[DATA] = HELD

    def test_delete_while_the_host_is_lost_or_none_is_left_deletes_the_volume(self):
        disks = (disk(ROOT, 0, delete_on_termination=True), disk(DATA))
        # Nova sends it, and has forgotten it in this list of its own tests.
        allowed = rpc.LegacyValidatingNotifier.allowed_legacy_notification_event_types
        new = [*allowed, *(f'compute.instance.force_delete.{end}' for end in ('start', 'end'))]
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.rpc.LegacyValidatingNotifier.allowed_legacy_notification_event_types', new
            )
        )
        for force in (False, True):
            server = self.join(*disks)
            host = self.show(server)['OS-EXT-SRV-ATTR:host']
            self.lose(host)
            del self.volumes.calls[:]
            if force:
                self.api.post_server_action(server['id'], {'forceDelete': None})
                self._wait_until_deleted(server)
            else:
                self.delete(server)
            assert [call for call in self.volumes.calls if call[0] != 'get'] == [('delete', ROOT)]
            self.volumes.gone.clear()
            self.lose(host, False)
        for host in self.computes:
            self.lose(host)
        server = self.join(*disks)
        self.assert_status(server, 'ERROR')
        assert self.remove(server) == [('delete', ROOT)]

    def test_refused_lease_frees_and_deletes_the_volumes(self):
        def full(request):
            self.lease_service.answer = refusal(403, 'Too many')

        self.lease_service.on_post = full
        disks = (disk(ROOT, 0), disk(DATA, delete_on_termination=True), disk(ORDINARY))
        server = self.join(*disks)
        found = self.assert_status(server, 'ERROR')
        assert self.attached(server) == []
        listed = found['os-extended-volumes:volumes_attached']
        assert sorted(each['id'] for each in listed) == [ROOT, ORDINARY]
        # Nova takes back what a build had; another server may have these volumes by now.
        assert self.volumes.made('terminate_connection') == self.volumes.made('detach') == []
        assert self.volumes.made('delete') == [DATA]
        assert self.remove(server) == []

    def test_attachment_of_an_old_release_is_detached(self):
        """A server of a release before attachments had ids."""
        for lost in (False, True):
            with self.subTest(lost=lost):
                self.check_old_attachment(lost)
                self.cinder.delete_vol_attachment(ORDINARY)

    def check_old_attachment(self, lost):
        server = self.boot(block_device_mapping_v2=[ON_THE_HOST, disk(ORDINARY)])
        instance = self.instance(server)
        bdms = objects.BlockDeviceMappingList.get_by_instance_uuid(self.ctxt, instance.uuid)
        (bdm,) = [each for each in bdms if each.is_volume]
        bdm.attachment_id = None
        bdm.save()
        if lost:
            self.lose(instance.host)
        # Only nova-compute knows how it was connected.
        ways = ['detach'] if lost else ['terminate_connection', 'detach']
        assert self.remove(server) == [(way, ORDINARY) for way in ways]
        assert self.volumes.detached.pop() == (ORDINARY, server['id'], None)


class TestElsewhere(VolumesTest):
    COMPUTES = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.drivers = {host: self.spy_on(host) for host in self.computes}

    def test_volume_goes_with_the_server_to_another_host(self):
        server = self.join(disk(ROOT, 0))
        lost = self.show(server)['OS-EXT-SRV-ATTR:host']
        self.lose(lost)
        answer = self.wake_up(server, status=409)
        assert HELD in answer.body['conflictingRequest']['message']
        (other,) = set(self.computes) - {lost}
        self.spawned = self.drivers[other]
        self.assert_wakes(server, ROOT)
        self.lose(lost, False)
        self.restart(lost)
        assert self.attached(server) == [ROOT]


class TestReschedule(VolumesTest):
    COMPUTES = ('host1', 'host2')
    # The second build waits for the lock of the first.
    IN_ONE_THREAD = False

    def test_full_host_passes_the_volume_to_the_next(self):
        """Nova tries the next, and looks after attachments on the way."""
        refused = self.refuse_first_claim()
        spawned = {host: self.spy_on(host) for host in self.computes}
        server = self.join(disk(ROOT, 0))
        self._wait_for_state_change(server, 'RESERVED')
        assert self.attached(server) == []
        taken = self.show(server)['OS-EXT-SRV-ATTR:host']
        assert [taken] != refused
        self.awake(ROOT)
        self.wake_up(server)
        self._wait_for_state_change(server, 'ACTIVE')
        self.spawned = spawned[taken]
        assert self.disks() == self.attached(server) == [ROOT]


class TestCost(VolumesTest):
    HAS_PERIODIC_TASKS = False

    def ordinary(self):
        """Boot and delete a server with a volume twice: caches are filled by the first.

        :returns: how many SQL statements of nova the boot has, and what was asked of cinder until
            the end
        """
        for _ in range(2):
            del self.volumes.calls[:]
            with cost.counted() as (sql, _):
                server = self.boot(block_device_mapping_v2=[ON_THE_HOST, disk(ORDINARY)])
            self.assert_status(server, 'ACTIVE')
            self.delete(server)
        own = [each for each in sql if each.split() != LOOKUP.split()]
        return len(own), list(self.volumes.calls)

    def test_ordinary_volume_costs_what_it_costs_in_stock_nova(self):
        ours = self.ordinary()
        self.become_stock_nova()
        assert ours == self.ordinary()
        assert ('attachment_create', ORDINARY) in ours[1]
        assert self.lease_service.requests == []
