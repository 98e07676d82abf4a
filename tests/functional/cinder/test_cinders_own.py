# SPDX-License-Identifier: Apache-2.0
"""Cinder's own functional tests, on our classes: what is no reservation is as it was."""

import uuid
from types import SimpleNamespace

from cinder.backup import API as backup_api
from cinder.tests.functional import (
    test_default_types,
    test_extensions,
    test_group_replication,
    test_group_snapshots,
    test_groups,
    test_volumes,
)
from paste import deploy
from wsgi_intercept import interceptor

from cinder_ext.manager import VolumeManager
from tests.functional.cinder import base, rpc
from tests.functional.lease_service import LeaseService


class Extended(base.ByPytest):
    """Mixed into a test case of cinder: the same with the extension, and with no socket."""

    MOCK_WORKER = False

    def setUp(self):
        super().setUp()
        assert type(self.volume.manager) is VolumeManager
        assert type(backup_api()).__module__ == 'cinder_ext.api.backups'
        self.addCleanup(self._no_lease)

    def _get_flags(self):
        # Cinder's test case has its configuration now, and no service runs yet.
        self.useFixture(rpc.Bus())
        self._leases = self.useFixture(LeaseService())
        base.extend(self, self._leases.url)
        return super()._get_flags()

    def start_service(self, name, host=None, **kwargs):
        # A periodic task runs in a thread of its own, and SQLite in memory has one connection.
        return super().start_service(name, host, **{**base.QUIET, **kwargs})

    def _no_lease(self):
        assert self._leases.requests == []

    def _start_api_service(self):
        app = deploy.loadapp(f'config:{base.ETC / "api-paste.ini"}', name='osapi_volume')
        url = f'http://cinder-{uuid.uuid4().hex}:80'
        intercept = interceptor.RequestsInterceptor(lambda: app, url=url)
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)
        self.osapi = SimpleNamespace(stop=lambda: None)
        self.auth_url = f'{url}/v{self.osapi_version_major}'


class TestVolumes(Extended, test_volumes.VolumesTest):
    pass


class TestGroups(Extended, test_groups.GroupsTest):
    pass


class TestGroupSnapshots(Extended, test_group_snapshots.GroupSnapshotsTest):
    pass


class TestGroupReplication(Extended, test_group_replication.GroupReplicationTest):
    pass


class TestDefaultTypes(Extended, test_default_types.DefaultVolumeTypesTest):
    pass


class TestExtensions(Extended, test_extensions.ExtensionsTest):
    pass


class TestListOfExtensions(Extended, test_extensions.ExtensionControllerTest):
    pass
