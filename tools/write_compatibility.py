#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what a run of the tests ran on: the table of the page of compatibility.

Usage: write_compatibility.py [DIRECTORY] > doc/source/reference/compatibility.csv. Run it with
the Python that ran the tests. DIRECTORY has the reports, as for count_tests.py: without it the
table has the versions only. Exits 1 if a test failed.
"""

import csv
import importlib.metadata
import pathlib
import platform
import re
import shutil
import sqlite3
import subprocess
import sys

import count_tests

#: A service of OpenStack -> its distribution.
SERVICES = {
    'Nova': 'nova',
    'Cinder': 'cinder',
    'Heat': 'openstack-heat',
    'Horizon': 'horizon',
    'Keystone': 'keystone',
    'Placement': 'openstack-placement',
    'Neutron': 'neutron',
    'Glance': 'glance',
}
#: A server -> the commands that print its version; the first that exists counts.
SERVERS = {
    'MariaDB': (['mariadbd', '--version'], ['/usr/sbin/mariadbd', '--version']),
    'PostgreSQL': (['psql', '--version'],),
    'RabbitMQ': (['rabbitmqctl', '--version'],),
}
#: The major version of Nova in OpenStack 2025.1; two releases a year follow.
NOVA_2025_1 = 31


def release(nova: str) -> str:
    """Return the release of OpenStack of a version of Nova."""
    years, half = divmod(int(nova.partition('.')[0]) - NOVA_2025_1, 2)
    return f'{2025 + years}.{half + 1}'


def server_version(*commands: list[str]) -> str:
    """Return the version that a command prints, or "not installed"."""
    for command in commands:
        if shutil.which(command[0]):
            printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            if found := re.search(r'\d+\.[\d.]*\d', printed):
                return found[0]
    return 'not installed'


def versions() -> list[tuple[str, str]]:
    """Return a row for each component of the environment."""
    services = {name: importlib.metadata.version(dist) for name, dist in SERVICES.items()}
    return [
        ('OpenStack', release(services['Nova'])),
        *services.items(),
        ('Python', platform.python_version()),
        *((name, server_version(*commands)) for name, commands in SERVERS.items()),
        ('SQLite', sqlite3.sqlite_version),
    ]


def suites(directory: pathlib.Path) -> list[tuple[str, str]]:
    """Return a row for each suite with reports; exit if a test failed."""
    rows = []
    for line in (directory / 'times').read_text(encoding='ascii').splitlines():
        suite, _, status, *_ = line.split()
        passed, failed, _ = count_tests.of_suite(directory, suite, int(status))
        if failed:
            sys.exit(f'{suite}: {failed} failed')
        if count_tests.reports(directory, suite):
            rows.append((f'suite {suite}', f'{passed} tests passed'))
    return rows


def main(*names: str) -> None:
    rows = [row for name in names for row in suites(pathlib.Path(name))]
    csv.writer(sys.stdout, lineterminator='\n').writerows([*versions(), *rows])


if __name__ == '__main__':
    main(*sys.argv[1:])
