# SPDX-License-Identifier: Apache-2.0
"""The local cloud, and the users who work with it."""

import configparser
import datetime
import functools
import json
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import openstack
from openstack import utils

from climateclient import exceptions
from climateclient.client import Client
from tests.cloud import scripts

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLOUD = ROOT / 'devstack' / 'local' / 'cloud'
STATE = pathlib.Path(os.environ.get('CLIMATE_CLOUD_DIR', ROOT / '.cloud'))
#: Climate's configuration on the cloud.
CONF = STATE / 'etc' / 'climate' / 'climate.conf'
REGION = 'RegionOne'

_AUTH = (
    'auth_url',
    'username',
    'password',
    'project_name',
    'user_domain_name',
    'project_domain_name',
)


def cloud(*arguments: str, check: bool = True) -> str:
    """Run the local cloud's command and return what it printed."""
    done = subprocess.run([CLOUD, *arguments], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def upgrade_check() -> str:
    """Return what ``climate-status upgrade check`` prints on the cloud, as one line."""
    command = [STATE / 'venv' / 'bin' / 'climate-status', '--config-file', CONF]
    done = subprocess.run(
        [*command, 'upgrade', 'check'], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    # The words are wrapped in a table.
    return ' '.join(done.stdout.replace('|', ' ').split())


def manage(*arguments: str) -> tuple[int, Any]:
    """Run climate-manage on the cloud's configuration; its exit status and what it found."""
    command = [sys.executable, '-m', 'climate_core.cmd.manage', '--config-file', str(CONF)]
    done = subprocess.run(
        [*command, *arguments, '--format', 'json'], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def pid(service: str) -> int:
    """Return the process id of a service, as ``cloud status`` shows it."""
    rows = [line.split() for line in cloud('status', check=False).splitlines()]
    [found] = [row for row in rows if row[0] == service]
    return int(found[1])


def configured(section: str, option: str) -> str:
    """Return the value of one of Climate's options on the cloud."""
    # oslo.config takes sections that are there twice, as tests add them.
    conf = configparser.ConfigParser(interpolation=None, strict=False)
    conf.read(CONF)
    return conf[section][option]


def at(**delta: float) -> str:
    """Return a time from now as a hint says it, in UTC with an offset."""
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(**delta)
    return when.isoformat(timespec='seconds')


def wait_for(look: Callable[[], Any], what: str, seconds: int = 300) -> Any:
    """Look until there is something, and return it; fail with ``what`` when it never comes."""
    for _ in utils.iterate_timeout(seconds, f'never seen: {what}', wait=0.5):
        found = look()
        if found:
            return found
    raise AssertionError('unreachable')


@functools.cache
def environment(user: str) -> Mapping[str, str]:
    """Return the variables that ``cloud env`` prints for a user."""
    variables = {}
    for line in cloud('env', user).splitlines():
        words = shlex.split(line)
        if words and words[0] == 'export':
            name, _, value = words[1].partition('=')
            variables[name] = value
    return variables


class Person:
    """A user with credentials on the cloud: ``sdk``, ``client`` and its ``leases``.

    :param variables: what the command line clients read from the environment
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.environment = variables
        region = variables.get('OS_REGION_NAME')
        self.sdk = openstack.connect(
            load_envvars=False,
            load_yaml_config=False,
            auth={key: variables[f'OS_{key.upper()}'] for key in _AUTH},
            region_name=region,
            compute_default_microversion='2.96',
        )
        self.client = Client(self.sdk.session, region_name=region)
        self.leases = self.client.leases

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command line client as this user."""
        return scripts.run(arguments, {**os.environ, **self.environment})

    def held(self) -> dict[str, int | None]:
        """Return what Climate counts for the project, by the name of the limit."""
        return {each.name: each.used for each in self.client.limits()}

    def trusts(self) -> set[str]:
        """Return the ids of the trusts that this user has made."""
        query = {'trustor_user_id': self.sdk.current_user_id}
        found = self.sdk.identity.get('/OS-TRUST/trusts', params=query).json()['trusts']
        return {trust['id'] for trust in found}

    def lease_of(self, resource_id: str) -> Any:
        """Return the lease that reserves a resource; fail if there is none."""
        (lease,) = self.leases.list(resource_id=resource_id)
        return lease

    def wait_lease(self, lease_id: str, *statuses: str) -> Any:
        """Wait until a lease has one of these statuses, and return it."""

        def look() -> Any:
            lease = self.leases.get(lease_id)
            return lease if lease.status in statuses else None

        try:
            return wait_for(look, f'lease {lease_id} in {statuses}')
        except openstack.exceptions.ResourceTimeout as exc:
            shown = [(each.id, each.status, each.status_reason) for each in self.leases.list()]
            raise AssertionError(f'{exc}; the leases of the project are {shown}') from exc

    def wait_lease_gone(self, lease_id: str) -> None:
        """Wait until a lease that was deleted has ended: nothing of it is counted any more."""

        def look() -> bool:
            try:
                self.leases.get(lease_id)
            except exceptions.NotFound:
                return True
            return False

        wait_for(look, f'lease {lease_id} gone')


def member_of(admin: Person, name: str) -> Person:
    """Return an ordinary member of a project that only these tests use; make what is missing.

    :param name: of the project and of the user
    """
    identity = admin.sdk.identity
    password = f'{name}-{admin.environment["OS_PASSWORD"]}'
    project = identity.find_project(name) or identity.create_project(
        name=name, domain_id='default'
    )
    user = identity.find_user(name) or identity.create_user(
        name=name, password=password, domain_id='default'
    )
    give_roles(admin, project, user)
    return Person(
        {
            **environment('demo'),
            'OS_PROJECT_NAME': name,
            'OS_USERNAME': name,
            'OS_PASSWORD': password,
        }
    )


def give_roles(admin: Person, project: Any, user: Any) -> None:
    """Make a user a member of a project who may create stacks."""
    identity = admin.sdk.identity
    for role in ('member', 'heat_stack_owner'):
        identity.assign_project_role_to_user(project, user, identity.find_role(role))
