# SPDX-License-Identifier: Apache-2.0
"""The service where everybody is an operator, and the openstack command in front of it."""

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib import parse

import pytest
from oslo_policy import policy

from climate_core import conf as configuration
from climate_core.cmd import manage
from climate_core.cmd.manage import serve
from climate_core.db.engine import Database
from climate_core.plugins.base import ResourcePlugin
from tests.functional.api import world
from tests.support import shell
from tests.support.fakes import cloud_server, settings

Run = Callable[..., Any]
ADMIN = {'X-Roles': 'admin,member,reader'}


@contextlib.contextmanager
def serving(directory: pathlib.Path, rules: list[policy.RuleDefault]) -> Iterator[str]:
    """Run the service without Keystone; everybody may what the rules are about."""
    with cloud_server.running(directory / 'journal') as fake:
        (directory / 'policy.yaml').write_text('\n'.join(f'{r.name}: "@"' for r in rules))
        cloud = [f'{name} = {value}' for name, value in settings.cloud_options(fake.url).items()]
        lines = ['[cloud]', *cloud, '[oslo_policy]', f'policy_file = {directory}/policy.yaml']
        (directory / 'climate.conf').write_text('\n'.join(lines))
        words = ['serve', '--noauth', '--port', '0', '--state-dir', str(directory)]
        conf = configuration.load(words, [str(directory / 'climate.conf')], cli=[manage.command()])
        with serve.serving(conf) as url:
            yield url


def runner(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command that must work, and gives what it printed with -f json."""
    openstack = shell.prepared({'OS_AUTH_TYPE': 'none', 'OS_ENDPOINT': url}, capsys, monkeypatch)

    def run(*argv: str) -> Any:
        status, out, err = openstack(*argv)
        assert status == 0, out + err
        # Some commands of Blazar say in words what they have done.
        found = [out.index(each) for each in '{[' if each in out]
        return json.loads(out[min(found) :]) if found else None

    return run


@contextlib.contextmanager
def application(
    directory: pathlib.Path, database: Database, plugin: type[ResourcePlugin]
) -> Iterator[Any]:
    """Run the API with a plugin, in front of a fake cloud."""
    with cloud_server.running(directory / 'journal') as fake:
        options = settings.cloud_options(fake.url).items()
        conf = world.configure(directory, *(('cloud', name, value) for name, value in options))
        conf.register_opts(plugin.options, group=plugin.resource_type)
        with world.running(conf, database, plugin) as made:
            yield made


def windows(application: Any, *reservations: dict[str, Any]) -> list[tuple[str, str]]:
    """Return when an hour of reservations would be granted from 10 o'clock on."""
    values = {
        'reservations': json.dumps(reservations),
        'duration': '1h',
        'from': '2099-01-01 10:00',
        'to': '2099-01-02 10:00',
    }
    found = ask(application, 'GET', f'/v1/availability?{parse.urlencode(values)}')['windows']
    return [(each['start_date'][11:16], each['end_date'][11:16]) for each in found]


def ask(application: Any, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    return world.ask(application, method, path, body, ADMIN, status).json
