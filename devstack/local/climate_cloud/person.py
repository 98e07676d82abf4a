# SPDX-License-Identifier: Apache-2.0
"""Users of the cloud, with commands and with the SDK."""

import functools
import os
import shlex
import subprocess

from rich.console import Console

from climate_cloud import identity
from climate_cloud.cloud import Cloud
from climateclient.client import Client

#: Shows hints and locked reasons, and reports power states.
COMPUTE_VERSION = '2.96'

console = Console(highlight=False, soft_wrap=True)


class CommandFailed(Exception):
    """A command that should work did not."""


def variables(cloud: Cloud, user: str) -> dict[str, str]:
    """Return what the command line clients read from the environment."""
    account = identity.account(cloud.settings, user, cloud.password(user))
    auth = {f'OS_{key.upper()}': str(value) for key, value in account['auth'].items()}
    return auth | {
        'OS_AUTH_TYPE': 'password',
        'OS_REGION_NAME': identity.REGION,
        'OS_IDENTITY_API_VERSION': '3',
        'OS_COMPUTE_API_VERSION': COMPUTE_VERSION,
    }


class Person:
    """A user in the project that goes with it; see :mod:`climate_cloud.identity`."""

    def __init__(self, cloud: Cloud, user: str) -> None:
        self.cloud = cloud
        self.user = user

    @functools.cached_property
    def sdk(self):
        connection = self.cloud.connection(self.user)
        connection.compute.default_microversion = COMPUTE_VERSION
        return connection

    @functools.cached_property
    def leases(self):
        return Client(self.sdk.session, region_name=identity.REGION).leases

    def types(self, *words: str) -> None:
        """Run a command and show it with what it prints.

        :raises CommandFailed: its exit status is not 0
        """
        console.print(f'  $ {shlex.join(words)}', markup=False)
        program = self.cloud.settings.bin / words[0]
        done = subprocess.run(
            [str(program), *words[1:]],
            capture_output=True,
            text=True,
            env={**os.environ, **variables(self.cloud, self.user)},
            check=False,
        )
        for line in done.stdout.splitlines():
            console.print(f'    {line}', markup=False)
        if done.returncode:
            raise CommandFailed(f'"{shlex.join(words)}": {done.stderr.strip()}')
