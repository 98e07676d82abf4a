#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say what each suite of a run took, add up their JUnit reports, and say the sum in one line.

Usage: count_tests.py DIRECTORY. In it are

- ``times``: a line ``SUITE SECONDS STATUS`` for each suite that ran, STATUS its exit status;
- ``SUITE.xml`` and ``SUITE-PART.xml``: the reports.

A suite without a report (style, types, docs) counts as one test, and so does a suite that
failed without saying which test did. Exits 1 when anything failed or nothing ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ET


def count(report: pathlib.Path) -> tuple[int, int, int]:
    """Return (passed, failed, skipped) of one JUnit file."""
    suites = list(ET.parse(report).getroot().iter('testsuite'))

    def total(key: str) -> int:
        return sum(int(suite.get(key, 0)) for suite in suites)

    failed = total('failures') + total('errors')
    skipped = total('skipped')
    return total('tests') - failed - skipped, failed, skipped


def of_suite(directory: pathlib.Path, name: str, status: int) -> tuple[int, int, int]:
    """Add up the reports of a suite."""
    paths = [*directory.glob(f'{name}.xml'), *directory.glob(f'{name}-*.xml')]
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
    for line in (directory / 'times').read_text(encoding='ascii').splitlines():
        suite, seconds, status = line.split()
        figures = of_suite(directory, suite, int(status))
        total = tuple(map(sum, zip(total, figures, strict=True)))
        minutes, rest = divmod(int(seconds), 60)
        says = '{} passed, {} failed, {} skipped'.format(*figures)
        print(f'{suite:<10} {minutes:3} min {rest:02} s  {says}')
    print('{} passed, {} failed, {} skipped'.format(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
