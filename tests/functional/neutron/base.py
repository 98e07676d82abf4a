# SPDX-License-Identifier: Apache-2.0
"""The real Neutron in this process: its web application, ml2, routers, its policy, SQLite.

Only Keystone is a fake: who asks is known by a token of the fake cloud. Requests reach Neutron in
the thread that sends them. The switch is that of the local cloud.
"""

import json
import os
import pathlib
import tempfile
import urllib.parse
from typing import Any, ClassVar

import requests
import webob
import webob.dec
from neutron import manager, policy
from neutron import tests as neutron_tests
from neutron.api import extensions
from neutron.conf.plugins.ml2 import config as ml2
from neutron.conf.plugins.ml2.drivers import driver_type
from neutron.services.segments import db as segments_db
from neutron.tests.unit import testlib_api
from neutron_lib import context
from oslo_config import cfg
from oslo_middleware import base as middleware
from oslo_service import wsgi

from climate_core.cloud import Cloud
from tests.conformance.promised_world import PromisedWorld
from tests.support.fakes import cloud_server

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: The lines that operators add, as the documents have them.
POLICY = ROOT / 'devstack' / 'local' / 'templates' / 'policies' / 'neutron.yaml'
ml2.register_ml2_plugin_opts()
driver_type.register_ml2_drivers_vlan_opts()


class _Identity(middleware.ConfigurableMiddleware):
    """Stands for Keystone's middleware."""

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> Any:
        headers = request.headers
        request.environ['neutron.context'] = context.Context(
            headers['X-User-Id'], headers['X-Project-Id'], roles=headers['X-Roles'].split(',')
        )
        return self.application


class InProcess(requests.adapters.BaseAdapter):
    """Sends requests to the web application.

    :ivar lost: the method of the next request that is done, and whose answer is lost
    :ivar roles: what the user of the lease service has, in place of its own
    """

    def __init__(self, application: Any, fake: cloud_server.Server) -> None:
        super().__init__()
        self._application = application
        self._tokens = fake.state.tokens
        self.lost: str | None = None
        self.roles: list[str] | None = None
        #: The paths that were asked for, with their queries.
        self.paths: list[str] = []

    def send(self, request: Any, **_options: Any) -> requests.Response:
        caller = self._tokens[request.headers['X-Auth-Token']]
        self.paths.append(request.path_url)
        response = requests.Response()
        found = self.ask(
            request.method,
            urllib.parse.urlsplit(request.url)._replace(scheme='', netloc='').geturl(),
            request.body,
            caller['project_id'],
            self.roles or caller['roles'],
        )
        response.status_code, response._content = found.status_code, found.body
        response.headers.update(found.headers)
        response.url, response.request = request.url, request
        if self.lost == request.method:
            self.lost = None
            raise requests.exceptions.ConnectionError('The test lost the answer.')
        return response

    def ask(
        self, method: str, path: str, body: Any, project_id: str, roles: list[str]
    ) -> webob.Response:
        """Send a request of anybody."""
        who = {'X-User-Id': 'user', 'X-Project-Id': project_id, 'X-Roles': ','.join(roles)}
        asked = webob.Request.blank(path.removeprefix('/network'), method=method, headers=who)
        if body is not None:
            asked.content_type, asked.charset = 'application/json', 'utf-8'
            asked.text = body if isinstance(body, str) else json.dumps(body)
        return asked.get_response(self._application)

    def close(self) -> None:
        """Nothing is open."""


class NeutronTest(testlib_api.SqlTestCase):
    """An external network, and VLANs from 100 to 199 that Neutron chooses from.

    A subclass says what is registered for leases.
    """

    #: Those behind the three that are needed are on by default, but not in neutron's tests.
    service_plugins: ClassVar = ['router', 'port_forwarding', 'trunk', 'flavors', 'tag']

    def make_world(self, url: str) -> PromisedWorld:
        """Return where something is promised.

        :param url: of an empty database
        """
        raise NotImplementedError

    def setUp(self) -> None:
        self.setup_coreplugin('ml2', load_plugins=False)
        super().setUp()
        self.addCleanup(extensions.PluginAwareExtensionManager.clear_instance)
        paste = os.path.join(os.path.dirname(neutron_tests.__file__), 'etc', 'api-paste.ini')
        for name, value in {
            'api_paste_config': paste,
            'auth_strategy': 'noauth',
            'service_plugins': self.service_plugins,
        }.items():
            cfg.CONF.set_override(name, value)
        cfg.CONF.set_override('mechanism_drivers', ['test_switch'], group='ml2')
        vlans = ['physnet1:100:199']
        cfg.CONF.set_override('network_vlan_ranges', vlans, group='ml2_type_vlan')
        manager.init()
        # Neutron's tests forget what its modules subscribe to when they are loaded: with it the
        # segment of a network is freed when the network is deleted.
        segments_db.subscribe()
        application = _Identity(wsgi.Loader(cfg.CONF).load_app('neutron'))
        policy.refresh(policy_file=str(POLICY))
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.fake = self.enterContext(cloud_server.running(directory / 'journal'))
        self.neutron = InProcess(application, self.fake)
        self.public = self.make('network', **{'name': 'public', 'router:external': True})
        pool = {'start': '203.0.113.200', 'end': '203.0.113.219'}
        self.make(
            'subnet',
            network_id=self.public['id'],
            ip_version=4,
            cidr='203.0.113.0/24',
            allocation_pools=[pool],
            enable_dhcp=False,
        )
        self.world = self.make_world(f'sqlite:///{directory}/climate.sqlite')
        self.addCleanup(self.world.engine.database.dispose)

    def connect(self, cloud: Cloud) -> None:
        cloud._shared_session.session.mount(f'{self.fake.url}/network/v2.0', self.neutron)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        status: int = 200,
        roles: str = 'admin',
        project_id: str = 'demo-id',
    ) -> Any:
        """Send a request, of the project of the lease's owner; return what is answered."""
        answer = self.neutron.ask(method, f'/v2.0{path}', body, project_id, roles.split(','))
        assert answer.status_code == status, answer.text
        return answer.json if answer.text else None

    def make(self, kind: str, **values: Any) -> dict[str, Any]:
        """Make something for the owner."""
        found: dict[str, Any] = self.request('POST', f'/{kind}s', {kind: values}, 201)[kind]
        return found

    def behind_router(self, network_id: str, cidr: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Make a router from a new subnet of a network to the external one; return both."""
        subnet = self.make('subnet', network_id=network_id, ip_version=4, cidr=cidr)
        gateway = {'network_id': self.public['id']}
        router = self.make('router', name='r', external_gateway_info=gateway)
        path = f'/routers/{router["id"]}/add_router_interface'
        self.request('PUT', path, {'subnet_id': subnet['id']})
        return subnet, router

    def found(self) -> dict[str, dict[str, Any]]:
        """Return all floating IPs, by their addresses."""
        listed = self.request('GET', '/floatingips')['floatingips']
        return {each['floating_ip_address']: each for each in listed}

    def forward(
        self, floating_ip: dict[str, Any], port: dict[str, Any], external_port: int = 8080
    ) -> None:
        """Forward a port of a floating IP, as its owner does."""
        body = {
            'protocol': 'tcp',
            'internal_ip_address': port['fixed_ips'][0]['ip_address'],
            'internal_port_id': port['id'],
            'internal_port': 80,
            'external_port': external_port,
        }
        path = f'/floatingips/{floating_ip["id"]}/port_forwardings'
        self.request('POST', path, {'port_forwarding': body}, 201, 'member,reader')
