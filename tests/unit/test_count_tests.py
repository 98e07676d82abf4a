# SPDX-License-Identifier: Apache-2.0
"""What a run of all suites says at its end."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / 'tools' / 'count_tests.py'


@pytest.fixture
def count(tmp_path):
    """Runs the program on reports (passed, failed, skipped); gives its status and its lines."""

    def run(times, **reports):
        (tmp_path / 'times').write_text(times)
        for name, (passed, failed, skipped) in reports.items():
            (tmp_path / f'{name.replace("_", "-")}.xml').write_text(
                f'<testsuites><testsuite tests="{passed + failed + skipped}" failures="{failed}" '
                f'errors="0" skipped="{skipped}"/></testsuites>'
            )
        done = subprocess.run(
            [sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.splitlines()

    return run


def test_count_adds_up_the_parts_of_a_suite_and_shows_its_time(count):
    status, lines = count(
        'unit 65 0\ncloud 130 0\n', unit=(5, 0, 1), cloud=(3, 0, 0), cloud_alone=(2, 0, 0)
    )
    assert status == 0
    assert lines == [
        'unit         1 min 05 s  5 passed, 0 failed, 1 skipped',
        'cloud        2 min 10 s  5 passed, 0 failed, 0 skipped',
        '10 passed, 0 failed, 1 skipped',
    ]


def test_count_takes_a_suite_without_report_as_one_test(count):
    status, lines = count('style 1 0\ntypes 2 1\n')
    assert (status, lines[-1]) == (1, '1 passed, 1 failed, 0 skipped')


@pytest.mark.parametrize('failed', [0, 2])
def test_count_fails_with_a_suite_that_failed(count, failed):
    status, lines = count('unit 1 2\n', unit=(5, failed, 0))
    assert (status, lines[-1]) == (1, f'5 passed, {failed or 1} failed, 0 skipped')


def test_count_of_nothing_fails(count):
    assert count('') == (1, ['0 passed, 0 failed, 0 skipped'])
