# SPDX-License-Identifier: Apache-2.0
"""A wake_up that fails in cinder-api, and a cinder.conf that is not complete."""

from unittest import mock

import fixtures
import oslo_messaging
import pytest
from cinder import volume as cinder_volume
from cinder.api import extensions
from cinder.volume import api
from taskflow.types import failure

from cinder_ext import reservation_marker, seams
from cinder_ext.api import volumes
from climateclient.extension.errors import Incompatible
from tests.functional.cinder.base import CinderTest

CREATE = 'cinder.volume.rpcapi.VolumeAPI.create_volume'


class TestWakeUp(CinderTest):
    def setUp(self):
        super().setUp()
        self.volume = self.reserve()

    def fail(self, error, status, before=lambda: None):
        """Wake up without a message bus; gives the answer."""

        def raise_it(*args, **kwargs):
            before()
            raise error

        with fixtures.MonkeyPatch(CREATE, raise_it):
            return self.wake_up(self.volume, status=status)

    def test_outage_of_the_bus_is_503_and_the_volume_stays_as_it_was(self):
        error = oslo_messaging.MessageDeliveryFailure('no way to mq.internal:5672')
        shown = self.fail(error, 503)['serviceUnavailable']['message']
        assert 'a service does not answer' in shown
        assert 'mq.internal' not in shown
        self.assert_status(self.volume, 'lease-reserved')
        assert reservation_marker.get_state(self.ctxt, self.row(self.volume)) == 'held'
        self.fail(OSError('disk full'), 500)
        self.assert_status(self.volume, 'lease-reserved')
        self.write(self.volume, status='error')
        self.fail(oslo_messaging.MessagingTimeout('late'), 503)
        self.assert_status(self.volume, 'error')
        self.wake_up(self.volume)
        self.assert_status(self.volume, 'available')

    def test_message_that_arrived_despite_the_error_is_not_undone(self):
        """What cinder-volume has done by then is not undone."""
        error = oslo_messaging.MessageDeliveryFailure('no confirmation')
        self.fail(error, 503, lambda: self.write(self.volume, status='available'))
        self.assert_status(self.volume, 'available')

    def test_volume_deleted_meanwhile_is_409(self):
        real = reservation_marker.get
        late = fixtures.MonkeyPatch(
            'cinder_ext.reservation_marker.get', lambda *args: delete(*args)
        )

        def delete(context, volume):
            late.cleanUp()
            found = real(context, volume)
            self.delete(self.volume)
            return found

        with late:
            self.wake_up(self.volume, status=409)
        self.assert_gone(self.volume)


class TestLease(CinderTest):
    def test_failure_of_the_lease_service_has_no_long_chain_of_causes(self):
        """It writes a failure and all its causes again for each cause: that doubles with each."""
        self.flags(endpoint_override='http://127.0.0.1:9/v1', group='climate')
        written = []
        real = failure.Failure.to_dict

        def note(self, *args, **kwargs):
            written.append(self)
            return real(self, *args, **kwargs)

        with mock.patch.object(failure.Failure, 'to_dict', new=note):
            self.reserve(status=503)
        assert 0 < len(written) < 20
        assert not any(each.causes for each in written)


class TestSettings(CinderTest):
    def test_cinder_conf_without_a_class_is_refused_at_the_start(self):
        """Our action is loaded, and cinder's own API would create the volume at once."""
        for option, line in [
            ('volume_api_class', 'cinder_ext.api.volumes.API'),
            ('backup_api_class', 'cinder_ext.api.backups.API'),
        ]:
            stock = {'volume_api_class': 'cinder.volume.api.API'}
            stock['backup_api_class'] = 'cinder.backup.api.API'
            with self.subTest(option=option):
                self.flags(**{option: stock[option]})
                with pytest.raises(SystemExit, match=f'{option} = {line}'):
                    extensions.ExtensionManager()
                self.flags(**{option: line})

    def test_cinder_with_other_extension_points_does_not_start(self):
        """Every process says what is different, and does not start."""
        seams.check(seams.API, seams.VOLUME)
        assert isinstance(cinder_volume.API(), volumes.API)
        other = mock.patch.object(api.API, 'detach', new=_two_only)
        other.start()
        self.addCleanup(other.stop)
        with pytest.raises(Incompatible, match=r'cinder\.volume\.api\.API\.detach takes'):
            cinder_volume.API()
        with pytest.raises(Incompatible):
            self._load_app()


def _two_only(self, volume):
    """Not what cinder 29 takes."""
