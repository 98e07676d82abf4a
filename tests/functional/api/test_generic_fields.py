# SPDX-License-Identifier: Apache-2.0
"""A generic row in the table of lease fields is all that API, clients and Heat need."""

import pathlib
import subprocess
import sys

import pytest

from climate_common import lease_fields

_ROOT = pathlib.Path(__file__).parents[3]


@pytest.mark.parametrize('folder', ['functional/api', 'functional/heat', 'dashboard'])
def test_generic_row_of_each_type(folder: str) -> None:
    file = f'tests/{folder}/generic_fields.py'
    options = [
        '-q',
        '-W',
        'ignore',
        '-p',
        'no:cacheprovider',
        '-p',
        'tests.support.generic_fields',
    ]
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', *options, file],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_texts_of_requests_have_a_maximum() -> None:
    for field in lease_fields.FIELDS:
        if field.type == lease_fields.TEXT and field.set_by:
            assert field.maximum < lease_fields.LARGEST, field.name
