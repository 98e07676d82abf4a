# SPDX-License-Identifier: Apache-2.0
"""Which backends a reservation may land on."""

from cinder import objects

from tests.functional.cinder.base import HOST, STOCK_MANAGER, CinderTest

OLD = 'host2@old'


class TestMixedCloud(CinderTest):
    """host2 runs a cinder-volume without the extension, which would create a reservation."""

    def setUp(self):
        super().setUp()
        self.start_volume(OLD, manager=STOCK_MANAGER)
        # The old one has more room: cinder would take it first.
        self.array.pools = {OLD: {'pool': {'total_capacity_gb': 500, 'free_capacity_gb': 500}}}
        self.report()

    def test_only_a_backend_with_the_extension_takes_a_reservation(self):
        for hints in (None, {'reserved': 'False'}):
            volume = self.assert_status(self.volume_create(hints), 'available')
            assert volume['os-vol-host-attr:host'] == f'{OLD}#pool'
        self.array.calls.clear()
        volume = self.assert_status(self.reserve(), 'lease-reserved')
        assert volume['os-vol-host-attr:host'] == f'{HOST}#pool'
        # One that does not fit there, or finds none there, is in error.
        self.assert_status(self.reserve(size=200), 'error')
        assert self.array.calls == []
        usage = self.quota_usage()
        service = objects.Service.get_by_args(self.ctxt, HOST, 'cinder-volume')
        service.disabled = True
        service.save()
        volume = self.assert_status(self.reserve(), 'error')
        assert self.array.calls == []
        assert 'weighted backend' in self.messages(volume)[0]['user_message']
        self.delete(volume)
        self.assert_gone(volume)
        assert self.quota_usage() == usage
        assert self.array.calls == []


class TestNoSecondTry(CinderTest):
    """Cinder sends a volume that one backend cannot make to another: not one that is held."""

    HOSTS = (HOST, 'host2@fake')

    def test_failed_reservation_is_not_rescheduled(self):
        volume = self.reserve()
        held = volume['os-vol-host-attr:host']
        self.array.fail['create_volume'] = RuntimeError('no disk')
        self.bus.casts.clear()
        self.wake_up(volume)
        found = self.assert_status(volume, 'lease-reserved')
        assert found['os-vol-host-attr:host'] == held
        assert [topic for name, topic, _ in self.bus.casts if name == 'create_volume'] == [
            f'cinder-volume.{held.partition("#")[0]}'
        ]
        self.array.fail.clear()
        self.wake_up(volume)
        assert self.array.volumes == {volume['id']: held.partition('#')[0]}

    def test_failed_ordinary_volume_is_rescheduled(self):
        self.array.fail['create_volume'] = RuntimeError('no disk')
        volume = self.assert_status(self.volume_create(), 'error')
        calls = [topic for name, topic, _ in self.bus.casts if name == 'create_volume']
        assert len(calls) > 2, (calls, volume)
