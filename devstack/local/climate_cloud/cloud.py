# SPDX-License-Identifier: Apache-2.0
"""The whole cloud: bring it up, take it down, look at it."""

import hashlib
import shutil
import socket
import time
from collections.abc import Callable, Sequence

import openstack
import yaml
from keystoneauth1.exceptions import ClientException

from climate_cloud import content, identity, pool, secrets, steps
from climate_cloud.ceph import Ceph
from climate_cloud.configs import Configs
from climate_cloud.horizon import Horizon
from climate_cloud.install import LOCK
from climate_cloud.mariadb import MariaDB
from climate_cloud.processes import LOOK_AGAIN, Processes, Service, ServiceFailed
from climate_cloud.rabbitmq import RabbitMQ
from climate_cloud.schemas import DATABASES, Schemas
from climate_cloud.services import Services
from climate_cloud.settings import Settings

#: Processes that stop gracefully only when their whole session is told.
GROUPS = ('rabbitmq',)
#: Stopped last, because the others need them to stop in peace.
LAST = ('mariadb', 'rabbitmq', 'epmd', 'ceph-mon', 'ceph-osd', 'ceph-mgr')
#: Those of them that the other last ones say farewell to.
VERY_LAST = ('epmd', 'ceph-mon')
#: Seconds until the schedulers must count on every service.
SETTLE = 90


class Cloud:
    """One local cloud.

    :param say: prints a line of progress
    """

    def __init__(self, settings: Settings, say: Callable[[str], None] = print) -> None:
        self.settings = settings
        self.say = say
        self.secrets = secrets.load(settings.data)
        self.processes = Processes(settings)
        self.mariadb = MariaDB(settings, self.secrets['database'])
        self.rabbitmq = RabbitMQ(settings, self.secrets)
        self.ceph = Ceph(settings)
        self.horizon = Horizon(settings, self.secrets['horizon'])
        self.configs = Configs(settings, self.secrets, self.rabbitmq.url, self.mariadb.url)
        self.openstack = Services(settings, self.configs, self.rabbitmq)

    def services(self) -> dict[str, Service]:
        """Return every process by name."""
        base = [self.mariadb.service(), *self.rabbitmq.services()]
        if self.settings.ceph:
            base += self.ceph.services()
        if self.settings.horizon:
            base.append(self.horizon.service())
        return {service.name: service for service in base} | self.openstack.table()

    def connection(self, user: str):
        """Return an openstacksdk connection; see :func:`climate_cloud.identity.connect`."""
        return identity.connect(self.settings, user, self.password(user))

    def password(self, user: str) -> str:
        return self.secrets[user if user in ('admin', *identity.MEMBERS) else 'service']

    def up(self, lock_descriptor: int) -> None:
        """Bring everything up, and whatever was missing with it.

        :raises ServiceFailed: a service or a command failed, or a port is taken
        """
        started = time.monotonic()
        for directory in ('etc', 'logs', 'run', 'data'):
            (self.settings.state / directory).mkdir(parents=True, exist_ok=True)
        self._check_ports()
        self._prepare()
        steps.run(self._steps(lock_descriptor), self.say, self.processes.give_up)
        self.say(f'the cloud is up ({time.monotonic() - started:.0f} s)')
        if self.settings.horizon:
            passwords = self.settings.state / 'clouds.yaml'
            *users, last = (*identity.MEMBERS, 'admin')
            self.say(
                f'Horizon: {self.horizon.url} (users: {", ".join(users)} and {last}; passwords: '
                f'{passwords})'
            )

    def _check_ports(self) -> None:
        for service in self.services().values():
            if service.port is None or self.processes.pid(service.name):
                continue
            port = self.settings.port(service.port)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.settings.host, port))
                except OSError as error:
                    raise ServiceFailed(
                        f'{service.name} cannot have {self.settings.host}:{port}: {error}. '
                        'CLIMATE_CLOUD_BASE_PORT moves all ports of a new cloud; choose one that '
                        'connections of other programs do not get for a while '
                        '(net.ipv4.ip_local_port_range).'
                    ) from None

    def _prepare(self) -> None:
        self.settings.save()
        self.rabbitmq.prepare()
        self.configs.write()
        if self.settings.horizon:
            self.horizon.write()
        for name in ('fernet', 'credential'):
            secrets.write_keystone_keys(self.settings.data / 'keystone' / name)
        path = self.settings.state / 'clouds.yaml'
        path.touch(mode=0o600)
        users = ('admin', *identity.MEMBERS, *identity.SERVICE_USERS)
        accounts = {
            user: identity.account(self.settings, user, self.password(user)) for user in users
        }
        path.write_text(yaml.safe_dump({'clouds': accounts}))

    def _steps(self, lock_descriptor: int) -> dict[str, tuple[list[str], Callable[[], None]]]:
        schemas = Schemas(
            self.settings, self.configs, self.mariadb, lock_descriptor, self.processes.give_up
        )
        plan: dict[str, tuple[list[str], Callable[[], None]]] = {}
        for service in self.services().values():
            plan[service.name] = (self._needs(service.name), self._starter(service))
        plan['mariadb'] = ([], self._start_mariadb)
        for name in DATABASES:
            if not (name == 'climate' and self.settings.stock):
                plan[f'{name} schema'] = (['mariadb'], self._schema(schemas, name))
        plan['identity'] = (['keystone-api'], lambda: self._once('identity', self._identity))
        apis = ['glance-api', 'neutron-api', 'nova-api', 'placement-api']
        plan['flavors, image, network'] = (apis, lambda: self._once('content', self._content))
        computes = [f'nova-{host}' for host in self.settings.compute_names]
        plan['compute hosts'] = (
            ['nova-api', *computes],
            lambda: self._once('computes', lambda: self._computes(schemas)),
        )
        plan['settled'] = (['compute hosts', 'cinder-api', 'cinder-volume'], self._settle)
        if self.settings.pool_names:
            lease_service = ['climate-api', 'climate-manager', 'nova-scheduler']
            plan['hosts of the pool'] = (
                ['compute hosts', 'placement-api', *lease_service],
                lambda: self._once('pool', self._enrol),
            )
            plan['settled'][0].append('hosts of the pool')
        if self.settings.ceph:
            self._add_ceph(plan)
        return plan

    def _add_ceph(self, plan: dict[str, tuple[list[str], Callable[[], None]]]) -> None:
        def make_types() -> None:
            content.make_volume_types(self.connection('admin'))

        plan['ceph stores'] = ([], self.ceph.prepare)
        plan['ceph pools'] = (['ceph-mon'], lambda: self._once('ceph pools', self.ceph.make_pools))
        plan['volume types'] = (['cinder-api'], lambda: self._once('volume types', make_types))
        plan['settled'][0].extend(['volume types', 'cinder-volume-ceph', 'cinder-backup'])

    def _needs(self, name: str) -> list[str]:
        """Say what must be there before a service can start."""
        first = {
            'mariadb': [],
            'epmd': [],
            'rabbitmq': ['epmd'],
            'keystone-api': ['keystone schema', 'rabbitmq'],
        }
        first['horizon'] = ['identity']
        first['ceph-mon'] = ['ceph stores']
        first['ceph-osd'] = first['ceph-mgr'] = ['ceph pools']
        if name in first:
            return first[name]
        project = 'nova' if name.startswith('nova-') else name.partition('-')[0]
        needs = ['identity', 'rabbitmq', f'{project} schema']
        if name.startswith('nova-'):
            needs.append('placement-api')
        if name.startswith('nova-compute'):
            needs.append('nova-conductor')
        if name in ('cinder-volume-ceph', 'cinder-backup'):
            needs += ['ceph-osd', 'ceph-mgr']
        return needs

    def _starter(self, service: Service) -> Callable[[], None]:
        def start() -> None:
            if service.name == 'horizon':
                self.horizon.collect()
            self.processes.start(service)

        return start

    def _start_mariadb(self) -> None:
        self.mariadb.prepare()
        self.processes.start(self.mariadb.service())

    def _schema(self, schemas: Schemas, name: str) -> Callable[[], None]:
        def make() -> None:
            schemas.make(name)
            if name == 'keystone':
                url = self.settings.url('keystone')
                self._once(
                    'bootstrap', lambda: schemas.bootstrap_keystone(self.secrets['admin'], url)
                )

        return make

    def _once(self, name: str, action: Callable[[], None]) -> None:
        """Do what is in the databases already only if the recipe for it has changed."""
        stamp = self.settings.data / 'done' / name
        sources = [module.__file__ for module in (content, identity, pool)]
        digest = hashlib.sha256(LOCK.read_bytes() + repr(self.settings).encode())
        for source in sources:
            with open(source, 'rb') as file:
                digest.update(file.read())
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        action()
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(digest.hexdigest())

    def _identity(self) -> None:
        identity.Identity(self.settings, self.secrets).make()

    def _content(self) -> None:
        admin = self.connection('admin')
        # Neutron 29 answers some first requests with 403 or 500, under load.
        steps.retry(
            lambda: content.make(admin),
            openstack.exceptions.HttpException,
            SETTLE,
            self.processes.give_up,
        )

    def _enrol(self) -> None:
        admin = self.connection('admin')
        # Nova or the manager may not know a host yet.
        steps.retry(
            lambda: pool.enrol(self.settings, admin),
            (ClientException, openstack.exceptions.HttpException),
            SETTLE,
            self.processes.give_up,
        )

    def _computes(self, schemas: Schemas) -> None:
        schemas.discover_computes()
        content.make_zones(self.settings, self.connection('admin'))

    def _settle(self) -> None:
        admin = self.connection('admin')
        deadline = time.monotonic() + SETTLE
        while down := content.services_down(self.settings, admin):
            if time.monotonic() > deadline:
                raise ServiceFailed(f'not counted on after {SETTLE} s: {", ".join(down)}')
            if self.processes.give_up.wait(LOOK_AGAIN):
                return

    def down(self) -> None:
        """Stop every process and keep the state."""
        names = self.processes.names()
        plan = {}
        for name in names:
            needs = [other for other in names if other not in LAST] if name in LAST else []
            if name in VERY_LAST:
                needs = [other for other in names if other not in VERY_LAST]
            plan[name] = (needs, self._stopper(name))
        steps.run(plan)
        self.say(f'stopped {len(names)} processes')

    def _stopper(self, name: str) -> Callable[[], None]:
        return lambda: self.processes.stop(name, whole_group=name in GROUPS)

    def restart(self, names: Sequence[str]) -> None:
        """Stop processes and start them again, in the order of what they need.

        :raises ServiceFailed: there is no such service, or it does not come up
        """
        table = self.services()
        if unknown := set(names) - set(table):
            raise ServiceFailed(f'there is no service {", ".join(sorted(unknown))}')
        steps.run({name: ([], self._stopper(name)) for name in names})
        plan = {}
        for name in names:
            needs = [*self._needs(name), *(() if name in LAST else LAST)]
            plan[name] = ([each for each in needs if each in names], self._starter(table[name]))
        steps.run(plan, give_up=self.processes.give_up)
        self.say(f'restarted {", ".join(names)}')

    def destroy(self) -> None:
        """Stop every process and remove the state; what is installed stays."""
        self.down()
        for name in ('data', 'etc', 'logs', 'reports', 'clouds.yaml', 'settings.json'):
            path = self.settings.state / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.say(f'the state in {self.settings.state} is gone (the virtual environment stays)')

    def status(self) -> dict[str, str]:
        """Say of every process: up, not answering, or down."""
        states = {}
        for name, service in self.services().items():
            if not self.processes.pid(name):
                states[name] = 'down'
            else:
                states[name] = 'up' if service.ready() else 'not answering'
        return states
