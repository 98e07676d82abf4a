#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Add up the JUnit reports of one run and say the sum in one line.

Usage: count_tests.py REPORTS_DIR NUMBER_OF_SUITES [FAILED_SUITE ...]

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


def main(directory: str, suites: str, *failed_suites: str) -> int:
    reports = {path.stem: count(path) for path in sorted(pathlib.Path(directory).glob('*.xml'))}
    passed, failed, skipped = (sum(row[i] for row in reports.values()) for i in range(3))
    silent = [name for name in failed_suites if not reports.get(name, (0, 0, 0))[1]]
    failed += len(silent)
    passed += max(0, int(suites) - len(reports) - len(silent))
    for name, figures in reports.items():
        print('{}: {} passed, {} failed, {} skipped'.format(name, *figures))
    for name in failed_suites:
        print(f'failed suite: {name}')
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
