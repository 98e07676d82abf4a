# SPDX-License-Identifier: Apache-2.0
"""Threads share the arenas of malloc, unless the operator says how many there are."""

import os
import platform
import subprocess
import sys

import pytest

ASK = 'from climate_core import process; print(process.share_arenas())'


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='is for glibc')
@pytest.mark.parametrize(('chosen', 'done'), [({}, 'True'), ({'MALLOC_ARENA_MAX': '8'}, 'False')])
def test_arenas_are_shared_unless_the_operator_chose(chosen: dict[str, str], done: str) -> None:
    env = {name: each for name, each in os.environ.items() if name != 'MALLOC_ARENA_MAX'}
    asked = subprocess.run(
        [sys.executable, '-c', ASK], env=env | chosen, capture_output=True, text=True, check=True
    )
    assert asked.stdout.strip() == done
