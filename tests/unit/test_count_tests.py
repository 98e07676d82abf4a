# SPDX-License-Identifier: Apache-2.0
"""What a run of all suites says at its end."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / 'tools' / 'count_tests.py'


@pytest.fixture
def count(tmp_path):
    """Run the program on reports: (passed, failed, skipped), and test cases if need be.

    It gives the program's status and its lines.
    """

    def run(times, **reports):
        (tmp_path / 'times').write_text(times)
        for name, (passed, failed, skipped, *cases) in reports.items():
            (tmp_path / f'{name.replace("_", "-")}.xml').write_text(
                f'<testsuites><testsuite tests="{passed + failed + skipped}" failures="{failed}" '
                f'errors="0" skipped="{skipped}">{"".join(cases)}</testsuite></testsuites>'
            )
        done = subprocess.run(
            [sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.splitlines()

    return run


def test_count_adds_up_the_parts_of_a_suite_and_shows_its_time(count):
    status, lines = count(
        'unit 65 0 60.25 2.5\ncloud 130 0 9 1\n',
        unit=(5, 0, 1),
        cloud=(3, 0, 0),
        cloud_alone=(2, 0, 0),
    )
    assert status == 0
    assert lines == [
        'unit         1 min 05 s, CPU   1 min 03 s  5 passed, 0 failed, 1 skipped',
        'cloud        2 min 10 s, CPU   0 min 10 s  5 passed, 0 failed, 0 skipped',
        '10 passed, 0 failed, 1 skipped',
    ]


def test_count_takes_a_suite_without_report_as_one_test(count):
    status, lines = count('style 1 0 1 0\ntypes 2 1 1 0\n')
    assert (status, lines[-1]) == (1, '1 passed, 1 failed, 0 skipped')


@pytest.mark.parametrize('failed', [0, 2])
def test_count_fails_with_a_suite_that_failed(count, failed):
    status, lines = count('unit 1 2\n', unit=(5, failed, 0))
    assert (status, lines[-1]) == (1, f'5 passed, {failed or 1} failed, 0 skipped')


def case(classname, name, inside=''):
    return f'<testcase classname="{classname}" name="{name}">{inside}</testcase>'


MODULE = 'tests.unit.test_count_tests'
PATH = 'tests/unit/test_count_tests.py'


@pytest.mark.parametrize(
    ('failed', 'line'),
    [
        (
            case(
                MODULE, 'test_one[a.b]', '<failure message="assert 1 == 2&#10; + more">E</failure>'
            ),
            f'{PATH}::test_one[a.b]  assert 1 == 2',
        ),
        (
            case(f'{MODULE}.TestTwo', 'test_two', '<error message=" No database&#10;more"/>'),
            f'{PATH}::TestTwo::test_two  No database',
        ),
        (
            case('', MODULE, '<error message="collection failure">E</error>'),
            f'{PATH}  collection failure',
        ),
        (
            case(MODULE, 'test_long', f'<failure message="{"x" * 151}"/><error message="y"/>'),
            f'{PATH}::test_long  {"x" * 150}',
        ),
        (
            case('tests.no_module', 'test_three', '<failure>TypeError: three&#10;E</failure>'),
            'tests.no_module.test_three  TypeError: three',
        ),
    ],
    ids=['function', 'class', 'collection', 'long', 'no file'],
)
def test_count_names_what_failed_before_the_sum(count, failed, line):
    good = case(MODULE, 'test_good'), case(MODULE, 'test_left_out', '<skipped message="none"/>')
    status, lines = count(
        'unit 1 1\ncloud 1 1\n', unit=(1, 0, 1, *good), unit_part=(0, 1, 0, failed)
    )
    assert status == 1
    assert lines[2:] == [
        f'unit: {line}',
        'cloud: exit status 1, see its output',
        '1 passed, 2 failed, 1 skipped',
    ]


def test_count_of_nothing_fails(count):
    assert count('') == (1, ['0 passed, 0 failed, 0 skipped'])
