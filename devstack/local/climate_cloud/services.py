# SPDX-License-Identifier: Apache-2.0
"""The table of OpenStack's processes: what is started, with which files, and when it serves."""

import functools
import pathlib
import urllib.error
import urllib.request

from climate_cloud.configs import Configs
from climate_cloud.processes import Service
from climate_cloud.rabbitmq import RPC, RabbitMQ
from climate_cloud.settings import Settings

UWSGI = [
    '--need-app', '--lazy-apps', '--die-on-term', '--enable-threads',
    '--disable-logging', '--ignore-sigpipe', '--ignore-write-errors',
    '--buffer-size', '65535', '--http-chunked-input',
    '--add-header', 'Connection: close',
]  # fmt: skip
#: Requests that one process answers at once.
THREADS = 4
#: A manager writes together what is created at once.
CLIMATE_THREADS = 8


def answers(url: str) -> bool:
    """Tell whether a web service answers; any answer of its own will do.

    The port alone says nothing: uwsgi listens before it has loaded the application.
    """
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True


class Services:
    """The OpenStack services of one cloud."""

    def __init__(self, settings: Settings, configs: Configs, bus: RabbitMQ) -> None:
        self.settings = settings
        self.configs = configs
        self.bus = bus

    def table(self) -> dict[str, Service]:
        """Return every OpenStack process by name, in an order that could start them."""
        services = [*self._apis(), *self._nova(), *self._cinder_and_heat(), self._climate()]
        table = {service.name: service for service in services}
        if self.settings.stock:
            del table['climate-api'], table['climate-manager']
        return table

    def _apis(self) -> list[Service]:
        file = self.configs.path
        nova_files = f'{file("nova").parent}/api-paste.ini;{file("nova")}'
        return [
            # One request at a time: the threads of a process share one AuthContextMiddleware that
            # keeps the token of a request in itself (keystone/server/flask/request_processing/
            # middleware/auth_context.py), so that a request may have the rights of another one.
            self._api(
                'keystone',
                'keystone.wsgi.api',
                '/v3',
                threads=1,
                OS_KEYSTONE_CONFIG_FILES=file('keystone'),
            ),
            self._api(
                'placement',
                'placement.wsgi.api',
                OS_PLACEMENT_CONFIG_DIR=file('placement').parent,
            ),
            self._api('glance', 'glance.wsgi.api', OS_GLANCE_CONFIG_DIR=file('glance').parent),
            self._api('neutron', 'neutron.wsgi.api', OS_NEUTRON_CONFIG_FILES=file('neutron')),
            self._api('nova', 'nova.wsgi.osapi_compute', OS_NOVA_CONFIG_FILES=nova_files),
            self._api('cinder', 'cinder.wsgi.api', arguments=f'--config-file {file("cinder")}'),
            self._api('heat', 'heat.wsgi.api', arguments=f'--config-file {file("heat")}'),
            self._api(
                'climate',
                'climate_core.wsgi.api',
                threads=CLIMATE_THREADS,
                OS_CLIMATE_CONFIG_FILES=file('climate'),
            ),
        ]

    def _api(
        self,
        name: str,
        module: str,
        path: str = '/',
        arguments: str = '',
        threads: int = THREADS,
        **environment: object,
    ) -> Service:
        socket = f'{self.settings.host}:{self.settings.port(name)}'
        command = [self.settings.bin / 'uwsgi', '--http-socket', socket, '--module', module]
        command += ['--pyhome', self.settings.venv, '--threads', threads, *UWSGI]
        if arguments:
            command += ['--pyargv', arguments]
        url = self.settings.url(name) + path
        return Service(
            f'{name}-api',
            [str(word) for word in command],
            functools.partial(answers, url),
            environment={key: str(value) for key, value in environment.items()},
            port=name,
        )

    def _nova(self) -> list[Service]:
        config = self.configs.path('nova')
        services = [
            self._worker('nova-conductor', 'nova-conductor', config, 'conductor'),
            self._worker('nova-scheduler', 'nova-scheduler', config, 'scheduler'),
        ]
        for host in self.settings.compute_names:
            config = self.configs.compute_path(host)
            services.append(
                self._worker(f'nova-{host}', 'nova-compute', config, f'compute.{host}')
            )
        return services

    def _cinder_and_heat(self) -> list[Service]:
        cinder, heat = self.configs.path('cinder'), self.configs.path('heat')
        return [
            self._worker('cinder-scheduler', 'cinder-scheduler', cinder, 'cinder-scheduler'),
            self._worker('cinder-volume', 'cinder-volume', cinder, 'cinder-volume.ctl@fake'),
            self._worker('heat-engine', 'heat-engine', heat, 'engine'),
            *(self._cinder_on_ceph(cinder) if self.settings.ceph else []),
        ]

    def _cinder_on_ceph(self, config: pathlib.Path) -> list[Service]:
        # Processes of their own: `up` can add the backend to a cloud that runs.
        volume, backup = self.configs.ceph_backend, self.configs.ceph_backup
        queue = 'cinder-volume.ctl@ceph'
        return [
            self._worker('cinder-volume-ceph', 'cinder-volume', config, queue, volume),
            self._worker('cinder-backup', 'cinder-backup', config, 'cinder-backup.ctl', backup),
        ]

    def _climate(self) -> Service:
        config = self.configs.path('climate')
        queue = 'climate.manager'
        return self._worker('climate-manager', 'climate-manager', config, queue, vhost=RPC)

    def _worker(
        self,
        name: str,
        program: str,
        config: object,
        queue: str,
        *more: object,
        vhost: str = '/',
    ) -> Service:
        command = [str(self.settings.bin / program)]
        for file in (config, *more):
            command += ['--config-file', str(file)]
        return Service(name, command, self.bus.listener(queue, vhost))
