# SPDX-License-Identifier: Apache-2.0
"""The ways to switch the extension on, and what happens in a nova that does not fit."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from nova import service
from nova.api.openstack.compute import routes
from nova.api.openstack.compute import servers as nova_servers
from nova.compute import resource_tracker
from nova.compute.manager import ComputeManager as NovaManager

from climateclient.extension.errors import Incompatible
from nova_ext import enable, seams, states
from nova_ext.api import routes as api_routes
from nova_ext.api import servers
from nova_ext.compute.manager import ComputeManager
from tests.functional.nova import tables
from tests.functional.nova.base import NovaTest


class TestPaste(NovaTest):
    """Only api-paste.ini brings the API: one line of nova's own file is changed."""

    def _paste(self):
        stock = pathlib.Path(super()._paste()).read_text()
        line = 'nova.api.openstack.compute:APIRouterV21.factory'
        assert stock.count(line) == 1
        path = pathlib.Path(self.useFixture(tables.Directory()).path, 'api-paste.ini')
        path.write_text(stock.replace(line, 'nova_ext.api.routes:app_factory'))
        return str(path)

    class EXTENSION(tables.Extension):
        def enable(self):
            enable.enable_service()

    def test_paste_line_alone_enables_nova_api(self):
        server = self.reserve()
        self.assert_status(server, 'RESERVED')
        self.wake_up(server)
        self.assert_status(server, 'ACTIVE')


class TestTables(NovaTest):
    def test_enabling_replaces_nothing_of_nova(self):
        assert nova_servers.ServersController.create is not servers.ServersController.create
        assert nova_servers.ServersController.create.__module__ == nova_servers.__name__
        for cls, name in [
            (NovaManager, '_build_and_run_instance'),
            (NovaManager, '_init_instance'),
            (resource_tracker.ResourceTracker, 'instance_claim'),
        ]:
            assert getattr(cls, name).__module__.startswith('nova.'), name
        assert type(self.compute.manager) is ComputeManager
        assert service.SERVICE_MANAGERS['nova-compute'] == enable.MANAGER
        # Enabling twice is enabling once.
        before = [dict(methods) for _, methods in routes.ROUTE_LIST if isinstance(methods, dict)]
        enums = [list(each) for each in states.enums(nova_servers.schema)]
        api_routes.enable_api()
        after = [dict(methods) for _, methods in routes.ROUTE_LIST if isinstance(methods, dict)]
        assert [set(each) for each in before] == [set(each) for each in after]
        (create,) = [m['POST'] for p, m in routes.ROUTE_LIST if p == '/servers']
        assert len(create[0].args[1]) == len(routes.server_controller.args[1]) + 1
        assert enums == [list(each) for each in states.enums(nova_servers.schema)]


class TestSeams:
    def test_nova_with_other_extension_points_is_refused(self):
        table = {
            ('nova.compute.manager', 'ComputeManager._init_instance'): ('self', 'instance'),
            ('nova.compute.manager', 'ComputeManager.no_such_thing'): None,
            ('nova.no_such_module', 'x'): None,
        }
        with pytest.raises(Incompatible) as caught:
            seams.check(table)
        for words in (
            '_init_instance takes (self, context, instance), not (self, instance)',
            'no_such_thing is missing',
            'nova.no_such_module.x is missing',
        ):
            assert words in str(caught.value)


CONF = """
[DEFAULT]
transport_url = fake:/
compute_driver = fake.FakeDriverWithoutFakeNodes
[database]
connection = sqlite://
[api_database]
connection = sqlite://
[api]
auth_strategy = noauth2
[oslo_messaging_notifications]
driver = climate
"""

RUN_COMPUTE = """
import sys
from nova.cmd import compute
from nova import service
from oslo_utils import importutils

def create(binary, **kwargs):
    manager = service.SERVICE_MANAGERS[binary]
    importutils.import_class(manager)
    print('MANAGER', manager, 'eventlet' in sys.modules)
    raise SystemExit(0)

service.Service.create = create
sys.argv = ['nova-compute', '--config-file', sys.argv[1]]
compute.main()
"""

RUN_API = """
from nova import monkey_patch
monkey_patch.patch(backend='threading')
from nova.api.openstack import wsgi_app
wsgi_app._setup_service = lambda host, name: None
import nova.wsgi.osapi_compute
from nova.api.openstack.compute import routes
(create,) = [m['POST'][0].args[0] for p, m in routes.ROUTE_LIST if p == '/servers']
print('CONTROLLER', create.__module__)
"""

BROKEN = """
from nova.objects import fields
fields.InstanceStateField.AUTO_TYPE = None
"""


class TestProcesses(tables.TestCase):
    """Real processes of nova, up to where they would need the rest of the cloud."""

    def run_python(self, code, *args, **environ):
        return subprocess.run(
            [sys.executable, '-c', textwrap.dedent(code), *args],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(tables.Directory()).path)
        self.conf = self.directory / 'nova.conf'
        self.conf.write_text(CONF + f'[oslo_concurrency]\nlock_path = {self.directory}\n')

    def test_nova_conf_alone_enables_nova_compute(self):
        done = self.run_python(RUN_COMPUTE, str(self.conf))
        assert f'MANAGER {enable.MANAGER}' in done.stdout, done.stderr

    def test_console_script_enables_nova_compute(self):
        self.conf.write_text(self.conf.read_text().replace('driver = climate', ''))
        code = RUN_COMPUTE.replace('compute.main()', 'from nova_ext.cmd import compute as ours')
        done = self.run_python(code + '\nours.main()', str(self.conf))
        assert f'MANAGER {enable.MANAGER}' in done.stdout, done.stderr

    def test_nova_conf_alone_enables_nova_api(self):
        paste = pathlib.Path(sys.prefix, 'etc/nova/api-paste.ini').read_text()
        (self.directory / 'api-paste.ini').write_text(paste)
        done = self.run_python(RUN_API, OS_NOVA_CONFIG_DIR=str(self.directory))
        assert 'CONTROLLER nova_ext.api.servers' in done.stdout, done.stderr

    def test_nova_compute_with_other_extension_points_does_not_start(self):
        done = self.run_python(
            RUN_COMPUTE.replace('compute.main()', BROKEN + 'compute.main()'), str(self.conf)
        )
        assert done.returncode != 0
        assert 'MANAGER' not in done.stdout
        assert 'Climate cannot work in this nova' in done.stderr
        assert 'AUTO_TYPE._valid_values is missing' in done.stderr
