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

    def test_reservation_goes_to_a_backend_with_the_extension(self):
        volume = self.assert_status(self.reserve(), 'lease-reserved')
        assert volume['os-vol-host-attr:host'] == 'host1@fake#pool'
        assert self.array.calls == []

    def test_ordinary_volume_goes_to_any_backend(self):
        volume = self.assert_status(self.volume_create(), 'available')
        assert volume['os-vol-host-attr:host'] == f'{OLD}#pool'

    def test_reserved_false_goes_to_any_backend(self):
        volume = self.volume_create({'reserved': 'False'})
        assert self.assert_status(volume, 'available')['os-vol-host-attr:host'] == f'{OLD}#pool'

    def test_reservation_without_a_backend_with_the_extension_is_error(self):
        service = objects.Service.get_by_args(self.ctxt, HOST, 'cinder-volume')
        service.disabled = True
        service.save()
        volume = self.assert_status(self.reserve(), 'error')
        assert self.array.calls == []
        assert 'weighted backend' in self.messages(volume)[0]['user_message']
        self.delete(volume)
        self.assert_gone(volume)
        assert self.quota_usage() == (0, 0)
        assert self.array.calls == []

    def test_reservation_that_does_not_fit_is_error(self):
        self.assert_status(self.reserve(size=200), 'error')
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


class TestWithoutTheFilter(CinderTest):
    """Shows that the tests above can fail."""

    def _extend(self):
        super()._extend()
        self.flags(scheduler_default_filters=['AvailabilityZoneFilter', 'CapacityFilter'])

    def test_without_the_filter_a_backend_without_the_extension_is_chosen(self):
        self.start_volume(OLD, manager=STOCK_MANAGER)
        self.array.pools = {OLD: {'pool': {'total_capacity_gb': 500, 'free_capacity_gb': 500}}}
        self.report()
        volume = self.reserve()
        assert self.array.calls == [('create_volume', volume['id'])]
