# SPDX-License-Identifier: Apache-2.0
"""Users, projects, roles and the catalogue, through openstacksdk in one process.

Every step looks first, so that it can run again after an interruption or for a new service.
"""

from collections.abc import Iterable

import openstack
from openstack.connection import Connection

from climate_cloud.settings import Settings

REGION = 'RegionOne'

#: name -> (type, path below the service's address)
CATALOGUE = {
    'placement': ('placement', ''),
    'glance': ('image', ''),
    'neutron': ('network', ''),
    'nova': ('compute', '/v2.1'),
    'cinder': ('block-storage', '/v3'),
    'cinderv3': ('volumev3', '/v3'),
    'heat': ('orchestration', '/v1/%(project_id)s'),
    'climate': ('reservation', '/v1'),
}
SERVICE_USERS = ('placement', 'glance', 'neutron', 'nova', 'cinder', 'heat', 'climate')
ROLES = ('service', 'heat_stack_owner', 'heat_stack_user', 'climate')
#: The roles of Climate's user where the services have the lines of ``templates/policies``: an
#: administrator of Nova, Cinder and Heat, a service everywhere, a member of the project service.
LEAST = frozenset({'climate', 'service', 'member'})
#: The roles of every other service.
ADMIN = frozenset({'admin', 'service'})
#: What a project may hold at most, registered for the service climate. A cloud for tests has room.
LIMITS = {
    'leases': 1000,
    'reserved_servers': 1000,
    'reserved_vcpus': 4000,
    'reserved_memory_mb': 4194304,
    'reserved_volumes': 1000,
    'reserved_gigabytes': 100000,
    'reserved_stacks': 1000,
    'reserved_hosts': 1000,
    'reserved_floatingips': 1000,
    'reserved_networks': 1000,
}
#: Ordinary members, each in a project of the same name.
MEMBERS = ('demo', 'alt')


def connect(settings: Settings, user: str, password: str) -> Connection:
    """Return a connection of a user in the project that goes with it.

    :param user: admin, one of :data:`MEMBERS`, or one of :data:`SERVICE_USERS`
    """
    return openstack.connect(
        load_yaml_config=False, load_envvars=False, **account(settings, user, password)
    )


def account(settings: Settings, user: str, password: str) -> dict[str, object]:
    """Return what clouds.yaml and openstack.connect want to know about a user."""
    project = 'service' if user in SERVICE_USERS else user
    return {
        'auth': {
            'auth_url': f'{settings.url("keystone")}/v3',
            'username': user,
            'password': password,
            'project_name': project,
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
        },
        'region_name': REGION,
        'identity_api_version': '3',
    }


class Identity:
    """The users, projects and endpoints of one cloud in Keystone."""

    def __init__(self, settings: Settings, secrets: dict[str, str]) -> None:
        self.settings = settings
        self.secrets = secrets
        self.keystone = connect(settings, 'admin', secrets['admin']).identity

    def make(self) -> None:
        self.roles = {role.name: role for role in self.keystone.roles()}
        for name in ROLES:
            if name not in self.roles:
                self.roles[name] = self.keystone.create_role(name=name)
        self.projects = {project.name: project for project in self.keystone.projects()}
        self.users = {user.name: user for user in self.keystone.users(domain_id='default')}
        for name in SERVICE_USERS:
            if name != 'climate':
                self._user(name, self.secrets['service'], 'service', ADMIN)
        self._climate()
        for name in MEMBERS:
            self._user(name, self.secrets[name], name, ['member', 'heat_stack_owner'])
        self._heat_domain()
        self._catalogue()
        self._limits()

    def _project(self, name: str):
        if name not in self.projects:
            self.projects[name] = self.keystone.create_project(name=name, domain_id='default')
        return self.projects[name]

    def _user(self, name: str, password: str, project_name: str, roles: Iterable[str]):
        project = self._project(project_name)
        user = self.users.get(name) or self.keystone.create_user(
            name=name, password=password, domain_id='default', default_project_id=project.id
        )
        for role in roles:
            self.keystone.assign_project_role_to_user(project, user, self.roles[role])
        return user

    def _climate(self) -> None:
        """Make Climate's user with the roles of the setting, and take those of the other one."""
        wanted, other = (LEAST, ADMIN) if self.settings.policies else (ADMIN, LEAST)
        user = self._user('climate', self.secrets['service'], 'service', wanted)
        for role in other - wanted:
            self.keystone.unassign_project_role_from_user(
                self.projects['service'], user, self.roles[role]
            )

    def _heat_domain(self) -> None:
        domain = self.keystone.find_domain('heat') or self.keystone.create_domain(name='heat')
        name = 'heat_domain_admin'
        user = self.keystone.find_user(name, domain_id=domain.id) or self.keystone.create_user(
            name=name, password=self.secrets['heat_domain'], domain_id=domain.id
        )
        self.keystone.assign_domain_role_to_user(domain, user, self.roles['admin'])

    def _catalogue(self) -> None:
        services = {service.type: service for service in self.keystone.services()}
        known = {(item.service_id, item.interface) for item in self.keystone.endpoints()}
        for name, (kind, path) in CATALOGUE.items():
            service = services.get(kind) or self.keystone.create_service(name=name, type=kind)
            url = self.settings.url('cinder' if name == 'cinderv3' else name) + path
            for interface in ('public', 'internal', 'admin'):
                if (service.id, interface) not in known:
                    self.keystone.create_endpoint(
                        service_id=service.id, interface=interface, region_id=REGION, url=url
                    )

    def _limits(self) -> None:
        """Register limits as :mod:`climate_core.cloud.limits` looks for them: by region."""
        service = self.keystone.find_service('climate')
        where = {'service_id': service.id, 'region_id': REGION}
        known = {each.resource_name for each in self.keystone.registered_limits(**where)}
        for name, most in LIMITS.items():
            if name not in known:
                self.keystone.create_registered_limit(
                    resource_name=name, default_limit=most, **where
                )
