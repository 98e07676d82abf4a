# SPDX-License-Identifier: Apache-2.0
"""A creation that is lost at the start of a lease is begun anew, or given up with a reason."""

import datetime
from types import SimpleNamespace
from unittest import mock

import fixtures
import pytest

from climate_core import exceptions
from climate_core.cloud import volumes
from climate_core.plugins import volume_recovery
from climate_core.plugins.step_context import START, Progress, StepContext
from climate_core.plugins.volume import VolumePlugin
from tests.functional.cinder.lease_service import LeaseServiceTest
from tests.functional.cinder.rpc import Killed
from tests.functional.cinder.users import ADMIN, CLIMATE
from tests.functional.cinder.woken import WakeUpTest, make_backup
from tests.support import leases

BACKUP_HOST = 'cinder.backup.api.API.get_available_backup_service_host'
#: Looks in a row until it is sure that Cinder refuses to repeat a wake-up.
REPEATS = 4


class TestLostCreation(LeaseServiceTest, WakeUpTest):
    def setUp(self):
        super().setUp()
        self.now = datetime.datetime(2082, 12, 1, tzinfo=datetime.UTC)
        self.progress = None
        self.options = SimpleNamespace(
            **{each.dest: each.default for each in volume_recovery.RECOVERY_OPTIONS}
        )
        self.cloud = mock.Mock(service=lambda: ADMIN)
        self.plugin = VolumePlugin(mock.Mock(), self.cloud)

    def look(self, made, seconds=0):
        """Look at the start of the volume, so many seconds later than the last time."""
        self.now += datetime.timedelta(seconds=seconds)
        one = leases.reservation(made['id'])
        progress = Progress.load(self.progress, START, self.now)
        context = StepContext(
            CLIMATE, self.cloud, leases.lease(one), one, progress, self.now, self.options
        )
        try:
            wait = self.plugin._wake(context, volumes.get(CLIMATE, made['id']))
        except exceptions.PluginFailure as exc:
            self.progress = exc.progress
            raise
        self.progress = wait and wait.progress
        return wait

    def look_until_begun(self, made):
        """Look as often as a wake-up is repeated; Cinder refuses that."""
        for _ in range(REPEATS):
            wait = self.look(made, self.options.lost_wake_up_seconds)
            assert wait.repair is None
        self.assert_status(made, 'creating')

    def assert_reset(self, made, minutes):
        """Let a limit pass: half of it is told, and then the status is reset."""
        self.look_until_begun(made)
        told = self.look(made, 30 * minutes).reason
        assert f'It counts as lost after {minutes} minutes' in told
        wait = self.look(made, 30 * minutes)
        assert (wait.repair, 'it is recreated' in wait.reason) == ('reset_status', True)
        self.assert_status(made, 'error')

    def test_creation_whose_end_was_not_written_is_begun_anew(self):
        made = self.reserve(size=3)
        self.array.fail['create_volume'] = Killed()
        self.array.half_made.add('create_volume')
        self.look(made)
        self.array.fail.clear()
        self.assert_reset(made, self.options.lost_copy_minutes)
        self.look(made)
        self.assert_status(made, 'available')
        assert self.look(made) is None
        assert self.array.volumes.keys() == {made['id']}

    def test_restore_that_cinder_backup_lost_is_begun_anew(self):
        self.array.restores_backups = False
        self.useFixture(fixtures.MonkeyPatch(BACKUP_HOST, lambda *args: 'backup1'))
        made = self.reserve(backup_id=make_backup(self).id)
        self.look(made)
        self.assert_reset(made, self.options.lost_copy_minutes)
        self.array.restores_backups = True
        self.look(made)
        assert self.look(made) is None

    def test_creation_that_is_lost_each_time_is_given_up(self):
        made = self.reserve()
        self.array.fail['create_volume'] = Killed()
        self.look(made)
        for _ in range(volume_recovery.MAX_TRIES):
            self.assert_reset(made, self.options.lost_copy_minutes)
            self.look(made)
        self.look_until_begun(made)
        with pytest.raises(exceptions.Permanent, match='logs of cinder-volume and cinder-backup'):
            self.look(made, 60 * self.options.lost_copy_minutes)

    def test_reservation_that_no_backend_has_is_given_up(self):
        self.bus.lost.add(('cinder-scheduler', 'create_volume'))
        made = self.reserve()
        assert self.look(made).repair is None
        self.assert_reset(made, self.options.lost_build_minutes)
        with pytest.raises(exceptions.Permanent, match='could not be created'):
            self.look(made)
