#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say what each suite of a run took, name the tests that failed, and say the sum in one line.

Usage: count_tests.py DIRECTORY. In it are

- ``times``: a line ``SUITE SECONDS STATUS USER SYSTEM`` for each suite that ran: how long it took,
  its exit status, and how many seconds of CPU it and what it waited for took;
- ``SUITE.xml`` and ``SUITE-PART.xml``: the reports.

A suite without a report (style, types, docs) counts as one test, and so does a suite that
failed without saying which test did. Each failed test is named as pytest takes it, with the
first line of its message. Exits 1 when anything failed or nothing ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Characters of a message that are shown: its beginning says what was wrong.
MESSAGE = 150


def count(report: pathlib.Path) -> tuple[int, int, int]:
    """Return (passed, failed, skipped) of one JUnit file."""
    suites = list(ET.parse(report).getroot().iter('testsuite'))

    def total(key: str) -> int:
        return sum(int(suite.get(key, 0)) for suite in suites)

    failed = total('failures') + total('errors')
    skipped = total('skipped')
    return total('tests') - failed - skipped, failed, skipped


def reports(directory: pathlib.Path, name: str) -> list[pathlib.Path]:
    """Return the reports of a suite, those of its parts last."""
    return [*directory.glob(f'{name}.xml'), *sorted(directory.glob(f'{name}-*.xml'))]


def node_id(case: ET.Element) -> str:
    """Return what pytest takes for a test: the file's path, the classes, the name.

    JUnit has the path and the classes as one dotted name: the longest part that is a file of
    this tree is the path.
    """
    parts = case.get('classname', '').split('.')
    name = case.get('name', '')
    for length in range(len(parts), 0, -1):
        path = '/'.join(parts[:length]) + '.py'
        if (ROOT / path).is_file():
            return '::'.join([path, *parts[length:], name])
    # A module that cannot be collected has no class, and its dotted name for a name.
    module = name.replace('.', '/') + '.py'
    return module if (ROOT / module).is_file() else '.'.join(filter(None, [*parts, name]))


def failures(report: pathlib.Path) -> Iterator[str]:
    """Yield a line for each test of one JUnit file that failed: its node id and its message."""
    for case in ET.parse(report).getroot().iter('testcase'):
        # A test can fail, and its fixtures after it, too: one line is enough.
        trouble = next((each for each in case if each.tag in ('failure', 'error')), None)
        if trouble is not None:
            message = (trouble.get('message') or trouble.text or '').strip().partition('\n')[0]
            yield f'{node_id(case)}  {message[:MESSAGE]}'.rstrip()


def minutes_of(seconds: float) -> str:
    """Write a number of seconds as minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f'{minutes:3} min {rest:02} s'


def of_suite(directory: pathlib.Path, name: str, status: int) -> tuple[int, int, int]:
    """Add up the reports of a suite."""
    paths = reports(directory, name)
    passed, failed, skipped = (
        (sum(part) for part in zip(*map(count, paths), strict=True)) if paths else (0, 0, 0)
    )
    if status and not failed:
        failed = 1
    elif not paths:
        passed = 1
    return passed, failed, skipped


def main(name: str) -> int:
    directory = pathlib.Path(name)
    total = (0, 0, 0)
    failed = []
    for line in (directory / 'times').read_text(encoding='ascii').splitlines():
        suite, seconds, status, *cpu = line.split()
        figures = of_suite(directory, suite, int(status))
        total = tuple(map(sum, zip(total, figures, strict=True)))
        took = f'{minutes_of(float(seconds))}, CPU {minutes_of(sum(map(float, cpu)))}'
        print(f'{suite:<10} {took}  {{}} passed, {{}} failed, {{}} skipped'.format(*figures))
        named = [
            f'{suite}: {each}' for path in reports(directory, suite) for each in failures(path)
        ]
        failed += named or [f'{suite}: exit status {status}, see its output'] * bool(figures[1])
    print(*failed, sep='\n', end='\n' * bool(failed))
    print('{} passed, {} failed, {} skipped'.format(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
