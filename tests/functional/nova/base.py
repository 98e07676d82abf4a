# SPDX-License-Identifier: Apache-2.0
"""A whole nova in one process: real API, conductor, scheduler, compute and placement.

Only the hypervisor, neutron, glance and cinder are nova's fixtures. Casts run as calls and builds
in the thread of the caller, so that nothing has to be waited for.
"""

import contextlib
import datetime
import json
import pathlib
import sys

import fixtures
import nova.conf
from cryptography.fernet import Fernet
from nova import context as nova_context
from nova import exception, objects
from nova.compute import rpcapi
from nova.db.main import api as db
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional import integrated_helpers

from tests.functional.lease_service import LeaseService, iso
from tests.functional.nova import tables

CONF = nova.conf.CONF
FILTERS = ('ReservationFilter', 'PoolFilter')
KEY = Fernet.generate_key().decode()
#: The message to nova-compute.
BUILD = 'nova.compute.rpcapi.ComputeAPI.build_and_run_instance'
LONG_AGO = datetime.datetime(2020, 1, 1)
SERVICE_TOKEN = {'X-Service-Roles': 'service'}


def _context(environ, **kwargs):
    """As nova's fixture makes it, with the tokens that keystonemiddleware would find."""
    user = environ['HTTP_X_AUTH_USER']
    return nova_context.RequestContext(
        user,
        environ['HTTP_X_AUTH_PROJECT_ID'],
        is_admin=user == 'admin',
        roles=environ['HTTP_X_ROLES'].split(','),
        auth_token=f'token-of-{user}',
        service_roles=environ.get('HTTP_X_SERVICE_ROLES', '').split(','),
        **kwargs,
    )


class Spawned:
    """What nova-compute gives to the hypervisor, noted on its way to nova's fake driver."""

    def __init__(self, driver):
        self.calls = []
        self.fail_with = None
        self._spawn = driver.spawn
        driver.spawn = self

    def __call__(self, context, instance, image_meta, files, password, *args, **kwargs):
        self.calls.append(
            {'instance': instance, 'files': files, 'password': password, 'image': image_meta}
            | kwargs
        )
        if self.fail_with is not None:
            raise self.fail_with
        return self._spawn(context, instance, image_meta, files, password, *args, **kwargs)

    @property
    def last(self):
        return self.calls[-1]


class Reservations:
    """Mixed into a test case of nova: switches the extension on, and knows what users do."""

    EXTENSION = tables.Extension

    def _setup_cells(self):
        # Nova's test case has its configuration now, and no service runs yet.
        super()._setup_cells()
        self.extension = self.useFixture(self.EXTENSION())
        self.lease_service = self.useFixture(LeaseService())
        self.useFixture(
            tables.Options(
                endpoint_override=self.lease_service.url,
                stash_keys=[KEY],
                connect_retry_delay=0.001,
                status_code_retry_delay=0.001,
            )
        )
        self.flags(api_paste_config=self._paste(), group='wsgi')
        self.flags(
            available_filters=[
                'nova.scheduler.filters.all_filters',
                *(f'nova_ext.scheduler.{name}' for name in FILTERS),
            ],
            enabled_filters=[*CONF.filter_scheduler.enabled_filters, *FILTERS],
            group='filter_scheduler',
        )

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch('nova.api.auth.NovaKeystoneContext._create_context', _context)
        )
        self.flavor = self.api.get_flavors()[0]
        self.ctxt = nova_context.get_admin_context()

    def _paste(self):
        """Nova's own file: the wheel puts it beside the interpreter, not into the package."""
        return str(pathlib.Path(sys.prefix, 'etc/nova/api-paste.ini'))

    def _clear_attrs(self):
        # pytest puts the test method there, and takes it away itself.
        method = self.__dict__.get(self._testMethodName)
        super()._clear_attrs()
        if method:
            setattr(self, self._testMethodName, method)

    # What users do.

    def boot(self, hints=None, api=None, networks='none', place='os:scheduler_hints', **server):
        """POST /servers and give the answer's server."""
        return self.post(hints, api, networks, place, **server).body['server']

    def post(
        self,
        hints=None,
        api=None,
        networks='none',
        place='os:scheduler_hints',
        status=202,
        **server,
    ):
        """POST /servers."""
        body = {
            'server': {
                'name': 'vm1',
                'flavorRef': self.flavor['id'],
                'imageRef': '155d900f-4e14-4e4c-a73d-069cbf4541e6',
                'networks': networks,
                **server,
            }
        }
        body['server'] = {key: value for key, value in body['server'].items() if value is not None}
        if hints is not None:
            body[place] = hints
        return (api or self.api).api_post('/servers', body, check_response_status=[status])

    def reserve(self, params=None, others=None, **server):
        """Boot a server with the hints of a reservation, and others."""
        params = {'name': 'lease1', 'start': iso(hours=1), 'end': iso(hours=2), **(params or {})}
        hints = {'reserved': 'True', 'lease_params': json.dumps(params), **(others or {})}
        return self.boot(hints, **server)

    def wake_up(self, server, api=None, status=202, body=None, **kwargs):
        """POST the action, as admin unless said otherwise."""
        return (api or self.admin_api).api_post(
            f'/servers/{server["id"]}/action',
            {'wake_up': body},
            check_response_status=[status],
            **kwargs,
        )

    def delete(self, server):
        """DELETE the server, and wait until it is gone."""
        self.api.delete_server(server['id'])
        self._wait_until_deleted(server)

    def network(self):
        """Return a request for one new port."""
        return [{'uuid': self.neutron.network_1['id']}]

    def show(self, server):
        """GET the server as admin."""
        return self.admin_api.get_server(server['id'])

    # What operators see.

    def instance(self, server):
        """Return the server in the database of its cell."""
        mapping = objects.InstanceMapping.get_by_instance_uuid(self.ctxt, server['id'])
        with nova_context.target_cell(self.ctxt, mapping.cell_mapping) as cctxt:
            return objects.Instance.get_by_uuid(
                cctxt, server['id'], expected_attrs=['system_metadata', 'numa_topology']
            )

    def guests(self, host=None):
        """Ids of the guests that the hypervisors run."""
        hosts = [host] if host else list(self.computes)
        return [
            guest for name in hosts for guest in self.computes[name].driver.list_instance_uuids()
        ]

    def spy_on(self, host='host1'):
        """Note what the host gives to its hypervisor."""
        return Spawned(self.computes[host].manager.driver)

    def write(self, server, **values):
        """Write into the row of the server, past nova's clock."""
        mapping = objects.InstanceMapping.get_by_instance_uuid(self.ctxt, server['id'])
        with nova_context.target_cell(self.ctxt, mapping.cell_mapping) as cctxt:
            db.instance_update(cctxt, server['id'], values)

    @contextlib.contextmanager
    def messages_kept(self):
        """Keep the messages to nova-compute in the queue; gives the list of them."""
        queue = []

        def keep(api, context, **kwargs):
            queue.append((context, kwargs))

        with fixtures.MonkeyPatch(BUILD, keep):
            yield queue

    def deliver(self, message):
        """Hand a kept message over, as often as this is called."""
        context, kwargs = message
        rpcapi.ComputeAPI().build_and_run_instance(context, **kwargs)

    def refuse_first_claim(self):
        """Let the host that first claims a server be full; gives the list of it."""
        refused = []
        for host in self.COMPUTES:
            tracker = self.computes[host].manager.rt
            real = tracker._set_instance_host_and_node

            def once(*args, real=real, host=host):
                if not refused:
                    refused.append(host)
                    raise exception.ComputeResourcesUnavailable(reason='somebody was faster')
                return real(*args)

            tracker._set_instance_host_and_node = once
        return refused

    def lose(self, host, lost=True):
        """Let nova take the host for dead, as a fencing tool does."""
        (service,) = self.admin_api.get_services(binary='nova-compute', host=host)
        self.admin_api.put_service(service['id'], {'forced_down': lost})

    def restart(self, host='host1'):
        """Stop nova-compute and start it again; the hypervisor goes on."""
        self.computes[host] = self.restart_compute_service(self.computes[host])

    def ports(self, server):
        """Return what neutron has for the server."""
        return self.neutron.list_ports(is_admin=True, device_id=server['id'])['ports']

    def used(self, host='host1'):
        """vCPUs that the tracker of the host counts."""
        (node,) = self.computes[host].manager.rt.compute_nodes.values()
        return node.vcpus_used

    def allocations(self, server):
        """Return what Placement holds for the server: provider -> resources."""
        found = self._get_allocations_by_server_uuid(server['id'])
        return {provider: each['resources'] for provider, each in found.items()}

    def assert_status(self, server, status, task=None):
        found = self.show(server)
        state = (found['status'], found['OS-EXT-STS:task_state'])
        assert (status, task) == state, found.get('fault')
        return found


class NovaTest(Reservations, integrated_helpers._IntegratedTestBase):
    """A whole nova with hosts of nova's fake hypervisor."""

    api_major_version = 'v2.1'
    microversion = '2.96'
    COMPUTES = ('host1',)
    IN_ONE_THREAD = True
    #: Whether services do something by their clocks, on a busy machine in the middle of a boot.
    HAS_PERIODIC_TASKS = True

    def _setup_services(self):
        if not self.HAS_PERIODIC_TASKS:
            self.flags(report_interval=0, service_down_time=3600, periodic_enable=False)
        super()._setup_services()
        if self.IN_ONE_THREAD:
            self.useFixture(nova_fixtures.SpawnIsSynchronousFixture())

    def _setup_compute_service(self):
        for host in self.COMPUTES:
            self._start_compute(host)
        return self.computes[self.COMPUTES[0]]

    def become_stock_nova(self):
        """Take away the extension, and start the services again that had it."""
        self.extension.disable()
        self.compute = self.restart_compute_service(self.compute)
        api = self.useFixture(nova_fixtures.OSAPIFixture(api_version='v2.1', stub_keystone=False))
        self.api, self.admin_api = api.api, api.admin_api
        self.api.microversion = self.admin_api.microversion = self.microversion
        filters = self.scheduler.manager.host_manager.enabled_filters
        filters[:] = [each for each in filters if type(each).__name__ not in FILTERS]
