# SPDX-License-Identifier: Apache-2.0
"""Write the configuration of every service from the templates."""

import pathlib
import shutil
import string

from climate_cloud.rabbitmq import SERVICES
from climate_cloud.secrets import public_key
from climate_cloud.settings import LOCAL, ROOT, Settings

TEMPLATES = LOCAL / 'templates'
#: Climate's extension of Heat.
HEAT = ROOT / 'heat_ext'

#: service -> (its file below etc/, its templates one after the other, its database)
FILES = {
    'keystone': ('keystone/keystone.conf', ['keystone.conf'], 'keystone'),
    'placement': ('placement/placement.conf', ['placement.conf'], 'placement'),
    'glance': ('glance/glance-api.conf', ['glance-api.conf'], 'glance'),
    'neutron': ('neutron/neutron.conf', ['neutron.conf', 'neutron-climate.conf'], 'neutron'),
    'nova': (
        'nova/nova.conf',
        ['nova-common.conf', 'nova-control.conf', 'nova-climate.conf', 'nova-api-climate.conf'],
        'nova',
    ),
    'cinder': ('cinder/cinder.conf', ['cinder.conf', 'cinder-climate.conf'], 'cinder'),
    'heat': ('heat/heat.conf', ['heat.conf', 'heat-climate.conf'], 'heat'),
    'climate': ('climate/climate.conf', ['climate.conf'], 'climate'),
}
#: What the users of services are authorized for.
PROJECT = {'project_name': 'service', 'project_domain_name': 'Default'}
#: service -> the user of RabbitMQ as which it notifies.
_NOTIFIERS = {name: f'{name}-notify' for name in ('nova', 'cinder', 'heat', 'climate')}
COMPUTE = ['nova-common.conf', 'nova-climate.conf']


class Template(string.Template):
    """``@{name}``: the configuration files use ``$`` and ``%`` themselves."""

    delimiter = '@'


class Configs:
    """The configuration files of one cloud.

    :param transport_url: takes the name of a user of RabbitMQ
    :param database_url: takes the name of a database
    """

    def __init__(self, settings: Settings, secrets, transport_url, database_url) -> None:
        self.settings = settings
        self.secrets = secrets
        self.transport_url = transport_url
        self.database_url = database_url

    def path(self, service: str) -> pathlib.Path:
        return self.settings.etc / FILES[service][0]

    def compute_path(self, host: str) -> pathlib.Path:
        # One directory per host: nova looks for compute_id beside its configuration.
        return self.settings.etc / host / 'nova.conf'

    @property
    def ceph_backend(self) -> pathlib.Path:
        """Return the file that cinder-volume reads after cinder.conf for the backend on Ceph."""
        return self.settings.etc / 'cinder' / 'ceph.conf'

    @property
    def ceph_backup(self) -> pathlib.Path:
        """Return the file that cinder-backup reads after cinder.conf to keep backups on Ceph."""
        return self.settings.etc / 'cinder' / 'backup.conf'

    def write(self) -> None:
        for service, (_, templates, database) in FILES.items():
            values = self._values(service, database) | {'host_name': 'ctl'}
            self._write(self.path(service), templates, values)
        if self.settings.ceph:
            self._write(self.ceph_backend, ['cinder-ceph.conf'], self._paths())
            self._write(self.ceph_backup, ['cinder-backup.conf'], self._paths())
        for host in self.settings.compute_names:
            values = self._values('nova', 'nova') | {'host_name': host}
            self._write(self.compute_path(host), COMPUTE, values)
            (self.settings.data / 'nova' / host).mkdir(parents=True, exist_ok=True)
        paste = self.settings.venv / 'etc' / 'nova' / 'api-paste.ini'
        shutil.copy(paste, self.settings.etc / 'nova' / 'api-paste.ini')
        self._write_heat_environment()
        if not self.settings.stock:
            for lines in sorted((TEMPLATES / 'policies').iterdir()):
                policy = self.path(lines.stem).parent / 'policy.yaml'
                policy.write_text(lines.read_text() if self.settings.policies else '{}\n')
        for name in ('images', 'locks', 'nova/ctl', 'cinder/coordination', 'neutron'):
            (self.settings.data / name).mkdir(parents=True, exist_ok=True)

    def _write_heat_environment(self) -> None:
        """Write what every stack begins with: heat's own file, and the names of the extension."""
        directory = self.settings.etc / 'heat' / 'environment.d'
        directory.mkdir(parents=True, exist_ok=True)
        files = [self.settings.venv / 'etc' / 'heat' / 'environment.d' / 'default.yaml']
        if not self.settings.stock:
            files.append(HEAT / 'environment.d' / 'climate.yaml')
        for file in files:
            shutil.copy(file, directory)

    def _write(self, path: pathlib.Path, templates: list[str], values: dict[str, object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        if self.settings.stock:
            templates = [name for name in templates if not name.endswith('-climate.conf')]
        texts = [Template((TEMPLATES / name).read_text()).substitute(values) for name in templates]
        path.write_text('\n'.join(texts))

    def _paths(self) -> dict[str, object]:
        return {
            'data': self.settings.data,
            'etc': self.settings.etc,
            'venv': self.settings.venv,
        }

    def _values(self, service: str, database: str) -> dict[str, object]:
        settings, secrets = self.settings, self.secrets
        credentials = self._credentials(service)
        urls = {f'{name}_url': settings.url(name) for name in FILES}
        return {
            **urls,
            'host': settings.host,
            'metrics_port': settings.port('climate-metrics'),
            **self._paths(),
            'transport_url': self.transport_url('climate' if service == 'climate' else SERVICES),
            'notification_url': self.transport_url(_NOTIFIERS.get(service, SERVICES)),
            'database_url': self.database_url(database),
            'api_database_url': self.database_url('nova_api'),
            'credentials': credentials,
            'authtoken': '\n'.join(
                [
                    credentials,
                    f'www_authenticate_uri = {settings.url("keystone")}',
                    'service_token_roles = service',
                    'service_token_roles_required = true',
                ]
            ),
            'service_password': secrets['service'],
            'heat_domain_password': secrets['heat_domain'],
            'heat_key': secrets['heat_key'],
            'heat_plugins': HEAT / 'plugins',
            'nova_key': secrets['nova_key'],
            'nova_public_key': public_key(secrets['nova_key']),
            'climate_key': secrets['climate_key'],
        }

    def _credentials(self, user: str) -> str:
        values = {
            'auth_type': 'password',
            'auth_url': f'{self.settings.url("keystone")}/v3',
            'username': user,
            'password': self.secrets['service'],
            'user_domain_name': 'Default',
            **PROJECT,
            'region_name': 'RegionOne',
        }
        return '\n'.join(f'{key} = {value}' for key, value in values.items())
