# SPDX-License-Identifier: Apache-2.0
"""Run ``gabbits/*.yaml``."""

import pathlib
from typing import Any

import pytest

from tests.functional.api.gabbi_files import HERE, run_file


@pytest.mark.parametrize('file', sorted(HERE.glob('*.yaml')), ids=lambda file: file.stem)
def test_requests_are_answered_as_the_file_says(file: pathlib.Path, application: Any) -> None:
    run_file(file, application)
