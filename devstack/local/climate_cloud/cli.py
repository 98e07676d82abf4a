# SPDX-License-Identifier: Apache-2.0
"""The commands."""

import argparse
import logging
import shlex
import subprocess
import sys

from openstack.exceptions import SDKException
from rich.console import Console

from climate_cloud import identity, lock, person
from climate_cloud.cloud import Cloud
from climate_cloud.processes import ServiceFailed
from climate_cloud.rabbitmq import NOTIFICATIONS
from climate_cloud.settings import SettingsError, load

console = Console(highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Print one line of progress at once."""
    console.print(f'  {text}', markup=False)
    sys.stdout.flush()


def up(cloud: Cloud, _: argparse.Namespace) -> int:
    """install what is missing and bring the cloud up"""
    with lock.exclusive(cloud.settings) as descriptor:
        cloud.up(descriptor)
    return 0


def demo(cloud: Cloud, options: argparse.Namespace) -> int:
    """bring the cloud up and run the main job, step by step"""
    from climate_cloud import demo as story

    try:
        up(cloud, options)
    except (ServiceFailed, SDKException) as error:
        say(str(error))
        console.print('demo: failed: the cloud is not up', markup=False)
        return 1
    return story.main(cloud, options.start_in, options.length)


def status(cloud: Cloud, _: argparse.Namespace) -> int:
    """show every process; exit 0 only if all are up"""
    states = cloud.status()
    for name, state in states.items():
        pid = cloud.processes.pid(name) or ''
        console.print(f'{name:18} {pid!s:>8}  {state}', markup=False)
    return 0 if set(states.values()) == {'up'} else 1


def env(cloud: Cloud, options: argparse.Namespace) -> int:
    """print the variables for the clients: eval "$(cloud env [USER])" """
    variables = person.variables(cloud, options.user) | {
        'OS_CLIENT_CONFIG_FILE': cloud.settings.state / 'clouds.yaml',
        'CLIMATE_CLOUD_DIR': cloud.settings.state,
        'CLIMATE_CLOUD_VENV': cloud.settings.venv,
        'CLIMATE_CLOUD_TRANSPORT_URL': cloud.rabbitmq.url(vhost=NOTIFICATIONS),
        'CLIMATE_CLOUD_DATABASE_URL': cloud.mariadb.url('climate'),
    }
    if cloud.settings.ceph:
        variables['CEPH_CONF'] = cloud.ceph.config
    if cloud.settings.horizon:
        variables['CLIMATE_CLOUD_HORIZON_URL'] = cloud.horizon.url
    for name, value in variables.items():
        print(f'export {name}={shlex.quote(str(value))}')
    print(f'export PATH={shlex.quote(str(cloud.settings.bin))}:"$PATH"')
    return 0


def logs(cloud: Cloud, options: argparse.Namespace) -> int:
    """list the logs, or show the end of one (-f: and follow it)"""
    if not options.service:
        for path in sorted(cloud.settings.logs.glob('*.log')):
            console.print(f'{path.stem:18} {path.stat().st_size:>10}  {path}', markup=False)
        return 0
    path = cloud.processes.log(options.service)
    if not path.exists():
        print(f'cloud: there is no log of {options.service!r}', file=sys.stderr)
        return 1
    follow = ['-F'] if options.follow else []
    return subprocess.call(['tail', '-n', str(options.lines), *follow, str(path)])


def down(cloud: Cloud, _: argparse.Namespace) -> int:
    """stop the cloud and keep its state"""
    with lock.exclusive(cloud.settings):
        cloud.down()
    return 0


def restart(cloud: Cloud, options: argparse.Namespace) -> int:
    """stop some services and start them again, with the code as it is now"""
    with lock.exclusive(cloud.settings):
        cloud.restart(options.services)
    return 0


def destroy(cloud: Cloud, _: argparse.Namespace) -> int:
    """stop the cloud and remove its state"""
    with lock.exclusive(cloud.settings):
        cloud.destroy()
    return 0


def install(cloud: Cloud, _: argparse.Namespace) -> int:
    """only install what is missing; print the virtual environment's path"""
    print(cloud.settings.venv)
    return 0


def relock(_: Cloud, __: argparse.Namespace) -> int:
    """write requirements.lock anew with today's releases"""
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='cloud', description='A real OpenStack with Climate.')
    commands = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    table = {
        'up': up, 'demo': demo, 'status': status, 'env': env, 'logs': logs, 'down': down,
        'restart': restart,
        'destroy': destroy, 'install': install, 'lock': relock,
    }  # fmt: skip
    for name, action in table.items():
        command = commands.add_parser(name, help=action.__doc__)
        command.set_defaults(action=action)
        if name == 'env':
            users = ['admin', *identity.MEMBERS, *identity.SERVICE_USERS]
            command.add_argument('user', nargs='?', default='demo', choices=users)
        elif name == 'restart':
            command.add_argument('services', nargs='+', metavar='SERVICE')
        elif name == 'logs':
            command.add_argument('service', nargs='?')
            command.add_argument('-f', '--follow', action='store_true')
            command.add_argument('-n', '--lines', type=int, default=100)
        elif name == 'demo':
            seconds = {'type': int, 'metavar': 'SECONDS'}
            command.add_argument(
                '--start-in', **seconds, default=20, help='until a lease starts (20)'
            )
            command.add_argument(
                '--length', **seconds, default=20, help='from then on until it ends (20)'
            )
    return parser


def main() -> int:
    options = _parser().parse_args()
    # What libraries warn about is for the logs of services, not for our few lines.
    logging.basicConfig(level=logging.ERROR)
    try:
        return options.action(Cloud(load(), say), options)
    except (SettingsError, ServiceFailed, SDKException) as error:
        print(f'cloud: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        told = 'interrupted; the same command goes on from here, "down" stops what runs'
        print(f'\ncloud: {told}', file=sys.stderr)
        return 130
