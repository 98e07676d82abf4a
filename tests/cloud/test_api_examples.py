# SPDX-License-Identifier: Apache-2.0
"""The examples of the API reference are what the cloud answers."""

import pathlib
import subprocess
import sys

import pytest

from tests.cloud.people import ROOT

# It adds a host, an address and a segment, and lists what there is.
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures('pool')]

FOLDER = ROOT / 'doc' / 'api_examples'


def read(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob('*.json')}


def test_examples_are_captured_again(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, FOLDER / 'capture.py', tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    captured, stored = read(tmp_path), read(FOLDER)
    assert captured.keys() == stored.keys()
    for name, text in captured.items():
        assert text == stored[name], f'{name}: run doc/api_examples/capture.py, and commit'
