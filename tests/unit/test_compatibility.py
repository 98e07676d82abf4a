# SPDX-License-Identifier: Apache-2.0
"""The table of the page of compatibility, and the program that writes it."""

import csv
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = ROOT / 'tools/write_compatibility.py'
TABLE = ROOT / 'doc/source/reference/compatibility.csv'


def write(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def reports(directory: pathlib.Path, failures: int) -> pathlib.Path:
    (directory / 'times').write_text('unit 65 0 60.25 2.5\nstyle 9 0 9 1\n')
    (directory / 'unit.xml').write_text(
        f'<testsuite tests="9" failures="{failures}" errors="0" skipped="2"/>'
    )
    return directory


def test_suites_with_reports_follow_the_versions(tmp_path):
    lines = write(reports(tmp_path, failures=0)).stdout.splitlines()
    assert lines[0].startswith('OpenStack,20')
    assert lines[-2].startswith('SQLite,')
    assert lines[-1] == 'suite unit,7 tests passed'


def test_a_failed_run_writes_no_table(tmp_path):
    done = write(reports(tmp_path, failures=1))
    assert (done.returncode, done.stdout) == (1, '')
    assert done.stderr == 'unit: 1 failed\n'


def test_the_table_has_the_versions_of_the_lock_file():
    pattern = re.compile(r'^(?:openstack-)?(\w+)==(\S+)', re.MULTILINE)
    locked = dict(pattern.findall((ROOT / 'devstack/local/requirements.lock').read_text()))
    table = dict(csv.reader(TABLE.read_text().splitlines()))
    services = {name.lower(): version for name, version in table.items() if name.lower() in locked}
    assert len(services) == 8
    assert services == {name: locked[name] for name in services}
