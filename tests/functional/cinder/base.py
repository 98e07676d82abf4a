# SPDX-License-Identifier: Apache-2.0
"""A whole cinder in one process: real API, scheduler, volume manager, and workers table.

Only keystone, glance and the storage are at the edge. A message is handled in the thread of who
sends it, so that nothing has to be waited for: when ``volume_create`` returns, cinder-volume has
done what it does.

A test case::

    class TestSomething(CinderTest):
        def test_it(self):
            volume = self.reserve(size=3)                       # as alice, a member
            self.assert_status(volume, 'lease-reserved')
            assert self.array.calls == []
            self.wake_up(volume)                                # as the lease service
            self.assert_status(volume, 'available')
"""

import contextlib
import json
import pathlib
import sys

import fixtures
import sqlalchemy
import webob
from cinder import context as cinder_context
from cinder import objects, policy
from cinder.api import common
from cinder.common import config
from cinder.db import api as db
from cinder.scheduler import filter_scheduler  # noqa: F401  its options are set below
from cinder.tests.unit import fake_constants, test
from cinder.tests.unit.image import fake as fake_image
from cinder.volume import configuration, volume_types
from cinder.wsgi import common as wsgi
from paste import deploy

from cinder_ext import conf
from tests.functional.cinder import rpc
from tests.functional.cinder.backends import Array
from tests.functional.cinder.users import ADMIN, ALICE, ALICES, CLIMATE
from tests.functional.lease_service import LeaseService, iso

CONF = config.CONF
#: The wheel puts cinder's files beside the interpreter.
ETC = pathlib.Path(sys.prefix, 'etc/cinder')
HOST = 'host1@fake'
POOL = f'{HOST}#pool'
STOCK_MANAGER = 'cinder.volume.manager.VolumeManager'
IMAGE = fake_constants.IMAGE_ID
#: The volume type of a request that names none.
TYPE = 'tests'


class Trusting(wsgi.Middleware):
    """In the place of keystonemiddleware: believes what the headers say."""

    @classmethod
    def factory(cls, global_config, **local_config):
        """For api-paste.ini."""
        return cls


def extend(test, url):
    """Write into the configuration what an operator writes into cinder.conf.

    :param test: of cinder
    :param url: of the lease service
    """
    conf.register(CONF)
    test.flags(
        volume_api_class='cinder_ext.api.volumes.API',
        backup_api_class='cinder_ext.api.backups.API',
        volume_manager='cinder_ext.manager.VolumeManager',
        osapi_volume_extension=[
            'cinder.api.contrib.standard_extensions',
            'cinder_ext.api.wake_up.Reservations',
        ],
        scheduler_default_filters=[
            'AvailabilityZoneFilter',
            'CapacityFilter',
            'CapabilitiesFilter',
            'ReservationFilter',
        ],
    )
    test.flags(
        endpoint_override=url,
        connect_retry_delay=0.001,
        status_code_retry_delay=0.001,
        group=conf.GROUP,
    )


class ByPytest:
    """Mixed into a test case of cinder: pytest can run more than one test of its class."""

    def _common_cleanup(self):
        # It deletes every attribute; pytest puts the test method there, and takes it away itself.
        method = self.__dict__.get(self._testMethodName)
        super()._common_cleanup()
        if method:
            setattr(self, self._testMethodName, method)


class Cinder(ByPytest):
    """Mixed into a test case of cinder: starts the services, and knows what users do.

    Class attributes that a test may change:

    :cvar HOSTS: services of cinder-volume that run, ``host@backend``
    :cvar CLUSTER: ``name@backend`` if they are one cluster (active-active)
    :cvar VERSION: microversion of requests
    :cvar PROJECT_IN_URL: whether /v3/{project}/ is asked

    Attributes:

    :ivar array: the storage (:class:`tests.functional.cinder.backends.Array`): ``calls``,
        ``volumes``, ``fail``, ``pools``
    :ivar lease_service: :class:`tests.functional.lease_service.LeaseService`
    :ivar volumes: host -> service of cinder-volume
    :ivar scheduler: service
    :ivar bus: :class:`tests.functional.cinder.rpc.Bus`; ``bus.lost.add('create_volume')``
    :ivar images: what glance has, id -> image; :data:`IMAGE` is one of 12 MB
    :ivar ctxt: an admin context
    """

    MOCK_WORKER = False
    HOSTS = (HOST,)
    CLUSTER = None
    VERSION = '3.70'

    def setUp(self):
        super().setUp()
        self.ctxt = cinder_context.get_admin_context()
        self.array = self.useFixture(Array())
        self.lease_service = self.useFixture(LeaseService())
        self.bus = self.useFixture(rpc.Bus())
        fake_image.FakeImageService_reset()
        fake_image.mock_image_service(self)
        self.images = fake_image.FakeImageService().images
        self._configure()
        volume_types.create(self.ctxt, TYPE)
        self.volumes = {}
        for host in self.HOSTS:
            self.start_volume(host)
        # It asks the others for their capacity, and would wait for the first who comes late.
        self.scheduler = self.start_service('scheduler', host='scheduler', **QUIET)
        self._app = self._load_app()

    def _configure(self):
        self.flags(
            auth_strategy='keystone',
            default_volume_type=TYPE,
            scheduler_default_filters=['AvailabilityZoneFilter', 'CapacityFilter'],
        )
        self.flags(policy_file='/nowhere/policy.yaml', group='oslo_policy')
        self.flags(
            volume_driver='tests.functional.cinder.backends.Driver',
            group=configuration.SHARED_CONF_GROUP,
        )
        self.flags(resource_query_filters_file=str(ETC / 'resource_filters.json'))
        common._FILTERS_COLLECTION = None
        policy.reset()
        self.addCleanup(policy.reset)
        extend(self, self.lease_service.url)

    def _load_app(self):
        """Load cinder's own api-paste.ini."""
        stock = (ETC / 'api-paste.ini').read_text()
        line = 'keystonemiddleware.auth_token:filter_factory'
        assert stock.count(line) == 1
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'api-paste.ini')
        path.write_text(stock.replace(line, f'{__name__}:Trusting.factory'))
        return deploy.loadapp(f'config:{path}', name='osapi_volume')

    # Services.

    def start_volume(self, host=HOST, manager=None):
        """Start a cinder-volume; ``manager=STOCK_MANAGER`` for one without the extension."""
        service = self.start_service(
            'volume', host=host, manager=manager, cluster=self.CLUSTER, **QUIET
        )
        self.volumes[host] = service
        self.report(host)
        return service

    def stop_volume(self, host=HOST):
        """Stop a cinder-volume; messages to it are lost from now on."""
        service = self.volumes.pop(host)
        service.stop()
        service.wait()
        self._services.remove(service)

    def restart(self, host=HOST):
        """Stop a cinder-volume and start it again; the array goes on."""
        self.stop_volume(host)
        return self.start_volume(host)

    def report(self, *hosts):
        """Tell the scheduler the capacity, as a periodic task of cinder-volume does."""
        for host in hosts or list(self.volumes):
            self.volumes[host].manager.publish_service_capabilities(self.ctxt)

    def pool(self, pool='pool', host=HOST):
        """Return what the scheduler knows of a pool: cinder.scheduler.host_manager.PoolState."""
        manager = self.scheduler.manager.driver.host_manager
        (found,) = [
            each
            for each in manager.get_all_backend_states(self.ctxt)
            if each.backend_id == f'{self.CLUSTER or host}#{pool}'
        ]
        return found

    def allocated(self, pool='pool', host=HOST):
        """GiB that cinder-volume itself counts as allocated in a pool."""
        pools = self.volumes[host].manager.stats['pools']
        return pools.get(pool, {}).get('allocated_capacity_gb', 0)

    # What users do. Every call gives the body of the answer, and fails if the status differs.

    def request(self, method, path, body=None, user=ALICE, status=None, version=None):
        """Send any request to /v3/{project of the user}{path}; gives the webob.Response.

        :param status: the one that is right, or None for any
        """
        request = webob.Request.blank(f'/v3/{user.project_id}{path}', method=method)
        request.headers.update(user.headers)
        request.headers['OpenStack-API-Version'] = f'volume {version or self.VERSION}'
        if body is not None:
            request.content_type = 'application/json'
            request.body = json.dumps(body).encode()
        response = request.get_response(self._app)
        assert status in (None, response.status_int), response
        return response

    def get(self, path, user=ALICE, status=200, **kwargs):
        """GET a path; gives the JSON."""
        return self.request('GET', path, user=user, status=status, **kwargs).json

    def post(self, path, body, user=ALICE, status=202, **kwargs):
        """POST to a path; gives the JSON, or None."""
        response = self.request('POST', path, body, user=user, status=status, **kwargs)
        return response.json if response.body else None

    def volume_create(self, hints=None, user=ALICE, status=202, **body):
        """POST /volumes of 1 GiB; gives the volume as it is afterwards (GET), or the error.

        :param hints: OS-SCH-HNT:scheduler_hints
        :param body: more of the volume: size, imageRef, snapshot_id, source_volid, backup_id ...
        """
        body = {'volume': {'size': 1, 'name': 'v1', **body}}
        if hints is not None:
            body['OS-SCH-HNT:scheduler_hints'] = hints
        answer = self.post('/volumes', body, user=user, status=status)
        if status != 202:
            return answer
        return self.show(answer['volume'])

    def reserve(self, params=None, user=ALICE, status=202, **body):
        """POST /volumes with the hints of a new lease.

        :param params: lease_params beside name, start and end
        """
        params = {'name': 'lease1', 'start': iso(hours=1), 'end': iso(hours=2), **(params or {})}
        hints = {'reserved': 'True', 'lease_params': json.dumps(params)}
        return self.volume_create(hints, user=user, status=status, **body)

    def show(self, volume, user=ADMIN):
        """GET the volume, as admin unless said otherwise."""
        return self.get(f'/volumes/{volume["id"]}', user=user)['volume']

    def action(self, volume, action, user=ALICE, status=202, **args):
        """POST /volumes/{id}/action: ``self.action(volume, 'os-extend', new_size=5)``."""
        return self.post(f'/volumes/{volume["id"]}/action', {action: args}, user, status)

    def wake_up(self, volume, user=CLIMATE, status=202):
        """POST the action os-wake_up, as the lease service unless said otherwise."""
        return self.action(volume, 'os-wake_up', user=user, status=status)

    def delete(self, volume, user=ALICE, status=202, query=''):
        """DELETE the volume: ``query='?cascade=True'``."""
        return self.request('DELETE', f'/volumes/{volume["id"]}{query}', user=user, status=status)

    def snapshot(self, volume, user=ALICE, status=202, **body):
        """POST /snapshots; gives the snapshot."""
        body = {'snapshot': {'volume_id': volume['id'], 'name': 's1', **body}}
        answer = self.post('/snapshots', body, user, status)
        return answer.get('snapshot', answer)

    def messages(self, volume, user=ALICE):
        """Return the user messages about the volume, newest first."""
        return self.get(f'/messages?resource_uuid={volume["id"]}', user=user)['messages']

    def quota_usage(self, project_id=ALICES):
        """Return what is used: (volumes, GiB); fails if anything is still reserved."""
        quotas = self.get(f'/os-quota-sets/{project_id}?usage=True', user=ADMIN)['quota_set']
        assert quotas['volumes']['reserved'] == quotas['gigabytes']['reserved'] == 0
        return quotas['volumes']['in_use'], quotas['gigabytes']['in_use']

    # What operators see.

    def row(self, volume, read_deleted='no'):
        """Return the volume in the database (cinder.objects.Volume)."""
        ctxt = cinder_context.get_admin_context(read_deleted=read_deleted)
        return objects.Volume.get_by_id(ctxt, volume['id'])

    def write(self, volume, **values):
        """Write into the row of the volume."""
        row = self.row(volume)
        row.update(values)
        row.save()

    @contextlib.contextmanager
    def statements(self):
        """Note what the database is asked in this block; gives the list of SQL."""
        seen = []

        def note(connection, cursor, statement, *args):
            seen.append(statement)

        engine = db.get_engine()
        sqlalchemy.event.listen(engine, 'before_cursor_execute', note)
        try:
            yield seen
        finally:
            sqlalchemy.event.remove(engine, 'before_cursor_execute', note)

    def workers(self):
        """Rows of the workers table: work that is not finished."""
        return db.worker_get_all(self.ctxt)

    def assert_status(self, volume, status):
        found = self.show(volume)
        assert found['status'] == status, (found, self.messages(volume))
        return found

    def assert_gone(self, volume):
        self.get(f'/volumes/{volume["id"]}', user=ADMIN, status=404)


#: Nothing runs by a timer.
QUIET = {'report_interval': 0, 'periodic_interval': 0, 'periodic_fuzzy_delay': 0}


class CinderTest(Cinder, test.TestCase):
    """A cinder with the extension."""
